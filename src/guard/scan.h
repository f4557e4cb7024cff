/* SPDX-License-Identifier: MIT */
/* scan.h - the little that the guard's parsers share beside base/units.h's numbers: blanks and lines of a text that ends where it ends, not at a NUL. Pure; nothing is read at or after `end`. */
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
