/* SPDX-License-Identifier: MIT */
#include "cache/receipts.h"

#include "account/values.h"
#include "base/arena.h"
#include "base/units.h"
#include "observe/files/process_files.h"

#include <stdio.h>
#include <string.h>

/* The list is thinned out when it has so many more than are kept. */
enum { THIN_AT = 4 * UMA_EVICTION_SHOWN };
/* Looking into every process: a machine with ten thousand of them takes a second or two. */
#define USERS_SECONDS 10
enum { USERS_ARENA_MAX = 512 * 1024 * 1024 };

static void file_free(struct uma_evicted_file *file) {
    free(file->path);
    free(file->model);
    free(file->shown);
    free(file->mapped_by);
    free(file->locked_by);
    *file = (struct uma_evicted_file){ 0 };
}

void uma_receipts_free(struct uma_eviction *e) {
    for (size_t i = 0; i < e->n; i++)
        file_free(&e->files[i]);
    free(e->files);
    e->files = NULL;
    e->n = e->capacity = 0;
}

/* ---- order -------------------------------------------------------------------------------------------------- */

static int descending(uint64_t a, uint64_t b) {
    return (a < b) - (a > b);
}

/* Something was in the cache, unknown, nothing was. */
static int class_of(const struct uma_evicted_file *file) {
    return !uma_usable(file->before.validity) ? 1 : file->before.value > 0 ? 0 : 2;
}

/* Most resident before first, unknown ones behind those (by size), then by path. */
static int by_before(const void *a, const void *b) {
    const struct uma_evicted_file *x = a, *y = b;
    int order = class_of(x) - class_of(y);
    if (order == 0)
        order = descending(uma_or(x->before, 0), uma_or(y->before, 0));
    if (order == 0)
        order = descending(x->size, y->size);
    return order ? order : strcmp(x->path, y->path);
}

/* What must be told of by name: something of it is left, or it failed. */
static bool is_remarkable(const struct uma_evicted_file *file) {
    return file->error || uma_or(file->after, 0) > 0;
}

static int by_worth(const void *a, const void *b) {
    bool x = is_remarkable(a), y = is_remarkable(b);
    return x != y ? (x ? -1 : 1) : by_before(a, b);
}

/* Keep what is remarkable and the largest; of the rest the sums stay. */
static void thin(struct uma_eviction *e) {
    qsort(e->files, e->n, sizeof(*e->files), by_worth);
    size_t keep = 0;
    while (keep < e->n && is_remarkable(&e->files[keep]))
        keep++;
    keep = MIN_OF(MIN_OF(keep, (size_t)THIN_AT / 2) + UMA_EVICTION_SHOWN, e->n);
    for (size_t i = keep; i < e->n; i++) {
        e->folded_files++;
        e->folded_before += uma_or(e->files[i].before, 0);
        e->folded_evicted += uma_or(e->files[i].evicted, 0);
        file_free(&e->files[i]);
    }
    e->n = keep;
}

/* ---- adding ------------------------------------------------------------------------------------------------- */

static void sum(struct uma_eviction *e, const struct uma_evicted_file *file, const struct uma_receipt_names *names) {
    e->n_files++;
    e->before += uma_or(file->before, 0);
    e->evicted += uma_or(file->evicted, 0);
    e->kept += uma_or(file->after, 0);
    e->written += uma_or(file->written, 0);
    e->n_synced += file->synced;
    e->n_unknown += !uma_usable(file->before.validity) && file->before.validity != UMA_ABSENT;
    bool gone = uma_usable(file->after.validity) && file->after.value == 0;
    e->n_dirty_unknown += !gone && !file->synced && !file->error && !uma_usable(file->dirty.validity) && file->dirty.validity != UMA_ABSENT;
    if (file->error && e->n_failed++ == 0)
        (void)snprintf(e->failed_at, sizeof e->failed_at, "%s: %s", names->shown ? names->shown : names->path,
                       names->error && *names->error ? names->error : strerror(-file->error));
}

static int make_room(struct uma_eviction *e) {
    if (e->n < e->capacity)
        return 0;
    size_t capacity = e->capacity ? e->capacity * 2 : 64;
    struct uma_evicted_file *files = reallocarray(e->files, capacity, sizeof(*files));
    if (!files)
        return -ENOMEM;
    e->files = files;
    e->capacity = capacity;
    return 0;
}

int uma_receipts_add(struct uma_eviction *e, const struct uma_evicted_file *file, const struct uma_receipt_names *names,
                     struct uma_error *err) {
    struct uma_evicted_file copy = *file;
    sum(e, file, names);
    if (!e->options.every_file && e->n >= THIN_AT)
        thin(e);
    if (e->n >= UMA_CACHED_FILES_MAX) { /* a document of more files is nothing that anybody reads back */
        e->folded_files++;
        e->folded_before += uma_or(file->before, 0);
        e->folded_evicted += uma_or(file->evicted, 0);
        return 0;
    }
    copy.path = strdup(names->path);
    copy.model = names->model ? strdup(names->model) : NULL;
    copy.shown = names->shown ? strdup(names->shown) : NULL;
    if (!copy.path || (names->model && !copy.model) || (names->shown && !copy.shown) || make_room(e) < 0) {
        file_free(&copy);
        return uma_error_set(err, ENOMEM, "keeping the receipt of %s", names->path);
    }
    e->files[e->n++] = copy;
    return 0;
}

/* ---- who keeps it ------------------------------------------------------------------------------------------- */

unsigned uma_evicted_file_kept(const struct uma_evicted_file *file) {
    unsigned why = 0;
    if (uma_or(file->after, 0) == 0)
        return 0;
    if (file->n_mapped_by > 0)
        why |= UMA_KEPT_MAPPED;
    if (file->n_locked_by > 0)
        why |= UMA_KEPT_LOCKED;
    if (uma_or(file->dirty, 0) > 0)
        why |= UMA_KEPT_DIRTY;
    return why ? why : UMA_KEPT_IN_USE;
}

static int by_inode(const void *a, const void *b) {
    const struct uma_used_file *x = *(const struct uma_used_file *const *)a, *y = *(const struct uma_used_file *const *)b;
    if (x->inode != y->inode)
        return x->inode < y->inode ? -1 : 1;
    return (x->device > y->device) - (x->device < y->device);
}

/*
 * The same inode is the same file where the device is too. Overlays and subvolumes show one device to stat(2) and another in
 * /proc/PID/maps: there the path decides.
 */
static bool is_same(const struct uma_evicted_file *file, const struct uma_used_file *used) {
    return used->inode == file->inode && (used->device == file->device || (used->path && strcmp(used->path, file->path) == 0) ||
                                          (used->shown && strcmp(used->shown, file->path) == 0));
}

static int add_users(struct uma_evicted_file *file, const struct uma_used_file *used) {
    if (used->n_mapped_by == 0)
        return 0;
    int32_t *pids = reallocarray(file->mapped_by, file->n_mapped_by + used->n_mapped_by, sizeof(*pids));
    if (!pids)
        return -ENOMEM;
    file->mapped_by = pids;
    for (size_t i = 0; i < used->n_mapped_by; i++) {
        bool there = false;
        for (size_t k = 0; k < file->n_mapped_by && !there; k++)
            there = pids[k] == used->mapped_by[i];
        if (!there && file->n_mapped_by < UMA_CACHED_PIDS_MAX)
            pids[file->n_mapped_by++] = used->mapped_by[i];
    }
    return 0;
}

int uma_receipts_map(struct uma_eviction *e, const struct uma_used_files *used, struct uma_error *err) {
    _cleanup_free_
    const struct uma_used_file **files = calloc(used->n + 1, sizeof(void *));
    if (!files)
        return uma_error_set(err, ENOMEM, "who maps what was kept");
    for (size_t i = 0; i < used->n; i++)
        files[i] = &used->list[i];
    qsort(files, used->n, sizeof(void *), by_inode);
    for (size_t i = 0; i < e->n; i++) {
        struct uma_evicted_file *file = &e->files[i];
        if (uma_or(file->after, 0) == 0)
            continue;
        size_t low = 0, high = used->n;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (files[middle]->inode < file->inode)
                low = middle + 1;
            else
                high = middle;
        }
        for (; low < used->n && files[low]->inode == file->inode; low++)
            if (is_same(file, files[low]) && add_users(file, files[low]) < 0)
                return uma_error_set(err, ENOMEM, "who maps what was kept");
    }
    e->users_denied = used->denied;
    e->mapped_known = true;
    return 0;
}

int uma_eviction_finish(struct uma_eviction *e, struct uma_root *root, struct uma_error *err) {
    if (e->n > 1)
        qsort(e->files, e->n, sizeof(*e->files), by_before);
    if (e->kept == 0)
        return 0;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(USERS_ARENA_MAX);
    struct uma_used_files used = { 0 };
    if (!arena)
        return uma_error_set(err, ENOMEM, "who maps what was kept");
    int64_t deadline_ns = uma_monotonic_ns() + USERS_SECONDS * UMA_SECOND_NS;
    int r = uma_used_files_read(root, deadline_ns, arena, &used, err);
    if (r >= 0)
        r = uma_receipts_map(e, &used, err);
    return r < 0 ? r : uma_receipts_lock(e, root, deadline_ns, err);
}
