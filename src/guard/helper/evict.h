/* SPDX-License-Identifier: MIT */
/*
 * evict.h - so many bytes of clean weight files out of the page cache, and no more than that: the models that nobody uses first, those used last later, in pieces whose effect is measured. Pages that a process
 * maps or locks stay, dirty pages stay, nothing is written. Weight files only, because they are large, read once and read again from storage at gigabytes a second; other cache serves the machine.
 */
#pragma once

#include "uma.h"

#include <stdbool.h>

struct uma_helper_eviction {
    uint64_t asked, evicted; /* bytes; evicted is measured where the kernel tells, else what was cached before */
    uint64_t cached;         /* of weight files that were found */
    uint64_t files;          /* of which something was evicted */
    uint64_t n_files;        /* weight files that were found */
    bool late;               /* the time ended it */
    bool stopped;            /* the helper ends */
};

/* Of the files of a listing. At most until `deadline_ns` (CLOCK_MONOTONIC), give or take one piece of some ten milliseconds. `stop`: asked before each piece; may be NULL. */
void uma_helper_evict(const struct uma_page_cache *cache, uint64_t bytes, int64_t deadline_ns, bool (*stop)(void *userdata), void *userdata,
                      struct uma_helper_eviction *ret_eviction);

/* Places of the weight files in `cache`, the first to go first, at most `max`. Pure. */
size_t uma_helper_evict_order(const struct uma_page_cache *cache, size_t *ret_places, size_t max);
