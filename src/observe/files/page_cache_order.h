/* SPDX-License-Identifier: MIT */
/* page_cache_order.h - the order of files that uma_page_cache.h promises, and the part of a reading that a snapshot keeps. Pure. */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "uma.h"

/* Negative: a comes before b. Known values first, and of those the larger. */
int uma_larger_first(struct uma_u64 a, struct uma_u64 b);
/* Negative: a comes before b in the order below. */
int uma_cached_file_compare(const struct uma_cached_file *a, const struct uma_cached_file *b);
/* Most resident first; those whose residency is unknown behind; then by size, then by path. Equal ones keep their order. */
void uma_cached_files_sort(struct uma_cached_file *files, size_t n);
/*
 * A copy in `arena` (strings and lists too) with at most UMA_SNAPSHOT_CACHED_FILES files, the first of `cache`, and UMA_SNAPSHOT_CACHED_PIDS processes of
 * each. `left_out` says how many files with pages in the cache are not among them. -ENOMEM leaves *ret_cache untouched.
 */
int uma_page_cache_keep(const struct uma_page_cache *cache, struct uma_arena *arena, struct uma_page_cache *ret_cache,
                        struct uma_error *err);
