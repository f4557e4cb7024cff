/* SPDX-License-Identifier: MIT */
/* A number with an optional suffix K, M or G (powers of 1024), for the command lines of the programs here. Never a negative one, never one that overflows. */
#ifndef UMA_VM_NUMBER_H
#define UMA_VM_NUMBER_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline bool number(const char *text, uint64_t *ret) {
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 0);
    static const char suffixes[] = "KMG";
    const char *suffix = *end ? strchr(suffixes, *end++) : NULL;
    unsigned int shift = suffix ? 10u * (unsigned int)(suffix - suffixes + 1) : 0;
    if (errno || *end || (end[-1] > '9' && !suffix) || n > UINT64_MAX >> shift)
        return false;
    *ret = (uint64_t)n << shift;
    return true;
}

#endif
