/* SPDX-License-Identifier: MIT */
/*
 * arena.h - memory that is freed all at once: what a snapshot or an account points to. Allocations are 16-byte aligned and zeroed.
 * It has a byte limit, so that hostile input is refused (NULL) rather than swallowed. reset keeps the memory for the next use: a
 * steady tick allocates nothing from the system. Not thread-safe.
 */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct uma_arena;

/* `limit`: most bytes it will ever hold. NULL when out of memory. */
struct uma_arena *uma_arena_new(size_t limit);
struct uma_arena *uma_arena_free(struct uma_arena *arena);
void uma_arena_reset(struct uma_arena *arena);
size_t uma_arena_used(const struct uma_arena *arena);

/* Zeroed memory, or NULL past the limit or out of memory. size 0 gives a valid pointer. */
void *uma_arena_alloc(struct uma_arena *arena, size_t size);
/* n x size with overflow check. */
void *uma_arena_array(struct uma_arena *arena, size_t n, size_t size);
/* Copy of at most n bytes of s (stops at NUL), NUL-terminated, as is. */
char *uma_arena_strndup(struct uma_arena *arena, const char *s, size_t n);
/* The same, made valid UTF-8: each byte that is not becomes \xHH. What every name from the machine goes through. */
char *uma_arena_utf8(struct uma_arena *arena, const char *s, size_t n);
char *uma_arena_printf(struct uma_arena *arena, const char *format, ...) UMA_PRINTF(2, 3);

static inline void uma_cleanup_arena(struct uma_arena **a) {
    (void)uma_arena_free(*a);
}
#define _cleanup_arena_ _cleanup_(uma_cleanup_arena)
