/* SPDX-License-Identifier: MIT */
/*
 * SGLang. --mem-fraction-static is a fraction of what is free once the process and its NCCL stand, and it counts the weights and the KV pool
 * alone: pool = free after the weights - free before them x (1 - fraction) (model_executor/model_runner_kv_cache_mixin.py,
 * profile_max_num_token; in model_runner.py before). Activations and CUDA graphs live in the rest. So a start that fails at the weights needs
 * a HIGHER fraction, one that fails while capturing graphs or serving a LOWER one.
 */
#include "plan/serving.h"

#include "plan/serving_common.h"

/* What server_args.py reserves for each sequence of the largest captured batch. */
static const uint64_t graph_bytes_per_batch = UINT64_C(2) << 20;
/* FlashInfer's workspace is 384 MiB (environ.py, SGLANG_FLASHINFER_WORKSPACE_SIZE; 512 for some Qwen architectures); cuBLAS's and loaded
 * kernels come to the rest. */
static const uint64_t workspaces = UINT64_C(512) << 20;
/* Tokenizer, scheduler and detokenizer are processes that import torch. Assumed to come to what vLLM's do: no measurement of SGLang's was found. */
static const uint64_t host_bytes = UINT64_C(3) << 30, host_high = UINT64_C(4608) << 20;

void uma_serve_fixed_sglang(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate,
                            struct uma_serve_budget *ret_budget) {
    uint64_t weights = uma_serve_add_weights(model, serve, estimate);
    uint64_t before = uma_plus(UMA_SERVE_CONTEXT_BYTES, uma_serve_nccl_bytes(serve));
    uma_estimate_sum(estimate);
    *ret_budget = (struct uma_serve_budget){ .of = uma_minus(serve->pool, before), .fixed = weights };
}

static void add_outside(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate) {
    uint64_t per_token = uma_serve_token_bytes(model, serve->tp);
    /* only last positions get logits, bf16 and fp32 */
    uint64_t logits = uma_times(uma_times(serve->sequences, model->vocab), 6);
    uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, uma_plus(uma_times(serve->batched_tokens, per_token), logits), 0.3, 1,
                     "sglang chunked prefill; widest layer", "activations of a prefill chunk",
                     "%llu tokens x %llu B + %llu sequences x %llu vocab x 6 B", (unsigned long long)serve->batched_tokens,
                     (unsigned long long)per_token, (unsigned long long)serve->sequences, (unsigned long long)model->vocab);
    uint64_t graphs = serve->cuda_graphs == UMA_NO ? 0 : uma_times(uma_serve_graph_batch(serve), graph_bytes_per_batch);
    if (graphs)
        uma_estimate_add(estimate, UMA_TERM_COMPUTE_BUFFERS, graphs, 0.6, 3, "sglang server_args.py: 2 MiB x largest captured batch",
                         "CUDA graphs", "largest captured batch %u x 2 MiB", uma_serve_graph_batch(serve));
    uma_estimate_add(estimate, UMA_TERM_OVERHEAD, workspaces, 0.3, 1, "sglang environ.py: SGLANG_FLASHINFER_WORKSPACE_SIZE", "workspaces",
                     "384 MiB + cuBLAS and kernels");
    uint64_t nccl = uma_serve_nccl_bytes(serve);
    if (nccl) /* 1.77..2.01 GB a rank with eight H200 */
        uma_estimate_add(estimate, UMA_TERM_OVERHEAD, nccl, 0.3, 4, "AIConfigurator systems/*.yaml nccl_mem; sglang PR 11716", "NCCL",
                         "342 MiB for 2 ranks, 392 MiB for more; 2 GB seen with 8");
}

static void add_flags(const struct uma_serve *serve, const struct uma_serve_budget *budget, uint64_t needed,
                      struct uma_estimate *estimate) {
    uint64_t pool = uma_plus(budget->fixed, needed);
    uma_serve_flag_fraction(serve, "--mem-fraction-static", pool, budget->of, estimate);
    uma_estimate_flag(estimate, "--context-length %llu", (unsigned long long)serve->context);
    uma_estimate_flag(estimate, "--max-running-requests %llu", (unsigned long long)serve->sequences);
    uma_estimate_flag(estimate, "--chunked-prefill-size %llu", (unsigned long long)serve->batched_tokens);
    if (serve->tp > 1)
        uma_estimate_flag(estimate, "--tp-size %u", serve->tp);
    if (serve->pp > 1)
        uma_estimate_flag(estimate, "--pp-size %u", serve->pp);
    if (serve->nodes > 1)
        uma_estimate_flag(estimate, "--nnodes %u", serve->nodes);
    if (serve->key_format == UMA_FORMAT_FP8)
        uma_estimate_flag(estimate, "--kv-cache-dtype fp8_e4m3");
    /* The names of all releases: those of 2026 (sglang PR 23906) still take them, with a warning (server_args.py). */
    if (serve->cuda_graphs == UMA_NO)
        uma_estimate_flag(estimate, "--disable-cuda-graph");
    else
        uma_estimate_flag(estimate, "--cuda-graph-max-bs %u", uma_serve_graph_batch(serve));
}

int uma_plan_serve_sglang(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *ret_estimate,
                          struct uma_error *err) {
    (void)err;
    struct uma_estimate estimate = { 0 };
    struct uma_serve_budget budget;
    uma_serve_fixed_sglang(model, serve, &estimate, &budget);
    uint64_t needed = uma_serve_kv_bytes(model, serve, serve->context, serve->sequences);
    uma_serve_add_kv(model, serve, &budget, needed, &estimate);
    uint32_t within = estimate.term_count;
    add_outside(model, serve, &estimate);
    uma_serve_sum_within(serve, &budget, within, &estimate);
    add_flags(serve, &budget, needed, &estimate);
    uma_serve_finish(model, serve, host_bytes, host_high, &estimate);
    uma_estimate_warn(&estimate,
                      "--mem-fraction-static counts weights and KV cache alone: raise it when the start fails with \"Not enough memory\", "
                      "lower it when capturing graphs or serving runs out (near 1 it freezes a machine of one pool)");
    if (serve->weights == UMA_FORMAT_FP8)
        uma_estimate_warn(&estimate,
                          "FP8 on load has kept the 16-bit weights beside it in some releases: 13.73 became 19.99 GB (sglang issue 8337)");
    *ret_estimate = estimate;
    return 0;
}
