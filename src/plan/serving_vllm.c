/* SPDX-License-Identifier: MIT */
/*
 * vLLM. --gpu-memory-utilization is a fraction of all of the device's memory, on a GB10 of the whole pool, and the engine takes all of it
 * whatever the model needs: after the weights are loaded it runs one step of the largest size, and what that leaves of the fraction becomes
 * KV cache (vllm/v1/worker/gpu_worker.py, determine_available_memory). The CUDA context stands outside of the fraction, and so do
 * the CUDA graphs, which are captured later, and the processes' own host memory.
 */
#include "plan/serving.h"

#include "plan/serving_common.h"

/*
 * Sequences that the sampler is warmed up with: max_num_seqs, 256 by default (1024 on devices of 70 GiB in newer versions:
 * EngineArgs.get_batch_defaults). The flags of the answer set it, so that the estimate holds.
 */
enum { DEFAULT_SEQUENCES = 256 };
/*
 * Bytes per logit while the warm-up samples with top-k and top-p. Fitted on vllm PR 10511: Llama-3-8B's profile peaked at 1.26 GiB with one
 * rank and with two, so no term divided by ranks explains it; 256 x 128256 logits at 37 B and 8192 hidden states do. Of that order is what
 * sampling holds: bf16 and fp32 logits 2 + 4, sorted values and int64 indices 4 + 8 and the sort's second copy of both, probabilities 4, a
 * mask 1. One model of one old release: the span is wide, and no other row checks it.
 */
enum { LOGIT_BYTES = 37 };
/* Graphs are captured for sizes up to 512 tokens (1, 2, 4, then steps of 8 to 256 and of 16 to 512). */
enum { GRAPH_TOKENS = 512, GRAPH_SIZES = 51 };
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
    uint64_t n = serve->sequences > DEFAULT_SEQUENCES ? serve->sequences : DEFAULT_SEQUENCES;
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
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, logits, 0.5, 0.5, source, "profile run: sampling",
                         "%llu sequences x %llu vocab x %d B + %llu tokens x %u hidden x 4 B", (unsigned long long)sampled,
                         (unsigned long long)model->vocab, LOGIT_BYTES, (unsigned long long)serve->batched_tokens, model->hidden);
}

static uint64_t graph_bytes(const struct uma_model *model, const struct uma_serve *serve) {
    if (serve->cuda_graphs == UMA_NO)
        return 0;
    return uma_plus(uma_times(GRAPH_TOKENS, uma_serve_token_bytes(model, serve->tp)),
                    uma_times((uint64_t)model->layer_count * GRAPH_SIZES, GRAPH_LAYER_BYTES));
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
    uma_estimate_sum(estimate);
    *ret_budget = (struct uma_serve_budget){ .of = serve->pool, .fixed = estimate->total };
}

static void add_flags(const struct uma_serve *serve, uint64_t fixed, uint64_t needed, struct uma_estimate *estimate) {
    uint64_t all = uma_plus(fixed, needed);
    if (serve->pool)
        uma_estimate_flag(estimate, "--gpu-memory-utilization %.2f", uma_serve_fraction(all, serve->pool));
    uma_estimate_flag(estimate, "--max-model-len %llu", (unsigned long long)serve->context);
    uma_estimate_flag(estimate, "--max-num-seqs %llu", (unsigned long long)sampled_sequences(serve));
    uma_estimate_flag(estimate, "--max-num-batched-tokens %llu", (unsigned long long)serve->batched_tokens);
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
    uint64_t needed = uma_serve_kv_bytes(model, serve, serve->context, serve->sequences), graphs = graph_bytes(model, serve);
    uma_serve_add_kv(model, serve, &budget, needed, &estimate);
    uint32_t within = estimate.term_count;
    if (graphs)
        uma_estimate_add(&estimate, UMA_TERM_COMPUTE_BUFFERS, graphs, 0.4, 4, "measured on a GB10 and on RTX 5090: 0.07..0.09 GiB",
                         "CUDA graphs", "%d tokens of activations + %u layers x %d sizes x 16 KiB", GRAPH_TOKENS, model->layer_count,
                         GRAPH_SIZES);
    uma_serve_sum_within(serve, &budget, within, &estimate);
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
