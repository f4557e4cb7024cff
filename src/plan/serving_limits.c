/* SPDX-License-Identifier: MIT */
#include "plan/serving_limits.h"

#include "base/error.h"
#include "plan/serving_common.h"

#include <inttypes.h>
#include <math.h>

/* Where the model does not say what it was trained for, and a bound that no scheduler comes near. */
#define CONTEXT_MAX (UINT64_C(1) << 24)
#define SEQUENCES_MAX (UINT64_C(1) << 20)

static int device_bytes(const struct uma_model *model, const struct uma_serve *serve, bool high, uint64_t *ret_bytes,
                        struct uma_error *err) {
    struct uma_estimate estimate;
    int r = uma_plan_serve(model, serve, &estimate, err);
    if (r < 0)
        return r;
    *ret_bytes = high ? estimate.device_high : estimate.device;
    return 0;
}

/* The largest n in 0..end with which the job fits; memory grows with n. */
static int largest(const struct uma_model *model, struct uma_serve *serve, uint64_t *number, uint64_t end, uint64_t budget, bool high,
                   uint64_t *ret_largest, struct uma_error *err) {
    uint64_t fits = 0;
    while (fits < end) {
        uint64_t bytes = 0;
        *number = fits + (end - fits + 1) / 2;
        int r = device_bytes(model, serve, high, &bytes, err);
        if (r < 0)
            return r;
        if (bytes <= budget)
            fits = *number;
        else
            end = *number - 1;
    }
    *ret_largest = fits;
    return 0;
}

int uma_serve_max_context(const struct uma_model *model, const struct uma_serve *serve, uint64_t budget, bool high, uint64_t *ret_context,
                          struct uma_error *err) {
    struct uma_serve probe = *serve;
    uma_serve_defaults(model, &probe);
    probe.fraction = 0;
    uint64_t end = model->max_position ? model->max_position : CONTEXT_MAX;
    return largest(model, &probe, &probe.context, end < CONTEXT_MAX ? end : CONTEXT_MAX, budget, high, ret_context, err);
}

int uma_serve_max_sequences(const struct uma_model *model, const struct uma_serve *serve, uint64_t budget, bool high,
                            uint64_t *ret_sequences, struct uma_error *err) {
    struct uma_serve probe = *serve;
    uma_serve_defaults(model, &probe);
    probe.fraction = 0;
    return largest(model, &probe, &probe.sequences, SEQUENCES_MAX, budget, high, ret_sequences, err);
}

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

int uma_serve_fractions(const struct uma_model *model, const struct uma_serve *serve, uint64_t budget, double *ret_needed,
                        double *ret_allowed, struct uma_error *err) {
    uma_serve_fixed_fn *fixed = fixed_of(serve->engine);
    if (!fixed)
        return uma_error_text(err, EINVAL, "this engine has no fraction of memory");
    struct uma_serve probe = *serve;
    uma_serve_defaults(model, &probe);
    probe.fraction = 0;
    struct uma_estimate with = { 0 }, whole;
    struct uma_serve_budget room;
    fixed(model, &probe, &with, &room);
    int r = uma_plan_serve(model, &probe, &whole, err);
    if (r < 0)
        return r;
    uint64_t cache = uma_serve_kv_bytes(model, &probe, probe.context, probe.sequences);
    /* all but the fraction's own share stands beside it, whatever the fraction */
    uint64_t beside = uma_minus(whole.device, uma_plus(room.fixed, cache));
    double allowed = 0;
    if (room.of && budget > beside) {
        allowed = floor((double)(budget - beside) / (double)room.of * 100) / 100;
        allowed = allowed < 1 ? allowed : 1;
    }
    *ret_needed = uma_serve_fraction(uma_plus(room.fixed, cache), room.of);
    *ret_allowed = allowed;
    return 0;
}

/* ---- capacity of a pool ------------------------------------------------------------------------------------- */

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
