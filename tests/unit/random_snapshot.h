/* SPDX-License-Identifier: MIT */
/*
 * random_snapshot.h - snapshots with every field set to something from its whole range, for properties that must hold for all of them;
 * and deep comparison. Both walk the field tables; the seed makes a failure repeatable.
 */
#pragma once

#include "base/arena.h"
#include "base/cleanup.h"
#include "observe/files/page_cache_order.h"
#include "observe/snapshot_fields.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct dice {
    uint64_t state;
    size_t most; /* elements of a list; the last kind of list may have its maximum */
    bool plain;  /* no hostile strings */
};

/* xorshift64* (Vigna 2016): good enough, and the same everywhere. */
static inline uint64_t dice_next(struct dice *d) {
    d->state ^= d->state >> 12;
    d->state ^= d->state << 25;
    d->state ^= d->state >> 27;
    return d->state * 0x2545f4914f6cdd1dull;
}

static inline uint64_t dice_below(struct dice *d, uint64_t n) {
    return dice_next(d) % n;
}

static inline uint64_t dice_u63(struct dice *d) {
    static const uint64_t special[] = { 0, 1, 4096, 0x1p53, 0x20000000000001ull, INT64_MAX - 1, INT64_MAX, 130594131968ull };
    uint64_t i = dice_below(d, 2 * ELEMENTS(special));
    return i < ELEMENTS(special) ? special[i] : dice_next(d) >> (1 + dice_below(d, 63));
}

static inline double dice_double(struct dice *d) {
    static const double special[] = { 0,        1,       -1,
                                      0.1,      1e15,    1e16,
                                      1e17,     1e300,   DBL_MAX,
                                      -DBL_MAX, DBL_MIN, 4.9406564584124654e-324,
                                      0x1p53,   1.0 / 3, 123456789012345678.0,
                                      -17.0 };
    uint64_t i = dice_below(d, 2 * ELEMENTS(special));
    if (i < ELEMENTS(special))
        return special[i];
    double v;
    do {
        uint64_t bits = dice_next(d);
        (void)memcpy(&v, &bits, sizeof(v));
    } while (!isfinite(v));
    return v;
}

static inline const char *dice_string(struct dice *d, struct uma_arena *arena) {
    static const char *const hostile[] = {
        "",
        " ",
        "a\nb",
        "\x1b[2J\x1b]0;x\x07",
        "\"quoted\\\"",
        "\\xff",
        "/home/ana/models/llama 70b.gguf",
        "\xe2\x80\xae"
        "desrever",
        "\xc2\x9b"
        "31m",
        "\x7f\x01\x1f",
        "{\"a\":1}",
        "null",
        "\xf0\x9f\x98\x80",
        "\xe2\x80\xa8",
        "--gpu-memory-utilization=0.9",
        "a\tb\rc",
        "\xef\xbf\xbd",
        "%s%n",
        "'; rm -rf /",
        "\xed\x9f\xbf\xee\x80\x80",
    };
    uint64_t kind = dice_below(d, 8);
    if (kind == 0)
        return NULL;
    if (kind < 5 && !d->plain)
        return hostile[dice_below(d, ELEMENTS(hostile))];
    char buffer[64];
    size_t n = dice_below(d, sizeof(buffer));
    for (size_t i = 0; i < n; i++)
        buffer[i] = (char)(d->plain ? 'a' + (int)dice_below(d, 26) : 1 + (int)dice_below(d, 126));
    return uma_arena_strndup(arena, buffer, n);
}

static inline void dice_fill(struct dice *d, struct uma_arena *arena, const struct uma_fields *fields, void *object);

static inline void dice_list(struct dice *d, struct uma_arena *arena, const struct uma_field *f, char *object) {
    void *at = object + f->offset;
    size_t n = dice_below(d, MIN_OF(d->most, (size_t)f->max) + 1);
    if (f->type == UMA_FIELD_NUMBERS)
        n = dice_below(d, f->max + 1);
    size_t size = f->of ? f->of->size : f->type == UMA_FIELD_NAMED ? sizeof(struct uma_named_u64) : sizeof(char *);
    char *list = f->type == UMA_FIELD_ARRAY || f->type == UMA_FIELD_NUMBERS ? at : uma_arena_array(arena, n, size);
    for (size_t i = 0; i < n; i++) {
        if (f->of)
            dice_fill(d, arena, f->of, list + i * size);
        else if (f->type == UMA_FIELD_STRINGS) {
            const char *s = dice_string(d, arena);
            ((const char **)(void *)list)[i] = s ? s : "";
        } else if (f->type == UMA_FIELD_NAMED)
            ((struct uma_named_u64 *)(void *)list)[i] = (struct uma_named_u64){ uma_arena_printf(arena, "Name%zu\n\"", i), dice_u63(d) };
        else
            ((uint64_t *)(void *)list)[i] = dice_u63(d);
    }
    if (f->type == UMA_FIELD_LIST || f->type == UMA_FIELD_NAMED)
        *(size_t *)(void *)(object + f->count_offset) = n;
    else
        *(uint32_t *)(void *)(object + f->count_offset) = (uint32_t)n;
    if (list != at)
        *(void **)at = n > 0 ? list : NULL;
}

static inline void dice_fill(struct dice *d, struct uma_arena *arena, const struct uma_fields *fields, void *object) {
    for (size_t i = 0; i < fields->n; i++) {
        const struct uma_field *f = &fields->list[i];
        void *at = (char *)object + f->offset;
        uint64_t span = (uint64_t)f->high - (uint64_t)f->low + 1;
        switch (f->type) {
        case UMA_FIELD_U64:
            *(struct uma_u64 *)at = (struct uma_u64){ dice_u63(d), (enum uma_validity)dice_below(d, UMA_VALIDITY_MAX) };
            break;
        case UMA_FIELD_I64:
            *(struct uma_i64 *)at = (struct uma_i64){ (int64_t)dice_next(d), (enum uma_validity)dice_below(d, UMA_VALIDITY_MAX) };
            break;
        case UMA_FIELD_F64:
            *(struct uma_f64 *)at = (struct uma_f64){ dice_double(d), (enum uma_validity)dice_below(d, UMA_VALIDITY_MAX) };
            break;
        case UMA_FIELD_UINT64:
            *(uint64_t *)at = dice_u63(d);
            break;
        case UMA_FIELD_INT64:
            *(int64_t *)at = (int64_t)dice_next(d);
            break;
        case UMA_FIELD_UINT32:
            *(uint32_t *)at = (uint32_t)dice_next(d);
            break;
        case UMA_FIELD_INT32:
            *(int32_t *)at = (int32_t)(f->low + (int64_t)dice_below(d, span));
            break;
        case UMA_FIELD_BOOL:
            *(bool *)at = dice_below(d, 2);
            break;
        case UMA_FIELD_TRUTH:
            *(enum uma_truth *)at = (enum uma_truth)dice_below(d, 3);
            break;
        case UMA_FIELD_WORD:
            *(unsigned *)at = (unsigned)dice_below(d, f->max);
            break;
        case UMA_FIELD_STRING:
            *(const char **)at = dice_string(d, arena);
            break;
        case UMA_FIELD_NAME: {
            const char *s = dice_string(d, arena);
            (void)strncpy(at, s && strlen(s) < 16 ? s : "Normal", 16);
            break;
        }
        case UMA_FIELD_CHARACTER:
            *(char *)at = "RSDZTtXI"[dice_below(d, 9)];
            break;
        case UMA_FIELD_TIME:
            *(int64_t *)at = dice_below(d, 4) ? (int64_t)dice_below(d, 8589934592000000ull) * 1000 : 0;
            break;
        case UMA_FIELD_OBJECT:
            dice_fill(d, arena, f->of, at);
            break;
        default:
            dice_list(d, arena, f, object);
        }
    }
}

/* A whole snapshot that keeps the promises of uma.h: processes by pid, files by residency, indexes within their lists. */
static inline void dice_snapshot(struct dice *d, struct uma_snapshot *s) {
    uma_snapshot_reset(s);
    dice_fill(d, s->arena, &uma_snapshot_fields, s);
    int32_t pid = 0;
    for (size_t i = 0; i < s->processes.n; i++) {
        struct uma_process *p = &s->processes.list[i];
        p->pid = pid += 1 + (int32_t)dice_below(d, 30);
        p->cgroup = (int32_t)dice_below(d, s->n_cgroups + 1) - 1;
        p->container = (int32_t)dice_below(d, s->n_containers + 1) - 1;
    }
    uma_cached_files_sort(s->page_cache.files, s->page_cache.n_files);
}

static inline bool same_string(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The first field that differs, or NULL. Numbers that are not usable are equal whatever is in them. */
static inline const char *first_difference(const struct uma_fields *fields, const void *left, const void *right) {
    for (size_t i = 0; i < fields->n; i++) {
        const struct uma_field *f = &fields->list[i];
        const char *a = (const char *)left + f->offset, *b = (const char *)right + f->offset;
        const void *va = a, *vb = b;
        if (uma_field_has_validity(f)) {
            enum uma_validity x = uma_field_validity(f, left), y = uma_field_validity(f, right);
            if (x != y || (uma_usable(x) && memcmp(a, b, 8) != 0))
                return f->name;
            continue;
        }
        if (f->type >= UMA_FIELD_LIST) {
            size_t n = uma_field_count(f, left);
            if (n != uma_field_count(f, right))
                return f->name;
            bool away = f->type == UMA_FIELD_LIST || f->type == UMA_FIELD_STRINGS || f->type == UMA_FIELD_NAMED;
            const char *la = away ? *(const char *const *)va : a, *lb = away ? *(const char *const *)vb : b;
            for (size_t j = 0; j < n; j++) {
                const char *in = NULL;
                if (f->of)
                    in = first_difference(f->of, la + j * f->of->size, lb + j * f->of->size);
                else if (f->type == UMA_FIELD_STRINGS &&
                         !same_string(((const char *const *)(const void *)la)[j], ((const char *const *)(const void *)lb)[j]))
                    in = f->name;
                else if (f->type == UMA_FIELD_NUMBERS && memcmp(la + 8 * j, lb + 8 * j, 8) != 0)
                    in = f->name;
                else if (f->type == UMA_FIELD_NAMED) {
                    const struct uma_named_u64 *x = (const void *)la, *y = (const void *)lb;
                    if (x[j].value != y[j].value || !same_string(x[j].name, y[j].name))
                        in = f->name;
                }
                if (in)
                    return in;
            }
            continue;
        }
        bool same = true;
        if (f->type == UMA_FIELD_OBJECT) {
            const char *in = first_difference(f->of, a, b);
            if (in)
                return in;
        } else if (f->type == UMA_FIELD_STRING)
            same = same_string(*(const char *const *)va, *(const char *const *)vb);
        else
            same = memcmp(a, b,
                          f->type == UMA_FIELD_UINT64 || f->type == UMA_FIELD_INT64 || f->type == UMA_FIELD_TIME ? 8
                          : f->type == UMA_FIELD_NAME                                                            ? 16
                          : f->type == UMA_FIELD_BOOL || f->type == UMA_FIELD_CHARACTER                          ? 1
                                                                                                                 : 4) == 0;
        if (!same)
            return f->name;
    }
    return NULL;
}
