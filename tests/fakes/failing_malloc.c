/* SPDX-License-Identifier: MIT */
/*
 * Memory that runs out, for LD_PRELOAD: after $UMA_MALLOCS allocations none succeeds any more (or, with UMA_MALLOC_ONCE set, that one fails
 * and later ones succeed). Freeing always works. Counted over all threads without care: which one fails is a matter of chance there.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* The program is built with hidden names; a hidden malloc stands in for nothing. */
#pragma GCC visibility push(default)

/* glibc's own, under the names that it exports for this purpose. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

static long left = -2; /* -2: not known yet; -1: no end */
static int once;

static int out(void) {
    if (left == -2) {
        const char *count = getenv("UMA_MALLOCS");
        left = count ? strtol(count, NULL, 10) : -1;
        once = getenv("UMA_MALLOC_ONCE") != NULL;
    }
    if (left != 0) {
        left -= left > 0;
        return 0;
    }
    if (once)
        left = -1;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) {
    return out() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
    return out() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size) {
    return out() ? NULL : __libc_realloc(p, size);
}

#pragma GCC visibility pop
