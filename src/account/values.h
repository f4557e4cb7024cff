/* SPDX-License-Identifier: MIT */
/* values.h - arithmetic on readings that may be unknown, and that may be nonsense: nothing here wraps around. */
#pragma once

#include "base/values.h"
#include "uma.h"

/* The value when it may be used, else `otherwise`. */
static inline uint64_t uma_or(struct uma_u64 v, uint64_t otherwise) {
    return uma_usable(v.validity) ? v.value : otherwise;
}
static inline uint64_t uma_add(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
static inline uint64_t uma_sub(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}
static inline uint64_t uma_mul(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
/* A finite number in [low, high]? */
static inline bool uma_within(struct uma_f64 v, double low, double high) {
    return uma_usable(v.validity) && v.value >= low && v.value <= high;
}
