/* SPDX-License-Identifier: MIT */
/* cache_evict.h - what the files of `umactl cache evict` share: what was asked, what came of it, and that as text and JSON. */
#pragma once

#include "cache/busy.h"
#include "cache/evict.h"
#include "cache/flush.h"
#include "cmd/cache.h"

struct uma_cache_evict_options {
    struct uma_common_options common;
    const char **paths, **models, **search; /* PATH, --model, --path */
    size_t n_paths, n_models, n_search;
    bool all_models, all, sync, no_sync, force, dry_run;
    bool has_larger_than;
    uint64_t larger_than;
};

/* The machine's memory at one moment. */
struct uma_cache_memory {
    struct uma_u64 free, available, page_cache, percpu_free;
};

/* What cannot be read is unknown (cache_memory.c). */
struct uma_cache_memory uma_cache_memory_read(struct uma_root *root);

struct uma_cache_evict_answer {
    const struct uma_cache_evict_options *options;
    struct uma_eviction eviction;
    struct uma_cache_memory before, after;
    struct uma_processes processes; /* names of those that keep something; may be empty */
};

void uma_cache_evict_text(struct uma_text *text, const struct uma_cache_evict_answer *answer, const struct uma_status_style *style);
/* Schema umactl.cache/1: files as the listing has them, and the receipt. */
void uma_cache_evict_json(struct uma_json *json, const struct uma_cache_evict_answer *answer);
/* 0: all that could be evicted was; 1: nothing was though there was something, or writing out failed. Without regard to a signal. */
int uma_cache_evict_status(const struct uma_cache_evict_answer *answer);

/* ---- --all (cache_flush.c, cache_flush_text.c, cache_flush_json.c) --------------------------------------- */

/* Judge, drop everything, answer. The exit status. */
int uma_cache_flush(const struct uma_cache_evict_options *options);
void uma_cache_flush_text(struct uma_text *text, const struct uma_flush_receipt *receipt, const struct uma_status_style *style);
void uma_cache_flush_json(struct uma_json *json, const struct uma_flush_receipt *receipt);
/* Of a dry run: what would go at the most. */
void uma_cache_flush_dry_text(struct uma_text *text, const struct uma_flush_receipt *receipt, const struct uma_status_style *style);
void uma_cache_flush_dry_json(struct uma_json *json, const struct uma_flush_receipt *receipt);
