/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the three parts of the module share: device.c (the character device), blocks.c (one allocation as a list of blocks), pools.c (freed
 * blocks, per order, with a shrinker and a late return).
 *
 * A block is 2^order pages, known by its first page: that page's lru links it into the one list it is on, its private holds its order while it
 * belongs to an allocation, and the time at which it was freed while it is in a pool.
 *
 * How the real driver behaves is public (NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-vm.c: nv_compute_gfp_mask, nv_alloc_system_pages,
 * nv_mem_pool_*); this does the same things, and is its own code.
 */
#ifndef UMA_TEST_POOL_INTERNAL_H
#define UMA_TEST_POOL_INTERNAL_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/types.h>

#include "uma_test_pool.h"

/* Counters and settings of the module. Settings are read without a lock: each is one word, and a call in flight may see the old one. */
struct pool_counters {
    atomic64_t held_bytes, peak_bytes;
    atomic64_t allocations, frees, refused_script, refused_floor, refused_order, refused_kernel, interrupted;
    atomic64_t reused_blocks, shrunk_blocks, late_blocks;
};
extern struct pool_counters counters;
extern struct uma_test_pool_settings settings; /* but fail_next, which is this: */
extern atomic_t fail_next;

/* blocks.c: takes and gives back the blocks of one allocation. blocks_take leaves the list empty when it fails. */
int blocks_take(struct list_head *blocks, u64 pages, unsigned int order, u32 flags);
void blocks_give_back(struct list_head *blocks, bool through_pools);
int blocks_map(struct list_head *blocks, struct vm_area_struct *vma);

/* pools.c */
int pools_start(void);
void pools_stop(void);
struct page *pool_take(unsigned int order);            /* zeroed; NULL when there is none */
bool pool_put(struct page *block, unsigned int order); /* false: there is no pool for it, and the block is still the caller's */
void pools_settings_changed(void);                     /* look at the times again */
u64 pools_blocks(unsigned int order);

#endif
