/* SPDX-License-Identifier: MIT */
/*
 * serving.h - one entry point per serving engine, behind uma_plan_serve. Pure; nothing here reads the machine.
 *
 * What an entry point may rely on: `serve` has passed uma_serve_defaults and the checks of uma_plan_serve, so context, sequences, tp, pp,
 * nodes, batch, ubatch and batched_tokens are > 0 and bounded, truths are YES or NO, the KV formats are set, and `serve->engine` is theirs.
 * What it owes: an estimate per rank with its terms added and summed (uma_estimate_sum), reserved, context, device, device_high, host, load,
 * warnings and flags. *ret_estimate is untouched on failure.
 */
#pragma once

#include "plan/estimate.h"
#include "uma_plan.h"

typedef int uma_plan_serve_fn(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *ret_estimate,
                              struct uma_error *err);

/* serving_llama_cpp.c: llama.cpp and ik_llama.cpp, and Ollama, which runs the same graphs. */
uma_plan_serve_fn uma_plan_serve_llama_cpp;
/* serving_transformers.c: generate() of transformers, litgpt, torchao: no engine, a dynamic cache. */
uma_plan_serve_fn uma_plan_serve_transformers;
/* serving_vllm.c, serving_sglang.c, serving_trt_llm.c */
uma_plan_serve_fn uma_plan_serve_vllm;
uma_plan_serve_fn uma_plan_serve_sglang;
uma_plan_serve_fn uma_plan_serve_trt_llm;

/* llama.cpp, and Ollama, which runs it: their models are GGUF files. */
static inline bool uma_serve_reads_gguf(enum uma_engine engine) {
    return engine == UMA_ENGINE_LLAMA_CPP || engine == UMA_ENGINE_OLLAMA;
}
/* Weights that nobody has quantised: 16 or 32 bits, or a format that nothing is known of. */
static inline bool uma_serve_is_wide(enum uma_format format) {
    return format == UMA_FORMAT_UNKNOWN || format == UMA_FORMAT_F32 || format == UMA_FORMAT_F16 || format == UMA_FORMAT_BF16;
}
/*
 * Bytes of a class of weights in this job: as stored, or, where the job asks for a format, as that would store it. A format of 16 bits and
 * more takes every class; a quantised one the linears (attention, mixer, feed-forward, experts), and of those only what is not quantised yet.
 */
uint64_t uma_serve_class_bytes(const struct uma_model *model, const struct uma_serve *serve, enum uma_class class_);
/* llama.cpp and Ollama: the files at hand are no GGUF, so one of the format that was asked for is made before it is served. */
bool uma_serve_is_converted(const struct uma_model *model, const struct uma_serve *serve);
/* How far off weights may be: nothing when summed from tensors; else what quantisers do to single tensors is not known. */
double uma_serve_weight_span(const struct uma_model *model, const struct uma_serve *serve);
/* An uma_kv_cache of the job. */
void uma_serve_kv(const struct uma_model *model, const struct uma_serve *serve, struct uma_kv *ret_kv);
/* Largest feed-forward, query and key widths of any layer (elements per token). */
struct uma_widths {
    uint64_t ffn;     /* dense, or one routed expert with the shared ones */
    uint64_t experts; /* per token: experts_per_token x the size of one; 0 in a dense model */
    uint64_t active;  /* experts_per_token */
    uint64_t q, kv;   /* heads x head_dim; kv_heads x (head_dim + v_head_dim) */
    uint64_t heads;
    bool mla, window, full; /* layers of that kind are there */
};
void uma_serve_widths(const struct uma_model *model, struct uma_widths *ret_widths);
