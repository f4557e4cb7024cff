/* SPDX-License-Identifier: MIT */
#include "guard/recording_table.h"

/* Sizes are bounded, so that no sum of a table overflows: 4,096 times 2^50 (a pebibyte) four times. */
#define LARGEST (UINT64_C(1) << 50)

static uint64_t bounded(uint64_t size) {
    return size < LARGEST ? size : LARGEST;
}
static uint64_t size_of(const struct uma_guard_process *p) {
    return bounded(p->anon) + bounded(p->shmem) + bounded(p->swap) + bounded(p->gpu);
}

static size_t root_of(const struct uma_guard_process *list, size_t n, size_t i) {
    int32_t tree = list[i].tree;
    return tree < 0 || (size_t)tree >= n ? i : (size_t)tree;
}

static void keep(const struct uma_guard_process *list, size_t i, size_t place, size_t root_place, struct uma_guard_small_table *into) {
    struct uma_guard_process *p = &into->list[place];
    *p = list[i];
    p->tree = (int32_t)root_place;
    p->pid = p->pid < 0 ? 0 : p->pid;
    p->parent = p->parent < 0 ? 0 : p->parent;
    p->envelope = p->envelope < -1 || p->envelope >= UMA_GUARD_ENVELOPES ? -1 : p->envelope;
    into->places[i] = (int16_t)place;
}

static int64_t sum_of(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? a : sum;
}

/* What is not kept of a tree is its topmost process's; so are the wishes of it. */
static void fold(const struct uma_guard_process *p, struct uma_guard_process *root) {
    const uint32_t wishes = UMA_GUARD_NO_BRAKE | UMA_GUARD_AVOID | UMA_GUARD_PREFER | UMA_GUARD_WARNS;
    root->anon = bounded(root->anon) + bounded(p->anon);
    root->shmem = bounded(root->shmem) + bounded(p->shmem);
    root->swap = bounded(root->swap) + bounded(p->swap);
    root->gpu = bounded(root->gpu) + bounded(p->gpu);
    root->gpu_known |= p->gpu_known;
    root->flags |= p->flags & wishes;
    if (root->grown_ns > 0 && p->grown_ns > 0)
        root->grown = sum_of(root->grown, p->grown);
    if (root->gpu_grown_ns > 0 && p->gpu_grown_ns > 0)
        root->gpu_grown = sum_of(root->gpu_grown, p->gpu_grown);
}

/* The topmost processes of the largest trees. A look through all for each: 64 times 4,096 is a fifth of a millisecond, and a table is kept once in half a second at most. */
static size_t keep_roots(const struct uma_guard_process *list, size_t n, struct uma_guard_small_table *into) {
    size_t kept = 0;
    while (kept < UMA_GUARD_RECORDED_TREES) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (into->places[i] < 0 && root_of(list, n, i) == i && (best == n || into->sums[i] > into->sums[best]))
                best = i;
        if (best == n)
            break;
        keep(list, best, kept, kept, into);
        kept++;
    }
    return kept;
}

static size_t keep_members(const struct uma_guard_process *list, size_t n, size_t kept, struct uma_guard_small_table *into) {
    while (kept < UMA_GUARD_RECORDED_PROCESSES) {
        size_t best = n;
        uint64_t size = 0;
        for (size_t i = 0; i < n; i++)
            if (into->places[i] < 0 && into->places[root_of(list, n, i)] >= 0 && (best == n || size_of(&list[i]) > size)) {
                best = i;
                size = size_of(&list[i]);
            }
        if (best == n)
            break;
        keep(list, best, kept, (size_t)into->places[root_of(list, n, best)], into);
        kept++;
    }
    return kept;
}

size_t uma_guard_table_shrink(const struct uma_guard_process *list, size_t n, struct uma_guard_small_table *into) {
    if (n > UMA_GUARD_PROCESS_MAX)
        n = UMA_GUARD_PROCESS_MAX;
    for (size_t i = 0; i < n; i++) {
        into->sums[i] = 0;
        into->places[i] = -1;
    }
    for (size_t i = 0; i < n; i++)
        into->sums[root_of(list, n, i)] += size_of(&list[i]);
    size_t kept = keep_members(list, n, keep_roots(list, n, into), into);
    for (size_t i = 0; i < n; i++) {
        int16_t root = into->places[root_of(list, n, i)];
        if (into->places[i] < 0 && root >= 0)
            fold(&list[i], &into->list[root]);
    }
    return kept;
}
