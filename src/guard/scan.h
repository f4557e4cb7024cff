/* SPDX-License-Identifier: MIT */
/* scan.h - the little that the guard's parsers share: numbers, blanks and lines of a text that ends where it ends, not at a NUL. Pure; nothing is read at or after `end`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Past spaces and tabs. */
static inline const char *uma_guard_skip_blanks(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/* Decimal digits; what is after them. NULL: none, or more than 64 bits hold. */
static inline const char *uma_guard_number(const char *at, const char *end, uint64_t *ret_value) {
    const char *first = at;
    uint64_t value = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return NULL;
    if (at == first)
        return NULL;
    *ret_value = value;
    return at;
}

/* The newline that ends this line. NULL: it has none, so that it may be half of one (a file cut by the buffer or by its writer). */
static inline const char *uma_guard_line_end(const char *at, const char *end) {
    return at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
}

static inline uint64_t uma_guard_add(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t uma_guard_times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
