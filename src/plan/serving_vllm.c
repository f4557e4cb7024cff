/* SPDX-License-Identifier: MIT */
/*
 * vLLM. --gpu-memory-utilization is a fraction of all of the device's memory, on a GB10 of the whole pool, and the engine takes all of it
 * whatever the model needs: after the weights are loaded it runs one step of the largest size, and what that leaves of the fraction becomes
 * KV cache (vllm/v1/worker/gpu_worker.py, determine_available_memory). Counted is what grows after the first snapshot (mem_utils.py,
 * memory_profiling), so the CUDA context stands outside of the fraction, and the processes' own host memory. What CUDA graphs will take is
 * estimated and comes off as well since v0.21 (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS); before, they stood beside the fraction.
 */
#include "plan/serving.h"

#include "plan/serving_common.h"

/*
 * Sequences that the sampler is warmed up with: max_num_seqs, by default 256, and 1024 on a device of 70 GiB and more that is no A100
 * (vllm/engine/arg_utils.py, get_batch_defaults). The flags of the answer set the number of sequences that was asked for, or 256, so that the
 * estimate holds.
 */
enum { DEFAULT_SEQUENCES = 256 };
/*
 * Bytes per logit while the profile samples with top-k and top-p, counted, not fitted: logits in 16 bits and in fp32 (2 + 4), and of
 * torch.sort the values and int64 indices and its second buffer for both (2 x 12) - the sorting sampler of
 * vllm/v1/sample/ops/topk_topp_sampler.py. Checked on Llama-3-8B (PR 10511: 1.26 GiB with one rank and with two, so nothing that is
 * divided by ranks; this gives 1.04) and Qwen3.8-27B on two RTX 5090 (club-3090 issue 1087: 1.59 GiB; 1.82). Its FlashInfer and Triton paths,
 * the default of 2026, hold 14 (logits 2 + 4, masked logits or noise 4, probabilities 4): 256 sequences take half, the 1024 of the default
 * 1.9 times as much.
 */
enum { LOGIT_BYTES = 30 };
/* Graphs are captured for sizes up to 512 tokens: 1, 2, 4, then steps of 8 to 256 and of 16 to 512, and never above twice max_num_seqs
 * (vllm/config/vllm.py, _set_cudagraph_sizes). */
enum { GRAPH_TOKENS = 512, GRAPH_FINE = 256 };
/* Nodes and kernel arguments of one captured layer and size. Chosen so that with one step's activations it gives the 0.07..0.09 GiB that vLLM
 * reports as really taken (DeepSeek-V4-Flash on one GB10, Qwen3.8-27B on two RTX 5090), where its own estimates were 0.13..0.68. */
enum { GRAPH_LAYER_BYTES = 16 << 10 };
/* cuBLAS and FlashInfer workspaces and kernels loaded while profiling: 0.2..0.37 GiB in vLLM 0.8 and later (PR 14447, club-3090 issue 1087);
 * 1.8 GiB in releases before the context was left out of the count (PR 10511). */
static const uint64_t non_torch = UINT64_C(307) << 20;
/*
 * Host memory of the API server and the engine's processes, which on one pool counts as well: a remainder, not a measurement. vLLM 0.28 on a
 * GB10 took 5.4..6.7 GiB beside weights and KV cache (llamastash PR 81); with the context, workspaces and activations of a usual model off,
 * about 2..4.5 are left.
 */
static const uint64_t host_bytes = UINT64_C(3) << 30, host_high = UINT64_C(4608) << 20;

static uint64_t sampled_sequences(const struct uma_serve *serve) {
    uint64_t n = serve->sequences > 1 ? serve->sequences : DEFAULT_SEQUENCES;
    return n < serve->batched_tokens ? n : serve->batched_tokens;
}

/*
 * The tower runs over as many patches as fill a step's tokens (profile_run's encoder budget). Four patches make one token (2 x 2 merging);
 * a patch holds the residual, q, k, v and a feed-forward of four times the width, 2 x (2 + 4 + 8) v bytes. The results, one hidden state a
 * token, stay while the language model is profiled.
 */
static uint64_t add_vision(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate) {
    if (!model->has_vision || model->vision_hidden == 0)
        return 0;
    uint64_t tokens = serve->batched_tokens > model->vision_tokens ? serve->batched_tokens : model->vision_tokens;
    uint64_t tower = uma_times(uma_times(4, tokens), uma_times(28, model->vision_hidden)),
             kept = uma_times(tokens, 2 * (uint64_t)model->hidden);
    uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, kept, 0.5, 1, "vllm gpu_model_runner.py, profile_run",
                     "image embeddings of the profile", "%llu tokens x %u hidden x 2 B", (unsigned long long)tokens, model->hidden);
    return tower;
}

/*
 * The widest layer is what mainline's code holds. DeepSeek-V4-Flash on one GB10 peaked at 680 kB a token, two and a half times that: it was
 * served by a fork with EXL3 experts and kernels of its own (MiaAI-Lab/DeepSeek-v4-Flash-One-DGX-Spark), of whose buffers nothing is known.
 */
static void add_activations(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate) {
    uint64_t tower = add_vision(model, serve, estimate);
    uint64_t per_token = uma_serve_token_bytes(model, serve->tp), layer = uma_times(serve->batched_tokens, per_token);
    uint64_t sampled = sampled_sequences(serve);
    uint64_t logits =
        uma_plus(uma_times(uma_times(sampled, model->vocab), LOGIT_BYTES), uma_times(serve->batched_tokens, 4 * (uint64_t)model->hidden));
    static const char source[] = "vllm gpu_model_runner.py, profile_run; PR 10511";
    if (tower > layer && tower > logits)
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, tower, 0.5, 1.5, source, "profile run: image tower",
                         "4 patches a token x 28 B x %u wide", model->vision_hidden);
    else if (layer > logits)
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, layer, 0.3, 1, source, "profile run: widest layer", "%llu tokens x %llu B",
                         (unsigned long long)serve->batched_tokens, (unsigned long long)per_token);
    else
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, logits, 0.5, 0.9, source, "profile run: sampling",
                         "%llu sequences x %llu vocab x %d B + %llu tokens x %u hidden x 4 B", (unsigned long long)sampled,
                         (unsigned long long)model->vocab, LOGIT_BYTES, (unsigned long long)serve->batched_tokens, model->hidden);
}

struct graphs {
    uint64_t tokens, sizes, bytes;
};

static struct graphs count_graphs(const struct uma_model *model, const struct uma_serve *serve) {
    if (serve->cuda_graphs == UMA_NO)
        return (struct graphs){ 0 };
    struct graphs g = { .tokens = MIN_OF(2 * sampled_sequences(serve), (uint64_t)GRAPH_TOKENS) };
    g.sizes = 1 + (uint64_t)(g.tokens >= 2) + (uint64_t)(g.tokens >= 4) + MIN_OF(g.tokens, (uint64_t)GRAPH_FINE) / 8 +
              uma_minus(g.tokens, GRAPH_FINE) / 16;
    g.bytes =
        uma_plus(uma_times(g.tokens, uma_serve_token_bytes(model, serve->tp)), uma_times(model->layer_count * g.sizes, GRAPH_LAYER_BYTES));
    return g;
}

void uma_serve_fixed_vllm(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate,
                          struct uma_serve_budget *ret_budget) {
    uma_serve_add_weights(model, serve, estimate);
    add_activations(model, serve, estimate);
    uma_estimate_add(estimate, UMA_TERM_OVERHEAD, non_torch, 0.35, 5, "vllm PR 14447, PR 10511", "workspaces outside torch",
                     "0.2..0.37 GiB, 1.8 in old releases");
    uint64_t nccl = uma_serve_nccl_bytes(serve);
    if (nccl)
        uma_estimate_add(estimate, UMA_TERM_OVERHEAD, nccl, 0.5, 3, "AIConfigurator systems/*.yaml nccl_mem; vllm PR 10511", "NCCL",
                         "342 MiB for 2 ranks, 392 MiB for more");
    struct graphs graphs = count_graphs(model, serve);
    if (graphs.bytes)
        uma_estimate_add(estimate, UMA_TERM_COMPUTE_BUFFERS, graphs.bytes, 0.4, 4, "measured on a GB10 and on RTX 5090: 0.07..0.09 GiB",
                         "CUDA graphs", "%llu tokens of activations + %u layers x %llu sizes x 16 KiB", (unsigned long long)graphs.tokens,
                         model->layer_count, (unsigned long long)graphs.sizes);
    uma_estimate_sum(estimate);
    *ret_budget = (struct uma_serve_budget){ .of = serve->pool, .fixed = estimate->total };
}

static void add_flags(const struct uma_serve *serve, uint64_t fixed, uint64_t needed, struct uma_estimate *estimate) {
    uint64_t all = uma_plus(fixed, needed);
    uma_serve_flag_fraction(serve, "--gpu-memory-utilization", all, serve->pool, estimate);
    uma_estimate_flag(estimate, "--max-model-len %llu", (unsigned long long)serve->context);
    uma_estimate_flag(estimate, "--max-num-seqs %llu", (unsigned long long)sampled_sequences(serve));
    uma_estimate_flag(estimate, "--max-num-batched-tokens %llu", (unsigned long long)serve->batched_tokens);
    if (serve->tp > 1)
        uma_estimate_flag(estimate, "--tensor-parallel-size %u", serve->tp);
    if (serve->pp > 1)
        uma_estimate_flag(estimate, "--pipeline-parallel-size %u", serve->pp);
    if (serve->key_format == UMA_FORMAT_FP8)
        uma_estimate_flag(estimate, "--kv-cache-dtype fp8");
    /* config/cache.py: not None, it makes the engine ignore --gpu-memory-utilization, so not where a fraction was asked for */
    if (!(serve->fraction > 0) && needed > 0 && (serve->pool == 0 || all <= serve->pool))
        uma_estimate_flag(estimate, "--kv-cache-memory-bytes %llu", (unsigned long long)needed);
    if (serve->cuda_graphs == UMA_NO)
        uma_estimate_flag(estimate, "--enforce-eager");
}

int uma_plan_serve_vllm(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *ret_estimate,
                        struct uma_error *err) {
    (void)err;
    struct uma_estimate estimate = { 0 };
    struct uma_serve_budget budget;
    uma_serve_fixed_vllm(model, serve, &estimate, &budget);
    uint64_t needed = uma_serve_kv_bytes(model, serve, serve->context, serve->sequences);
    uma_serve_add_kv(model, serve, &budget, needed, &estimate);
    uma_serve_sum_within(serve, &budget, estimate.term_count, &estimate);
    add_flags(serve, budget.fixed, needed, &estimate);
    uma_serve_finish(model, serve, host_bytes, host_high, &estimate);
    uma_estimate_warn(&estimate,
                      "vLLM takes all of --gpu-memory-utilization x the pool whatever it needs (0.9 to 0.92 by default): a lower value "
                      "frees memory for others; too low ends in \"No available memory for the cache blocks\"");
    uma_estimate_warn(&estimate,
                      "beyond the estimate while starting: torch.compile took over 30 GB of host memory on a 26B (spark-vllm-docker "
                      "PR 286), a profile run 112 GiB of a budget of 83 (vllm issue 46307)");
    *ret_estimate = estimate;
    return 0;
}
