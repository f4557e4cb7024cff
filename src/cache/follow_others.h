/* SPDX-License-Identifier: MIT */
/*
 * follow_others.h - weight files in the page cache that nobody uses: what memory is taken from first while a job loads. Which files these are is read in a thread of
 * its own, because that takes tenths of a second and the job reads on meanwhile. Evicts clean pages only; never a file that a process has open or maps,
 * as far as this user is shown that.
 */
#pragma once

#include "uma.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is it weights of storage, clean, resident, closed and unmapped? Pure. */
bool uma_follow_is_idle_weight(const struct uma_cached_file *file);
/* Those of a reading, longest unused first (unknown last), then largest first. Returns how many of `ret_files` (room for all) are set. Pure. */
size_t uma_follow_idle_weights(const struct uma_page_cache *cache, const struct uma_cached_file **ret_files);

/* Does it lie in the folder of `path`? Shards that the job opens next lie where its first one does. Pure. */
bool uma_follow_is_beside(const struct uma_cached_file *file, const char *path);

struct uma_follow_others;
struct uma_follow_others *uma_follow_others_new(void); /* NULL: out of memory */
struct uma_follow_others *uma_follow_others_free(struct uma_follow_others *others);
/*
 * Evict files, but none that `spare` says yes to, until `wanted` bytes have left, the list is at its end, or none is there yet: then reading one begins, at most every 10 s. Returns the bytes
 * that left. `*ret_reading`: a list is being read, so what comes of it is not known yet.
 */
uint64_t uma_follow_others_evict(struct uma_follow_others *others, uint64_t wanted, int64_t now_ns,
                                 bool (*spare)(void *userdata, const struct uma_cached_file *file), void *userdata, bool *ret_reading);
