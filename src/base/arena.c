/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ALIGN = 16, FIRST_BLOCK = 16 * 1024, LARGEST_GROWTH = 1024 * 1024 };

struct block {
    struct block *next;
    size_t size, used;
    _Alignas(ALIGN) unsigned char data[];
};

struct uma_arena {
    struct block *first, *current;
    size_t limit, total, next_size;
};

struct uma_arena *uma_arena_new(size_t limit) {
    struct uma_arena *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    a->limit = limit;
    a->next_size = FIRST_BLOCK;
    return a;
}

struct uma_arena *uma_arena_free(struct uma_arena *arena) {
    if (!arena)
        return NULL;
    for (struct block *b = arena->first, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(arena);
    return NULL;
}

void uma_arena_reset(struct uma_arena *arena) {
    for (struct block *b = arena->first; b; b = b->next)
        b->used = 0;
    arena->current = arena->first;
}

size_t uma_arena_used(const struct uma_arena *arena) {
    size_t used = 0;
    for (const struct block *b = arena->first; b; b = b->next)
        used += b->used;
    return used;
}

static struct block *grow(struct uma_arena *a, size_t size) {
    size_t want = MAX_OF(size, a->next_size);
    if (a->total + size > a->limit || a->total + size < size)
        return NULL;
    want = MIN_OF(want, a->limit - a->total);
    struct block *b = malloc(sizeof(*b) + want);
    if (!b)
        return NULL;
    *b = (struct block){ .size = want };
    a->total += want;
    if (a->next_size < LARGEST_GROWTH)
        a->next_size *= 2;
    return b;
}

void *uma_arena_alloc(struct uma_arena *arena, size_t size) {
    if (size > SIZE_MAX - ALIGN - sizeof(struct block))
        return NULL;
    size = (MAX_OF(size, (size_t)1) + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct block *b = arena->current;
    while (b && b->size - b->used < size && b->next)
        b = b->next; /* blocks left over from before a reset */
    if (!b || b->size - b->used < size) {
        struct block *fresh = grow(arena, size);
        if (!fresh)
            return NULL;
        if (b)
            b->next = fresh;
        else
            arena->first = fresh;
        b = fresh;
    }
    arena->current = b;
    void *p = b->data + b->used;
    b->used += size;
    return memset(p, 0, size);
}

void *uma_arena_array(struct uma_arena *arena, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return uma_arena_alloc(arena, bytes);
}

char *uma_arena_strndup(struct uma_arena *arena, const char *s, size_t n) {
    size_t len = strnlen(s, n);
    char *p = uma_arena_alloc(arena, len + 1);
    if (p)
        (void)memcpy(p, s, len);
    return p;
}

char *uma_arena_utf8(struct uma_arena *arena, const char *s, size_t n) {
    size_t len = strnlen(s, n), extra = 0;
    for (size_t i = 0; i < len;) {
        size_t step = uma_utf8_sequence(s + i, len - i);
        extra += step ? 0 : 3;
        i += step ? step : 1;
    }
    char *p = uma_arena_alloc(arena, len + extra + 1), *out = p;
    if (!p)
        return NULL;
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < len;) {
        size_t step = uma_utf8_sequence(s + i, len - i);
        if (step) {
            (void)memcpy(out, s + i, step);
            out += step;
            i += step;
            continue;
        }
        unsigned char c = (unsigned char)s[i++];
        *out++ = '\\';
        *out++ = 'x';
        *out++ = hex[c >> 4];
        *out++ = hex[c & 15];
    }
    return p;
}

char *uma_arena_printf(struct uma_arena *arena, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : uma_arena_alloc(arena, (size_t)n + 1);
    if (p)
        (void)vsnprintf(p, (size_t)n + 1, format, again);
    va_end(again);
    return p;
}
