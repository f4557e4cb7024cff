/* SPDX-License-Identifier: MIT */
/*
 * sharding.h - how a job's ranks divide a model: tensor, pipeline, context, expert and data parallelism, and what one rank holds of it.
 *
 * Pure; never allocates. Counts saturate.
 */
#pragma once

#include "plan/estimate.h"

/* Every number at least 1. dp: ranks that hold the same dense parameters; expert_dp: the same routed experts. */
struct uma_sharding {
    uint32_t tp, pp, cp, ep, expert_tp;
    uint64_t ranks, dp, expert_dp;
    uint32_t stages; /* model chunks that one rank of the pipeline holds */
};
/* Ranks are nodes x gpus, and never fewer than the parallel dimensions ask for. */
struct uma_sharding uma_sharding_of(const struct uma_train *train);

/* Ranks that share out optimizer states (gradients too from ZeRO-2, parameters from ZeRO-3 and FSDP); 1: every rank has its own. */
struct uma_sharing {
    uint64_t parameters, gradients, optimizer;
};
struct uma_sharing uma_sharing_of(const struct uma_train *train, uint64_t data_parallel);

/* Whether a layer is on a stage (1..pp). Layers are dealt out evenly, chunk after chunk; an odd rest goes to the first chunks. */
bool uma_sharding_has_layer(const struct uma_sharding *sharding, uint32_t layers, uint32_t layer, uint32_t stage);

/* Parameters on one rank, divided by what divides them. */
struct uma_rank_params {
    uint64_t dense;   /* all but routed experts */
    uint64_t experts; /* routed experts */
};
/* Of one layer: matrices by tp (experts by ep and expert_tp; the low-rank inputs of MLA, routers and norms are on every rank), biases, norms. */
struct uma_rank_params uma_sharding_layer_params(const struct uma_sharding *sharding, const struct uma_model *model, uint32_t index);

/* Parameters on one rank of LoRA adapters of `rank` on the layer's matrices named by `targets` (UMA_LINEAR_BIT; 0: all but routers). */
uint64_t uma_sharding_layer_adapter(const struct uma_sharding *sharding, const struct uma_model *model, uint32_t index, uint32_t rank,
                                    uint64_t targets);

/* vocab rounded up to a multiple of `multiple` x tp (Megatron --make-vocab-size-divisible-by). */
uint64_t uma_sharding_vocab(uint64_t vocab, uint32_t multiple, uint32_t tp);
