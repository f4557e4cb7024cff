/* SPDX-License-Identifier: MIT */
/* serving_capacity.c - how many tokens and sequences an engine gets out of a pool. */
#include "plan/serving_common.h"

#include "base/error.h"

static uma_serve_fixed_fn *fixed_of(enum uma_engine engine) {
    switch (engine) {
    case UMA_ENGINE_VLLM:
        return uma_serve_fixed_vllm;
    case UMA_ENGINE_SGLANG:
        return uma_serve_fixed_sglang;
    case UMA_ENGINE_TRT_LLM:
        return uma_serve_fixed_trt_llm;
    default:
        return NULL;
    }
}

/* Engines without a fraction: what the pool has beside everything but the cache. */
static int plain_budget(const struct uma_model *model, const struct uma_serve *serve, struct uma_serve_budget *ret_budget,
                        struct uma_error *err) {
    struct uma_estimate estimate;
    struct uma_serve probe = *serve;
    probe.sequences = 1;
    int r = uma_plan_serve(model, &probe, &estimate, err);
    if (r < 0)
        return r;
    *ret_budget = (struct uma_serve_budget){ .of = serve->pool, .fixed = uma_minus(estimate.device, estimate.groups[UMA_TERM_KV_CACHE]) };
    return 0;
}

int uma_serve_capacity(const struct uma_model *model, const struct uma_serve *serve, uint64_t pool, uint64_t max_seq_len,
                       uint64_t *ret_kv_bytes, uint64_t *ret_tokens, uint64_t *ret_sequences, struct uma_error *err) {
    struct uma_serve probe = *serve;
    probe.pool = pool;
    probe.context = max_seq_len ? max_seq_len : serve->context;
    uma_serve_defaults(model, &probe);
    struct uma_estimate estimate = { 0 };
    struct uma_serve_budget budget;
    int r = uma_plan_serve(model, &probe, &estimate, err); /* refuses what cannot be */
    if (r < 0)
        return r;
    uma_serve_fixed_fn *fixed = fixed_of(probe.engine);
    if (fixed) {
        estimate = (struct uma_estimate){ 0 };
        fixed(model, &probe, &estimate, &budget);
    } else if ((r = plain_budget(model, &probe, &budget, err)) < 0)
        return r;
    uint64_t kv = uma_serve_budget_kv(&budget, probe.fraction > 0 ? probe.fraction : uma_serve_default_fraction(&probe));
    uint64_t one = uma_serve_kv_bytes(model, &probe, probe.context, 1);
    if (one == 0)
        return uma_error_text(err, EINVAL, "this model keeps no cache: nothing limits its sequences");
    *ret_kv_bytes = kv;
    *ret_tokens = uma_scale(kv, (double)probe.context / (double)one);
    *ret_sequences = kv / one;
    return 0;
}
