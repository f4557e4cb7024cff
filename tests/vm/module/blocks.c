// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* One allocation: a number of pages, cut into blocks of few orders. */
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/vmstat.h>

#include "internal.h"

/* The flags of the real driver's system memory, on a device that can address all of it. Nothing is accounted to a memory cgroup. */
static gfp_t block_flags(unsigned int order) {
    gfp_t flags = GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN | __GFP_ZERO;

    return order ? flags | __GFP_COMP : flags;
}

/* Would taking this much more leave less free memory than the script allows? Reclaimable cache does not count: that is the point. */
static bool below_floor(u64 pages) {
    u64 floor = READ_ONCE(settings.minimum_free_bytes) >> PAGE_SHIFT;

    return floor && global_zone_page_state(NR_FREE_PAGES) < floor + pages;
}

static struct page *take_one(unsigned int order, u32 flags, int *ret_error) {
    struct page *page = NULL;

    if (order > READ_ONCE(settings.largest_order)) {
        atomic64_inc(&counters.refused_order);
        *ret_error = -ENOMEM;
        return NULL;
    }
    if (!(flags & UMA_TEST_POOL_NO_POOL))
        page = pool_take(order);
    if (!page) {
        if (below_floor(1ULL << order)) {
            atomic64_inc(&counters.refused_floor);
            *ret_error = -ENOMEM;
            return NULL;
        }
        page = alloc_pages(block_flags(order), order);
    }
    if (!page) {
        atomic64_inc(&counters.refused_kernel);
        *ret_error = -ENOMEM;
    }
    return page;
}

/* The scripted time of each MiB, in which the process can be killed. */
static void take_time(u64 microseconds) {
    if (microseconds >= 20 * USEC_PER_MSEC)
        schedule_timeout_killable(usecs_to_jiffies(microseconds));
    else if (microseconds)
        usleep_range(microseconds, microseconds + microseconds / 8 + 1);
}

int blocks_take(struct list_head *blocks, u64 pages, unsigned int order, u32 flags) {
    u64 taken_since_pause = 0;
    int r = 0;

    /* as a whole first, so that a request that cannot be is refused before it took anything */
    if (below_floor(pages)) {
        u64 pooled = 0;

        for (unsigned int i = 0; i <= order; i++)
            pooled += pools_blocks(i) << i;
        if ((flags & UMA_TEST_POOL_NO_POOL) || below_floor(pages - min(pages, pooled))) {
            atomic64_inc(&counters.refused_floor);
            return -ENOMEM;
        }
    }
    while (pages) {
        struct page *page;

        while ((1ULL << order) > pages)
            order--;
        if (fatal_signal_pending(current)) {
            atomic64_inc(&counters.interrupted);
            r = -EINTR;
            break;
        }
        page = take_one(order, flags, &r);
        if (!page) {
            if (!(flags & UMA_TEST_POOL_FALL_BACK) || order == 0)
                break;
            order--;
            r = 0;
            continue;
        }
        set_page_private(page, order);
        list_add_tail(&page->lru, blocks);
        pages -= 1ULL << order;
        taken_since_pause += 1ULL << order;
        if (taken_since_pause << PAGE_SHIFT >= 1 << 20) {
            take_time((taken_since_pause << PAGE_SHIFT >> 20) * READ_ONCE(settings.microseconds_per_mib));
            taken_since_pause = 0;
        }
        cond_resched();
    }
    if (r)
        blocks_give_back(blocks, !(flags & UMA_TEST_POOL_NO_POOL));
    return r;
}

void blocks_give_back(struct list_head *blocks, bool through_pools) {
    struct page *page, *next;

    list_for_each_entry_safe(page, next, blocks, lru) {
        unsigned int order = page_private(page);

        list_del(&page->lru);
        set_page_private(page, 0);
        if (!through_pools || !pool_put(page, order))
            __free_pages(page, order);
        cond_resched();
    }
}

int blocks_map(struct list_head *blocks, struct vm_area_struct *vma) {
    unsigned long address = vma->vm_start;
    struct page *page;

    list_for_each_entry(page, blocks, lru) {
        unsigned long bytes = min(PAGE_SIZE << page_private(page), vma->vm_end - address);
        int r;

        if (!bytes)
            return 0;
        /* by frame number: such a mapping counts in no RSS */
        r = remap_pfn_range(vma, address, page_to_pfn(page), bytes, vma->vm_page_prot);
        if (r)
            return r;
        address += bytes;
    }
    return address == vma->vm_end ? 0 : -EINVAL;
}
