/* SPDX-License-Identifier: MIT */
/* Pages that stay because they are locked: of processes that map what was kept, those that have locked something are asked what. */
#include "cache/receipts.h"

#include "account/values.h"
#include "base/units.h"
#include "observe/files/locked.h"

/* One process's smaps and what came of it. */
enum { LOCKED_ARENA_MAX = 16 * 1024 * 1024 };

static bool is_mapped_by(const struct uma_evicted_file *file, int32_t pid) {
    for (size_t i = 0; i < file->n_mapped_by; i++)
        if (file->mapped_by[i] == pid)
            return true;
    return false;
}

/*
 * By the inode alone: overlays and subvolumes show one device to stat(2) and another in /proc, and that this process maps the file is known
 * already.
 */
static uint64_t locked_of(const struct uma_evicted_file *file, const struct uma_locked_file *locked, size_t n) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        if (locked[i].inode == file->inode)
            bytes = uma_add(bytes, locked[i].bytes);
    return MIN_OF(bytes, uma_or(file->after, 0));
}

static int add(struct uma_evicted_file *file, int32_t pid, uint64_t bytes) {
    int32_t *pids = reallocarray(file->locked_by, file->n_locked_by + 1, sizeof(*pids));
    if (!pids)
        return -ENOMEM;
    file->locked_by = pids;
    pids[file->n_locked_by++] = pid;
    file->locked = MAX_OF(file->locked, bytes);
    return 0;
}

static int of_process(struct uma_eviction *e, struct uma_root *root, int32_t pid, struct uma_error *err) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(LOCKED_ARENA_MAX);
    struct uma_locked_file *locked = NULL;
    size_t n = 0;
    /* it ended, or its memory may not be looked into: that it maps the file is what is known then */
    if (!arena || uma_locked_read(root, pid, arena, &n, &locked, NULL) < 0)
        return 0;
    for (size_t i = 0; i < e->n && n > 0; i++) {
        struct uma_evicted_file *file = &e->files[i];
        uint64_t bytes = is_mapped_by(file, pid) ? locked_of(file, locked, n) : 0;
        if (bytes > 0 && add(file, pid, bytes) < 0)
            return uma_error_set(err, ENOMEM, "who locked what was kept");
    }
    return 0;
}

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

int uma_receipts_lock(struct uma_eviction *e, struct uma_root *root, int64_t deadline_ns, struct uma_error *err) {
    size_t n = 0;
    for (size_t i = 0; i < e->n; i++)
        n += e->files[i].n_mapped_by;
    _cleanup_free_
    int32_t *pids = calloc(n + 1, sizeof(*pids));
    if (!pids)
        return uma_error_set(err, ENOMEM, "who locked what was kept");
    n = 0;
    for (size_t i = 0; i < e->n; i++)
        for (size_t k = 0; k < e->files[i].n_mapped_by; k++)
            pids[n++] = e->files[i].mapped_by[k];
    qsort(pids, n, sizeof(*pids), by_number);
    int r = 0;
    for (size_t i = 0; i < n && r == 0 && uma_monotonic_ns() < deadline_ns; i++)
        if (i == 0 || pids[i] != pids[i - 1])
            r = of_process(e, root, pids[i], err);
    return r;
}
