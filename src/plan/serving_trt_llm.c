/* SPDX-License-Identifier: MIT */
/*
 * TensorRT-LLM. free_gpu_memory_fraction is a fraction of what is free after the weights are loaded and a step of the largest size has run:
 * cache = (total - peak, everything outside of torch included) x fraction (tensorrt_llm/_torch/pyexecutor/_util.py, KvCacheCreator,
 * _cal_max_tokens), in blocks of 32 tokens. A sequence keeps max_seq_len.
 */
#include "plan/serving.h"

#include "plan/serving_common.h"

/*
 * What a rank holds beside weights and activations: CUDA context, cuBLAS and attention workspaces, sampler, captured graphs of the dry run.
 * Fitted on AIConfigurator's published maximum sequences of Llama-3.1-8B. With the context, six settings on one H100 leave 2.1..2.5 GiB open
 * between n and n + 1 sequences, those on one GB300 2.6..2.8: the value, 2.6 with the context, was taken between the two. One model, and both
 * devices were used: not checked on rows beside these.
 */
static const uint64_t runtime = UINT64_C(1946) << 20;
/*
 * All-reduce workspaces and NCCL's own buffers, fitted on the same rows of both devices: 1.2 GiB more with two ranks than with one, 2.0 with
 * four. A further doubling is taken to add 0.8 again; no row has eight.
 */
static uint64_t all_reduce_bytes(const struct uma_serve *serve) {
    uint64_t bytes = 0;
    for (uint32_t ranks = serve->tp; ranks > 1; ranks /= 2)
        bytes += bytes ? UINT64_C(819) << 20 : UINT64_C(1229) << 20;
    return bytes;
}

/* The engine's processes on the host: assumed to come to what vLLM's do; not measured. */
static const uint64_t host_bytes = UINT64_C(3) << 30, host_high = UINT64_C(4608) << 20;

void uma_serve_fixed_trt_llm(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate,
                             struct uma_serve_budget *ret_budget) {
    uma_serve_add_weights(model, serve, estimate);
    uint64_t per_token = uma_serve_token_bytes(model, serve->tp);
    uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, uma_times(serve->batched_tokens, per_token), 0.3, 0.7,
                     "widest layer; within 15 % of AIConfigurator's 2 x tokens x h x (11, 6.5, 5)", "largest step", "%llu tokens x %llu B",
                     (unsigned long long)serve->batched_tokens, (unsigned long long)per_token);
    uma_estimate_add(estimate, UMA_TERM_OVERHEAD, runtime, 0.3, 0.6,
                     "fitted on AIConfigurator's capacity rows of Llama-3.1-8B, H100 and GB300", "runtime", "workspaces, sampler, graphs");
    uint64_t all_reduce = all_reduce_bytes(serve);
    if (all_reduce)
        uma_estimate_add(estimate, UMA_TERM_OVERHEAD, all_reduce, 0.3, 0.3, "fitted on the same rows with 2 and 4 ranks; 8 extrapolated",
                         "all-reduce and NCCL", "1.2 GiB for 2 ranks, 0.8 GiB more for each doubling");
    uma_estimate_sum(estimate);
    *ret_budget = (struct uma_serve_budget){ .of = uma_minus(serve->pool, uma_plus(estimate->total, UMA_SERVE_CONTEXT_BYTES)) };
}

int uma_plan_serve_trt_llm(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *ret_estimate,
                           struct uma_error *err) {
    (void)err;
    struct uma_estimate estimate = { 0 };
    struct uma_serve_budget budget;
    uma_serve_fixed_trt_llm(model, serve, &estimate, &budget);
    uint64_t needed = uma_serve_kv_bytes(model, serve, serve->context, serve->sequences);
    uma_serve_add_kv(model, serve, &budget, needed, &estimate);
    uma_serve_sum_within(serve, &budget, estimate.term_count, &estimate);
    uma_serve_flag_fraction(serve, "--kv_cache_free_gpu_memory_fraction", needed, budget.of, &estimate);
    uma_estimate_flag(&estimate, "--max_seq_len %llu", (unsigned long long)serve->context);
    uma_estimate_flag(&estimate, "--max_batch_size %llu", (unsigned long long)serve->sequences);
    uma_estimate_flag(&estimate, "--max_num_tokens %llu", (unsigned long long)serve->batched_tokens);
    if (serve->tp > 1)
        uma_estimate_flag(&estimate, "--tp_size %u", serve->tp);
    if (serve->pp > 1)
        uma_estimate_flag(&estimate, "--pp_size %u", serve->pp);
    uma_serve_finish(model, serve, host_bytes, host_high, &estimate);
    uma_estimate_warn(&estimate,
                      "free_gpu_memory_fraction is of what is free AFTER the weights, 0.9 by default, and on one pool \"free\" is what the "
                      "whole system has left: a lower value frees memory for others and costs cache alone");
    *ret_estimate = estimate;
    return 0;
}
