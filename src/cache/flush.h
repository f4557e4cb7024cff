/* SPDX-License-Identifier: MIT */
/*
 * flush.h - drop all clean page cache of the machine, then slab caches and what the GPU driver keeps in its pools, then put free memory together: step by step,
 * with a reading of the ledger after each, so that it is seen what came back from where. Root. Whether it may be done now is asked before (busy.h).
 */
#pragma once

#include "base/error.h"
#include "uma.h"

enum uma_flush_step { UMA_FLUSH_BEFORE, UMA_FLUSH_PAGE_CACHE, UMA_FLUSH_SLAB, UMA_FLUSH_COMPACT, UMA_FLUSH_STEPS };

/* The machine after a step. */
struct uma_flush_reading {
    bool done; /* the step was taken and the machine read */
    struct uma_ledger ledger;
    struct uma_u64 free, available, driver_pools, largest_free_block;
    struct uma_u64 large_free; /* free bytes in blocks of UMA_LARGE_BLOCK and more */
    double seconds;            /* that the step took */
};
#define UMA_LARGE_BLOCK (UINT64_C(2) << 20) /* what drivers ask for where they can: a huge page */

struct uma_flush_options {
    bool dry_run;                                           /* only the first reading is taken */
    const char *prefix;                                     /* "" for this machine, a folder in tests */
    bool sync;                                              /* sync(2) first, so that dirty pages can go too */
    bool (*stop)(void *userdata);                           /* asked between the steps; NULL */
    void (*tell)(void *userdata, enum uma_flush_step step); /* what is begun; NULL */
    void *userdata;
};

struct uma_flush_receipt {
    struct uma_flush_reading steps[UMA_FLUSH_STEPS];
    bool synced;
    double sync_seconds;
    bool interrupted;
    char compact_failed[256]; /* why memory was not put together, or "" */
};

/* The observer must read this machine. -EACCES or -EPERM: not root, nothing was done. The receipt is filled as far as it came. */
int uma_flush(struct uma_observer *observer, const struct uma_flush_options *options, struct uma_flush_receipt *ret_receipt,
              struct uma_error *err);
/* Bytes of free blocks of at least `size`: a sum over orders. Unknown without buddyinfo or the page size. Pure. */
struct uma_u64 uma_free_in_blocks(const struct uma_headroom *headroom, struct uma_u64 page_size, uint64_t size);
/* The reading after the last step that was taken. Pure. */
const struct uma_flush_reading *uma_flush_last(const struct uma_flush_receipt *receipt);
const char *uma_flush_step_name(enum uma_flush_step step); /* "page_cache" */
