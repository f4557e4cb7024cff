/* SPDX-License-Identifier: MIT */
/*
 * estimate.h - building an estimate term by term, in arithmetic that saturates instead of wrapping. Pure; never allocates.
 */
#pragma once

#include "base/cleanup.h"
#include "uma_plan.h"

static inline uint64_t uma_plus(uint64_t a, uint64_t b) {
    uint64_t r;
    return __builtin_add_overflow(a, b, &r) ? UINT64_MAX : r;
}
static inline uint64_t uma_minus(uint64_t a, uint64_t b) { /* not below 0 */
    return a > b ? a - b : 0;
}
static inline uint64_t uma_times(uint64_t a, uint64_t b) {
    uint64_t r;
    return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}
static inline uint64_t uma_divide_up(uint64_t a, uint64_t b) { /* b > 0 */
    return a / b + (a % b != 0);
}
static inline uint64_t uma_round_up(uint64_t a, uint64_t multiple) { /* multiple > 0 */
    return uma_times(uma_divide_up(a, multiple), multiple);
}
/* a x ratio, rounded; ratio finite and >= 0. */
uint64_t uma_scale(uint64_t a, double ratio);

/* Anonymous memory of a Python process with torch in it (kernel's OOM tables of such processes: 1.06 GB). On one pool it counts as well. */
#define UMA_PYTHON_HOST (UINT64_C(1) << 30)

/*
 * Add one term. low and high are bytes x (1 - below) and bytes x (1 + above). Text is cut at its field's end. When all places are taken the
 * bytes go into the last term: a sum is never lost. Returns the term, to set between_steps on.
 */
struct uma_plan_term *uma_estimate_add(struct uma_estimate *estimate, enum uma_term group, uint64_t bytes, double below, double above,
                                       const char *source, const char *what, const char *formula, ...) UMA_PRINTF(8, 9);
void uma_estimate_warn(struct uma_estimate *estimate, const char *format, ...) UMA_PRINTF(2, 3);
void uma_estimate_flag(struct uma_estimate *estimate, const char *format, ...) UMA_PRINTF(2, 3);
/* Sum terms into groups, total, low, high, between_steps. Spans of terms are independent causes: they are added in quadrature around the sum. */
void uma_estimate_sum(struct uma_estimate *estimate);
/* low and high around the total by the spans of the terms from number `from` on: those before it make up for each other. */
void uma_estimate_span(struct uma_estimate *estimate, uint32_t from);
