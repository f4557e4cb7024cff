/* SPDX-License-Identifier: MIT */
/* digits.h - a number in decimal, where stdio is not for the valve: it allocates and knows locales. */
#pragma once

#include <stdint.h>

enum { UMA_VALVE_DIGITS = 20 }; /* of UINT64_MAX */

/* At most UMA_VALVE_DIGITS characters, and a zero after them; returns where that is. */
static inline char *uma_valve_put_number(char *at, uint64_t value) {
    char digits[UMA_VALVE_DIGITS];
    unsigned n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n > 0)
        *at++ = digits[--n];
    *at = '\0';
    return at;
}
