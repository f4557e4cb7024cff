/* SPDX-License-Identifier: MIT */
/*
 * training_megatron.h - a Megatron-Core model on one rank: its states, and what each layer keeps from its forward to its backward pass.
 *
 * Start: Korthikanti et al., Reducing Activation Recomputation (arXiv:2205.05198), there for GPT with dropout: 34 s b h bytes and 5 a s^2 b of
 * scores per layer. Here each tensor is counted by itself, so that GQA, SwiGLU, RMSNorm without dropout, flash attention, MLA, experts and
 * Mamba follow from the same list. Checked on memory that Megatron-LM's functional tests record (tests/functional_tests/test_cases).
 */
#pragma once

#include "plan/sharding.h"

struct uma_megatron_job {
    const struct uma_model *model;
    const struct uma_train *train;
    struct uma_sharding sharding;
    uint64_t tokens;                                          /* of a micro batch on this rank: divided by cp */
    uint64_t seq;                                             /* the whole sequence: what a score row is long */
    uint32_t sequence_shards;                                 /* tp with sequence parallelism, else 1: what divides norms and residuals */
    bool transformer_engine, scores_kept, dropout, fp8, half; /* half: fp16, not bf16 */
};
struct uma_megatron_job uma_megatron_job_of(const struct uma_model *model, const struct uma_train *train);

/* Bytes that one layer keeps of one micro batch, what selective checkpointing names left out. */
uint64_t uma_megatron_layer_activations(const struct uma_megatron_job *job, uint32_t layer);
/* Of that, bytes that depend on how many tokens the router sends here. */
uint64_t uma_megatron_expert_activations(const struct uma_megatron_job *job, uint32_t layer);

/* What one rank of one stage holds. */
struct uma_megatron_stage {
    uint32_t number; /* 1..pp */
    bool first, last;
    uint32_t layers, matrices;
    uint64_t dense, experts, matrices_params;
    uint64_t activations, routed; /* bytes of one micro batch through all its chunks; of that what the router decides */
    uint64_t largest;             /* bytes of its largest layer */
    uint64_t adapter;             /* parameters of LoRA adapters on this rank */
};

/* Terms of parameters, gradients and optimizer, or of a frozen model and its adapters; of a reference model. */
void uma_megatron_add_states(struct uma_estimate *estimate, const struct uma_megatron_job *job, const struct uma_megatron_stage *stage);
/* Bytes between two steps that are gone at the peak: 16-bit gradients cast to fp32 for the optimizer, until the next step clears them. */
uint64_t uma_megatron_cast_gradients(const struct uma_megatron_job *job, const struct uma_megatron_stage *stage);
