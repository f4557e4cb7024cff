/* SPDX-License-Identifier: MIT */
/* The document of `umactl cache evict`: files as the listing has them, with what was before and after, and the sums. */
#include "cmd/cache_evict.h"

#include <string.h>

static void pids_json(struct uma_json *json, const char *key, const int32_t *pids, size_t n, bool known) {
    if (!known) {
        uma_json_null(json, key);
        return;
    }
    uma_json_begin_array(json, key, true);
    for (size_t i = 0; i < n; i++)
        uma_json_signed(json, NULL, pids[i]);
    uma_json_end_array(json);
}

static void because_json(struct uma_json *json, unsigned why) {
    uma_json_begin_array(json, "kept_because", true);
    if (why & UMA_KEPT_MAPPED)
        uma_json_string(json, NULL, "mapped");
    if (why & UMA_KEPT_LOCKED)
        uma_json_string(json, NULL, "locked");
    if (why & UMA_KEPT_DIRTY)
        uma_json_string(json, NULL, "dirty");
    if (why & UMA_KEPT_IN_USE)
        uma_json_string(json, NULL, "in_use");
    uma_json_end_array(json);
}

static void file_json(struct uma_json *json, const struct uma_evicted_file *file, bool mapped_known, bool dry_run) {
    _cleanup_text_ struct uma_text text = { 0 };
    /* who maps a file is looked up when something of it stays: of one that left wholly nobody does */
    bool gone = uma_usable(file->after.validity) && file->after.value == 0;
    bool known = gone || (mapped_known && uma_usable(file->after.validity));
    uma_json_begin_object(json, NULL, true);
    uma_json_string(json, "path", uma_cache_utf8(&text, file->path));
    uma_cache_bytes_json(json, "path_bytes", file->path);
    uma_json_string(json, "model", file->model ? uma_cache_utf8(&text, file->model) : NULL);
    uma_json_unsigned(json, "size", file->size);
    uma_json_u64(json, "resident", file->after);
    uma_json_u64(json, "dirty", file->dirty);
    pids_json(json, "mapped_by", file->mapped_by, file->n_mapped_by, known);
    uma_json_u64(json, "before", file->before);
    uma_json_u64(json, "after", file->after);
    uma_json_u64(json, "evicted", file->evicted);
    pids_json(json, "still_mapped_by", file->mapped_by, file->n_mapped_by, known);
    uma_json_u64(json, "written", file->written);
    uma_json_bool(json, "synced", file->synced);
    because_json(json, dry_run ? uma_evicted_file_kept(file) & ~(unsigned)UMA_KEPT_IN_USE : uma_evicted_file_kept(file));
    uma_json_string(json, "error", file->error ? strerror(-file->error) : NULL);
    uma_json_string(json, "unknown",
                    uma_usable(file->before.validity) ? NULL
                    : file->why                       ? file->why
                                                      : uma_cache_unknown_reason(file->before.validity));
    pids_json(json, "locked_by", file->locked_by, file->n_locked_by, known);
    uma_json_string(json, "shown", file->shown ? uma_cache_utf8(&text, file->shown) : NULL);
    uma_json_bool(json, "deleted", file->deleted);
    uma_json_end_object(json);
}

static void memory_json(struct uma_json *json, const struct uma_cache_evict_answer *answer) {
    const struct uma_cache_memory *before = &answer->before, *after = &answer->after;
    uma_json_begin_object(json, "memory", false);
    uma_json_u64(json, "free_before", before->free);
    uma_json_u64(json, "free_after", after->free);
    uma_json_u64(json, "available_before", before->available);
    uma_json_u64(json, "available_after", after->available);
    uma_json_u64(json, "page_cache_before", before->page_cache);
    uma_json_u64(json, "page_cache_after", after->page_cache);
    uma_json_u64(json, "free_percpu_lists_before", before->percpu_free);
    uma_json_u64(json, "free_percpu_lists_after", after->percpu_free);
    uma_json_end_object(json);
}

static void counts_json(struct uma_json *json, const struct uma_eviction *e) {
    uma_json_begin_object(json, "counts", false);
    uma_json_unsigned(json, "files", e->n_files);
    uma_json_unsigned(json, "failed", e->n_failed);
    uma_json_unsigned(json, "synced", e->n_synced);
    uma_json_unsigned(json, "memory_files", e->memory_files);
    uma_json_unsigned(json, "memory_bytes", e->memory_bytes);
    uma_json_unsigned(json, "smaller", e->smaller);
    uma_json_unsigned(json, "vanished", e->vanished + e->walk.vanished);
    uma_json_unsigned(json, "denied", e->denied + e->walk.denied);
    uma_json_unsigned(json, "links_inside", e->walk.links_inside);
    uma_json_unsigned(json, "links_outside", e->walk.links_outside);
    uma_json_unsigned(json, "mounts_skipped", e->walk.mounts_skipped);
    uma_json_unsigned(json, "not_listed", e->folded_files);
    uma_json_unsigned(json, "dirty_unknown", e->n_dirty_unknown);
    uma_json_end_object(json);
}

/* Of files whose residency is known; where it is of none, the sum is unknown, not 0. */
static void sum_json(struct uma_json *json, const char *key, const struct uma_eviction *e, uint64_t sum) {
    uma_json_u64(json, key, (struct uma_u64){ sum, e->n_unknown > 0 && e->n_unknown == e->n_files ? UMA_UNKNOWN : UMA_KNOWN });
}

void uma_cache_evict_json(struct uma_json *json, const struct uma_cache_evict_answer *answer) {
    const struct uma_eviction *e = &answer->eviction;
    _cleanup_text_ struct uma_text text = { 0 };
    uma_json_begin_object(json, NULL, false);
    uma_json_string(json, "schema", "umactl.cache/1");
    uma_json_u64(json, "page_cache", answer->after.page_cache);
    sum_json(json, "explained", e, e->kept);
    uma_json_begin_array(json, "files", false);
    for (size_t i = 0; i < e->n; i++)
        file_json(json, &e->files[i], e->mapped_known, answer->options->dry_run);
    uma_json_end_array(json);
    sum_json(json, "before", e, e->before);
    sum_json(json, "evicted", e, e->evicted);
    sum_json(json, "kept", e, e->kept);
    uma_json_unsigned(json, "unknown", e->n_unknown);
    uma_json_double(json, "seconds", e->seconds);
    sum_json(json, "written", e, e->written);
    memory_json(json, answer);
    counts_json(json, e);
    uma_json_string(json, "failed_at", e->failed_at[0] ? uma_cache_utf8(&text, e->failed_at) : NULL);
    uma_json_bool(json, "dry_run", answer->options->dry_run);
    uma_json_bool(json, "interrupted", e->interrupted);
    uma_json_bool(json, "complete", !e->interrupted && !e->walk.cut);
    uma_json_end_object(json);
}
