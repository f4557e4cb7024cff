/* SPDX-License-Identifier: MIT */
/*
 * serving_common.h - what vLLM, SGLang and TensorRT-LLM have in common: the part of the weights that one rank of a tensor- and
 * pipeline-parallel job holds, the activations of the tokens that one step takes, and the process around it. All bytes are per rank. Pure.
 *
 * The engines lay a model out alike: vLLM's parallel layers (vllm/model_executor/layers/linear.py, vocab_parallel_embedding.py) come from
 * Megatron's, SGLang's from vLLM's, and TensorRT-LLM splits along the same lines.
 */
#pragma once

#include "plan/estimate.h"

/* A process's CUDA context, its libraries loaded, before the first tensor: NVML shows 741,326,848 bytes on a GB10 (vllm PR 55828). */
#define UMA_SERVE_CONTEXT_BYTES UINT64_C(741326848)

struct uma_rank_weights {
    uint64_t classes[UMA_CLASS_COUNT];
    uint64_t vocab_padding;  /* rows that make the vocabulary a multiple of 64 */
    uint64_t kernel_padding; /* MXFP4 experts padded to what the kernels take */
    uint64_t absorbed;       /* MLA: the projections that are kept multiplied out beside quantised ones */
    uint64_t total;          /* all of it */
    uint64_t unloaded;       /* MTP layers that stay in the file */
};
void uma_serve_rank_weights(const struct uma_model *model, const struct uma_serve *serve, struct uma_rank_weights *ret_weights);
/* The same as terms of the estimate, with the drafter and projector of `serve`. Returns their sum. */
uint64_t uma_serve_add_weights(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate);

/* Bytes that one token of a step holds at the widest place of any layer. */
uint64_t uma_serve_token_bytes(const struct uma_model *model, uint32_t tp);
/* KV cache of so many sequences of so many tokens, in whole pages of the engine, on one rank. */
uint64_t uma_serve_kv_bytes(const struct uma_model *model, const struct uma_serve *serve, uint64_t context, uint64_t sequences);
/* NCCL's buffers of a rank; 0 where there is nobody to talk to. */
uint64_t uma_serve_nccl_bytes(const struct uma_serve *serve);
/* reserved, context, host, device and load of an estimate that is summed. */
void uma_serve_finish(const struct uma_model *model, const struct uma_serve *serve, uint64_t host, uint64_t host_high,
                      struct uma_estimate *estimate);
/* SGLang: the largest batch that a CUDA graph is captured for. */
uint32_t uma_serve_graph_batch(const struct uma_serve *serve);
/* What the engine takes when no fraction is given; 1 for engines without one. */
double uma_serve_default_fraction(const struct uma_serve *serve);
/* needed / of, rounded up to a hundredth; 0 when of is 0, at most 1. */
double uma_serve_fraction(uint64_t needed, uint64_t of);

/*
 * The engine's option for its fraction: the one that was asked for; else needed / of. None where that would leave less than a twentieth of the
 * pool to everything else, or is more than there is: nobody should start an engine with it.
 */
void uma_serve_flag_fraction(const struct uma_serve *serve, const char *option, uint64_t needed, uint64_t of,
                             struct uma_estimate *estimate);

/* The memory of an engine before its KV cache: the cache may take fraction x of - fixed. */
struct uma_serve_budget {
    uint64_t of;    /* what the fraction is a fraction of; 0: not known */
    uint64_t fixed; /* what comes off the fraction of it */
};
uint64_t uma_serve_budget_kv(const struct uma_serve_budget *budget, double fraction); /* 0: nothing is left */

/*
 * The cache as a term, and sums. With a fraction of a known pool it is what the fraction leaves, needed or not, with a warning where that is
 * less than one sequence or less than asked for; else it is `needed`.
 */
void uma_serve_add_kv(const struct uma_model *model, const struct uma_serve *serve, const struct uma_serve_budget *budget, uint64_t needed,
                      struct uma_estimate *estimate);
/*
 * Sum again after terms beside the cache were added. Where the cache fills a fraction, the first `terms_within` terms make up for each
 * other's errors, so only what stands beside them spans.
 */
void uma_serve_sum_within(const struct uma_serve *serve, const struct uma_serve_budget *budget, uint32_t terms_within,
                          struct uma_estimate *estimate);

/* serving_vllm.c, serving_sglang.c, serving_trt_llm.c: every term but those that come after the cache, and the budget of the cache. */
typedef void uma_serve_fixed_fn(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate,
                                struct uma_serve_budget *ret_budget);
uma_serve_fixed_fn uma_serve_fixed_vllm;
uma_serve_fixed_fn uma_serve_fixed_sglang;
uma_serve_fixed_fn uma_serve_fixed_trt_llm;
