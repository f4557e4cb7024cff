/* SPDX-License-Identifier: MIT */
/*
 * page_cache.h - which files hold the page cache: candidates from processes, stores and trees, each file once, with its residency. Opens files for reading
 * (O_NOATIME where allowed, O_NONBLOCK), never reads them, never changes them.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/root.h"

struct uma_page_cache_request {
    bool processes, stores, devices; /* open and mapped files; model stores; block devices */
    bool everywhere;                 /* every local file system */
    const char *const *paths;        /* trees and files to look through whole */
    size_t n_paths;
    double seconds;     /* time bound, 0: none */
    size_t files_max;   /* 0: UMA_CACHED_FILES_MAX; the most resident are kept */
    bool resident_only; /* leave out files of which nothing is resident (they are counted) */
    bool (*progress)(void *userdata, uint64_t files, uint64_t resident_bytes,
                     const char *at); /* false: stop; called at most ten times a second; NULL */
    void *userdata;
};

/* The first clause of the source's detail where a reading is not complete is why; this one is told with the time. */
#define UMA_PAGE_CACHE_LATE "the time was over"

struct uma_page_cache_counts {
    uint64_t files_seen, folders, links_outside, denied, vanished, mounts_skipped, processes, processes_denied;
};

/*
 * `processes` (environment, for the stores) and `containers` of `snapshot` may be empty. Fills total from its meminfo when that is known. Paths that cannot be opened at all
 * are an error (-ENOENT names them) before anything else is done. In a folder (--root) the recorded list is read instead (UMA_PAGE_CACHE_RECORD).
 */
int uma_page_cache_read(struct uma_root *root, const struct uma_page_cache_request *request, const struct uma_snapshot *snapshot,
                        struct uma_arena *arena, struct uma_page_cache *ret_cache, struct uma_page_cache_counts *ret_counts,
                        struct uma_error *err);
#define UMA_PAGE_CACHE_RECORD "umactl/page_cache.json"
/* That list: of a folder. Never fails: the source says why there is none (UMA_UNKNOWN: nothing was recorded). */
void uma_page_cache_recorded(struct uma_root *root, struct uma_arena *arena, struct uma_page_cache *ret_cache);

/* A model's files as one row, those in memory (tmpfs) apart from those of storage; a file without a model is a row of its own. */
struct uma_cached_group {
    const char *name; /* the model's, or what the file is shown as (its path) */
    bool is_model;
    enum uma_cached_kind kind; /* of all its files */
    size_t n_files;
    const struct uma_cached_file **files;
    struct uma_u64 size, resident, dirty; /* sums of what is known; when nothing is, the reason of the first file */
    bool partly;                          /* the residency of some is unknown, not of all */
    int64_t used_ns;
    size_t n_mapped_by;
    int32_t *mapped_by; /* ascending, each once */
};
/* Most resident first, unknown ones behind; then by size, then by name. Rows in the arena, files in `cache`. -ENOMEM. Pure. */
int uma_page_cache_group(const struct uma_page_cache *cache, struct uma_arena *arena, size_t *ret_n, struct uma_cached_group **ret_groups);
