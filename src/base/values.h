/* SPDX-License-Identifier: MIT */
/* values.h - making readings: a number that is known, or the reason why it is not (then its value is 0). */
#pragma once

#include "uma.h"

static inline struct uma_u64 uma_known_u64(uint64_t v) {
    return (struct uma_u64){ v, UMA_KNOWN };
}
static inline struct uma_i64 uma_known_i64(int64_t v) {
    return (struct uma_i64){ v, UMA_KNOWN };
}
static inline struct uma_f64 uma_known_f64(double v) {
    return (struct uma_f64){ v, UMA_KNOWN };
}
static inline struct uma_u64 uma_no_u64(enum uma_validity why) {
    return (struct uma_u64){ 0, why };
}
static inline struct uma_f64 uma_no_f64(enum uma_validity why) {
    return (struct uma_f64){ 0, why };
}
