/* SPDX-License-Identifier: MIT */
#include "account/headroom.h"

#include "account/ledger.h"
#include "account/values.h"
#include "base/units.h"

#include <string.h>

/*
 * The reserve: what the system itself must keep to stay answerable. A thirty-second of the machine (3.8 GiB on a 121.7 GiB Spark), at
 * least 512 MiB and at most 4 GiB. Field reports bracket it: a floor of 6 GiB refused healthy servers and had to be lowered to 4
 * (MiaAI-Lab's memwatch), servers rest at 1.5 to 1.9 GiB available for weeks (model-serving-minefield issue 134), and hosts froze after
 * falling below that (open-gpu-kernel-modules issue 1358). A gate stays above where others rest; it is not the level to kill at.
 */
enum { RESERVE_SHARE = 32 };
static const uint64_t RESERVE_LEAST = 512 * UMA_MIB, RESERVE_MOST = 4 * UMA_GIB;

/*
 * NVIDIA's rule (DGX Spark known issues, memory reporting) says that once HugePages_Total is not 0, what can be had is
 * HugePages_Free x Hugepagesize and nothing else. Taken at its word, a handful of huge pages makes a 121 GiB machine full. It is
 * followed where huge pages are at least half of the machine: then the ordinary pool is the smaller one.
 */
enum { HUGETLB_SHARE = 2 };

/* The low watermarks together when zones are unknown: kernels without MemAvailable cap min_free_kbytes at 64 MiB, and low is 5/4 of min. */
static const uint64_t LOW_WATERMARKS_MOST = 80 * UMA_MIB;

static uint64_t low_watermarks(const struct uma_zones *zones) {
    uint64_t pages = 0;
    bool any = false;
    for (size_t i = 0; i < zones->n_zones; i++) {
        any |= uma_usable(zones->zones[i].low_pages.validity);
        pages = uma_add(pages, uma_or(zones->zones[i].low_pages, 0));
    }
    return any && uma_usable(zones->page_size.validity) ? uma_mul(pages, zones->page_size.value) : LOW_WATERMARKS_MOST;
}

/* MemAvailable as Linux 3.14 introduced it (commit 34e431b0ae39): free and half or more of the page cache and of the reclaimable slab. */
static struct uma_u64 estimated_available(const struct uma_snapshot *snapshot) {
    const struct uma_meminfo *m = &snapshot->meminfo;
    if (!uma_usable(m->mem_free.validity))
        return uma_no_u64(UMA_UNKNOWN);
    uint64_t low = low_watermarks(&snapshot->zones), cache;
    if (uma_usable(m->active_file.validity) && uma_usable(m->inactive_file.validity))
        cache = uma_add(m->active_file.value, m->inactive_file.value);
    else
        cache = uma_add(uma_sub(uma_or(m->cached, 0), uma_or(m->shmem, 0)), uma_or(m->buffers, 0));
    uint64_t slab = uma_or(m->sreclaimable, 0);
    uint64_t available = uma_sub(m->mem_free.value, low);
    available = uma_add(available, cache - (cache / 2 < low ? cache / 2 : low));
    return uma_known_u64(uma_add(available, slab - (slab / 2 < low ? slab / 2 : low)));
}

static void fill_blocks(const struct uma_zones *zones, struct uma_headroom *h) {
    h->largest_free_block = uma_no_u64(zones->buddyinfo.validity == UMA_ABSENT ? UMA_ABSENT : UMA_UNKNOWN);
    if (!uma_usable(zones->page_size.validity) || zones->page_size.value == 0)
        return;
    for (size_t z = 0; z < zones->n_zones; z++) {
        const struct uma_zone *zone = &zones->zones[z];
        uint32_t orders = zone->n_orders < UMA_ORDERS_MAX ? zone->n_orders : UMA_ORDERS_MAX;
        for (uint32_t order = 0; order < orders; order++) {
            uint64_t block = uma_mul(zones->page_size.value, (uint64_t)1 << order);
            h->free_by_order[order] = uma_add(h->free_by_order[order], uma_mul(zone->blocks[order], block));
            if (zone->blocks[order] > 0 && block > uma_or(h->largest_free_block, 0))
                h->largest_free_block = uma_known_u64(block);
        }
        if (orders > 0 && !uma_usable(h->largest_free_block.validity))
            h->largest_free_block = uma_known_u64(0);
        h->n_orders = orders > h->n_orders ? orders : h->n_orders;
    }
}

static uint64_t reserve_of(uint64_t total) {
    uint64_t share = total / RESERVE_SHARE;
    share = share < RESERVE_LEAST ? RESERVE_LEAST : share;
    return share > RESERVE_MOST ? RESERVE_MOST : share;
}

/* A part of the pool that is larger than the pool comes from a torn or edited reading, as does a product that left its range. */
static void limit_to_total(struct uma_headroom *h) {
    struct uma_u64 *const parts[] = { &h->now, &h->available, &h->reclaimable_cache, &h->hugetlb_available, &h->cma_lost };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (uma_usable(h->total.validity) && uma_usable(parts[i]->validity) && parts[i]->value > h->total.value)
            parts[i]->value = h->total.value;
}

/* What MemAvailable means here: less what CMA lost, and NVIDIA's huge page rule where it holds. */
static void fill_available(const struct uma_snapshot *snapshot, struct uma_headroom *h) {
    const struct uma_meminfo *m = &snapshot->meminfo;
    struct uma_u64 raw = m->mem_available;
    if (!uma_usable(raw.validity)) {
        raw = estimated_available(snapshot);
        h->available_estimated = uma_usable(raw.validity);
    }
    h->available = raw;
    h->reclaimable_cache = uma_no_u64(UMA_UNKNOWN);
    if (uma_usable(raw.validity)) {
        h->available.value = uma_sub(raw.value, uma_or(h->cma_lost, 0));
        if (uma_usable(m->mem_free.validity))
            h->reclaimable_cache = uma_known_u64(uma_sub(raw.value, m->mem_free.value));
    }
    h->hugetlb_available = uma_no_u64(UMA_ABSENT);
    if (uma_or(m->hugepages_total, 0) > 0 && uma_usable(m->hugepages_free.validity) && uma_usable(m->hugepagesize.validity)) {
        h->hugetlb_available = uma_known_u64(uma_mul(m->hugepages_free.value, m->hugepagesize.value));
        uint64_t huge = uma_mul(m->hugepages_total.value, m->hugepagesize.value);
        if (uma_usable(m->mem_total.validity) && huge >= m->mem_total.value / HUGETLB_SHARE) {
            h->hugetlb_rule = true;
            h->available = h->hugetlb_available;
            h->available_estimated = false;
        }
    }
    limit_to_total(h);
}

static void fill_driver_pools(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share, const struct uma_ledger *ledger,
                              struct uma_headroom *h) {
    if (ledger->known && uma_driver_pools_evident(snapshot, share))
        h->driver_pools = uma_known_u64(ledger->bytes[UMA_LEDGER_DRIVER_POOLS]);
    else
        h->driver_pools = uma_no_u64(share->any || snapshot->platform.unified == UMA_YES ? UMA_UNKNOWN : UMA_ABSENT);
}

void uma_headroom_build(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share, const struct uma_ledger *ledger,
                        uint64_t reserved, struct uma_headroom *ret_headroom) {
    const struct uma_meminfo *m = &snapshot->meminfo;
    struct uma_headroom h = { .total = m->mem_total,
                              .now = m->mem_free,
                              .swap_free = m->swap_free,
                              .reserved = uma_known_u64(reserved),
                              .cma_lost = uma_cma_lost(m),
                              .gpu_limit = share->gtt_left,
                              .reserve = uma_no_u64(UMA_UNKNOWN),
                              .budget = uma_no_u64(UMA_UNKNOWN) };
    fill_blocks(&snapshot->zones, &h);
    fill_available(snapshot, &h);
    fill_driver_pools(snapshot, share, ledger, &h);
    if (uma_usable(m->mem_total.validity)) {
        h.reserve = uma_known_u64(reserve_of(m->mem_total.value));
        h.reserve_reason = "1/32 of the pool, at least 0.5 and at most 4 GiB: what the system keeps so that it does not freeze";
    }
    if (uma_usable(h.available.validity) && uma_usable(h.reserve.validity)) {
        uint64_t budget = uma_add(h.available.value, uma_or(h.driver_pools, 0));
        budget = budget < m->mem_total.value ? budget : m->mem_total.value;
        budget = uma_sub(uma_sub(budget, h.reserve.value), reserved);
        /* An AMD job is stopped by TTM's limit before the pool is empty: usable is the smaller of the two. */
        uint64_t limit = uma_usable(h.gpu_limit.validity) ? uma_sub(h.gpu_limit.value, reserved) : UINT64_MAX;
        h.budget = (struct uma_u64){ budget < limit ? budget : limit, h.available.validity };
    }
    *ret_headroom = h;
}

bool uma_headroom_note(struct uma_text *text, const struct uma_account *account) {
    struct uma_u64 ordinary = account->views.free_available;
    if (!account->headroom.hugetlb_rule)
        return false;
    uma_text_append(text, "in huge pages (ordinary allocations have ");
    if (uma_usable(ordinary.validity))
        uma_text_bytes(text, uma_sub(ordinary.value, uma_or(account->headroom.cma_lost, 0)));
    else
        uma_text_append(text, "?");
    uma_text_append(text, " available)");
    return true;
}
