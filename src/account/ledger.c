/* SPDX-License-Identifier: MIT */
#include "account/ledger.h"

#include "account/values.h"
#include "base/units.h"

#include <string.h>

/*
 * What an idle Spark's driver and firmware hold that no counter names: 1.1 to 1.35 GiB seen (vLLM issue 56457, comment). The upper end,
 * so that an idle machine shows no pools.
 */
static const uint64_t IDLE_RESIDUAL = 1383 * UMA_MIB;
/* Below this the remainder is noise between boots and drivers; pools after a served model are tens of GiB (vLLM 56457: about 80). */
static const uint64_t POOLS_LEAST = 2 * UMA_GIB;

struct taking {
    struct uma_ledger *ledger;
    uint64_t rest;
};

/* Rows that the kernel counts: what does not fit was counted twice. */
static void take(struct taking *t, enum uma_ledger_kind kind, uint64_t want) {
    uint64_t got = want < t->rest ? want : t->rest;
    t->ledger->bytes[kind] = uma_add(t->ledger->bytes[kind], got);
    t->ledger->overcounted = uma_add(t->ledger->overcounted, want - got);
    t->rest -= got;
}

/* Rows that are inferred or overlap others by nature: they explain what is left and claim nothing beyond it. */
static void explain(struct taking *t, enum uma_ledger_kind kind, uint64_t want) {
    take(t, kind, want < t->rest ? want : t->rest);
}

struct uma_u64 uma_cma_lost(const struct uma_meminfo *m) {
    if (!uma_usable(m->cma_free.validity) || !uma_usable(m->cma_total.validity))
        return uma_no_u64(UMA_UNKNOWN);
    /* With KHO on a 7.0 kernel its scratch area is counted into CmaFree but cannot be had: NVIDIA/NV-Kernels PR 590 and 591. */
    uint64_t lost = m->cma_free.value > m->cma_total.value ? m->cma_free.value : 0;
    uint64_t free = uma_or(m->mem_free, 0);
    return uma_known_u64(lost < free ? lost : free);
}

uint64_t uma_hugetlb_bytes(const struct uma_meminfo *m) {
    /* The Hugetlb line (since 4.19) covers all sizes, the older lines only the default one. */
    return uma_or(m->hugetlb, uma_mul(uma_or(m->hugepages_total, 0), uma_or(m->hugepagesize, 0)));
}

static uint64_t percpu_lists(const struct uma_zones *zones) {
    if (!uma_usable(zones->page_size.validity))
        return 0;
    uint64_t pages = 0;
    for (size_t i = 0; i < zones->n_zones; i++)
        pages = uma_add(pages, uma_or(zones->zones[i].pcp_pages, 0));
    return uma_mul(pages, zones->page_size.value);
}

/* The part of Mapped that is file cache. Mapped counts mapped shared memory too; only processes say how much of it that is. */
static uint64_t mapped_file(const struct uma_snapshot *snapshot) {
    const struct uma_meminfo *m = &snapshot->meminfo;
    uint64_t mapped_shmem = uma_or(m->shmem, 0), sum = 0;
    bool any = false;
    for (size_t i = 0; i < snapshot->processes.n; i++) {
        if (!uma_usable(snapshot->processes.list[i].rss_shmem.validity))
            continue;
        any = true;
        sum = uma_add(sum, snapshot->processes.list[i].rss_shmem.value); /* a page mapped twice is in twice: an upper bound */
    }
    if (any && sum < mapped_shmem)
        mapped_shmem = sum;
    return uma_sub(uma_or(m->mapped, 0), mapped_shmem);
}

static void take_cache(struct taking *t, const struct uma_snapshot *snapshot) {
    const struct uma_meminfo *m = &snapshot->meminfo;
    /* Cached includes Shmem (fs/proc/meminfo.c: NR_FILE_PAGES less swap cache and buffers). */
    uint64_t cache = uma_add(uma_sub(uma_or(m->cached, 0), uma_or(m->shmem, 0)), uma_or(m->buffers, 0));
    /* NFS_Unstable is data on its way to a server; since 5.8 it is in Writeback. */
    uint64_t dirty = uma_add(uma_add(uma_or(m->dirty, 0), uma_or(m->writeback, 0)), uma_or(m->nfs_unstable, 0));
    dirty = dirty < cache ? dirty : cache;
    uint64_t mapped = mapped_file(snapshot);
    mapped = mapped < cache - dirty ? mapped : cache - dirty;
    take(t, UMA_LEDGER_CACHE_DIRTY, dirty);
    take(t, UMA_LEDGER_CACHE_MAPPED, mapped);
    take(t, UMA_LEDGER_CACHE_CLEAN, cache - dirty - mapped);
}

static bool lru_known(const struct uma_meminfo *m) {
    return uma_usable(m->active_anon.validity) && uma_usable(m->inactive_anon.validity) && uma_usable(m->anon_pages.validity) &&
           uma_usable(m->shmem.validity);
}

/*
 * Anonymous pages on the LRU lists that are neither AnonPages (mapped) nor Shmem: swap cache whose process gave it back, and pages
 * that only a pin keeps (io_uring fixed buffers, RDMA, udmabuf).
 *
 * Locked pages leave the active and inactive lists for the unevictable one, which does not say what they are. The file lists do: the
 * file cache that they lack is locked too, and the rest of Unevictable is anonymous or shared memory. Pages of MADV_FREE are on the
 * file lists and only make the result smaller. Pages in per-CPU batches (at most 31 a CPU) are noise.
 */
static uint64_t unmapped_anon(const struct uma_meminfo *m) {
    if (!lru_known(m))
        return 0;
    uint64_t lists = uma_add(m->active_anon.value, m->inactive_anon.value);
    if (uma_usable(m->unevictable.validity) && uma_usable(m->active_file.validity) && uma_usable(m->inactive_file.validity) &&
        uma_usable(m->cached.validity)) {
        uint64_t files = uma_sub(uma_add(m->cached.value, uma_or(m->buffers, 0)), m->shmem.value);
        uint64_t locked_files = uma_sub(files, uma_add(m->active_file.value, m->inactive_file.value));
        lists = uma_add(lists, uma_sub(m->unevictable.value, locked_files));
    }
    return uma_sub(lists, uma_add(m->anon_pages.value, m->shmem.value));
}

/*
 * SwapCached counts pages in the swap cache whether mapped or not, and AnonPages has the mapped ones already. Where the LRU lists are
 * known they tell how many are not mapped; else all of it is taken to be.
 */
static uint64_t swap_cache_beside_anon(const struct uma_meminfo *m) {
    uint64_t swap_cached = uma_or(m->swap_cached, 0), unmapped = unmapped_anon(m);
    return lru_known(m) && unmapped < swap_cached ? unmapped : swap_cached;
}

static uint64_t kernel_bytes(const struct uma_meminfo *m) {
    uint64_t sum = 0;
    const struct uma_u64 parts[] = {
        m->kernel_stack, m->page_tables, m->sec_page_tables, m->percpu, m->bounce, m->writeback_tmp, m->zswap
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        sum = uma_add(sum, uma_or(parts[i], 0));
    /*
     * VmallocUsed is pages since 5.3; 0 from 4.4 on; address space, mostly device registers, before that. Percpu (4.20) tells them apart.
     * Kernel stacks are vmalloc'ed and so in both lines (CONFIG_VMAP_STACK).
     */
    if (uma_usable(m->percpu.validity))
        sum = uma_add(sum, uma_sub(uma_or(m->vmalloc_used, 0), uma_or(m->kernel_stack, 0)));
    return sum;
}

bool uma_driver_pools_evident(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share) {
    if (uma_usable(snapshot->meminfo.gpu_reclaim.validity))
        return true;
    return share->nvidia && share->complete && !share->compute_holds;
}

static void take_driver_pools(struct taking *t, const struct uma_snapshot *snapshot, const struct uma_gpu_share *share) {
    const struct uma_meminfo *m = &snapshot->meminfo;
    explain(t, UMA_LEDGER_DRIVER_POOLS, uma_or(m->gpu_reclaim, 0));
    if (!share->nvidia || !share->complete || share->compute_holds)
        return;
    /* The remainder means something only when all that is usually large was read. */
    if (!uma_usable(m->mem_free.validity) || !uma_usable(m->cached.validity) || !uma_usable(m->anon_pages.validity) ||
        !(uma_usable(m->slab.validity) || uma_usable(m->sunreclaim.validity)))
        return;
    uint64_t others = uma_add(IDLE_RESIDUAL, uma_or(m->balloon, 0));
    uint64_t pools = uma_sub(t->rest, others);
    if (pools > POOLS_LEAST)
        explain(t, UMA_LEDGER_DRIVER_POOLS, pools);
}

void uma_ledger_build(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share, struct uma_ledger *ret_ledger) {
    const struct uma_meminfo *m = &snapshot->meminfo;
    struct uma_ledger ledger = { 0 };
    if (uma_usable(m->mem_total.validity)) {
        struct taking t = { &ledger, m->mem_total.value };
        ledger.known = true;
        ledger.total = m->mem_total.value;
        uint64_t lost = uma_or(uma_cma_lost(m), 0), swap_cache = swap_cache_beside_anon(m);
        take(&t, UMA_LEDGER_CMA_LOST, lost);
        take(&t, UMA_LEDGER_FREE, uma_sub(uma_or(m->mem_free, 0), lost));
        take(&t, UMA_LEDGER_ANON, uma_add(uma_or(m->anon_pages, 0), swap_cache));
        take(&t, UMA_LEDGER_SHMEM, uma_or(m->shmem, 0));
        take_cache(&t, snapshot);
        take(&t, UMA_LEDGER_HUGETLB, uma_hugetlb_bytes(m));
        take(&t, UMA_LEDGER_SLAB_RECLAIMABLE, uma_or(m->kreclaimable, uma_or(m->sreclaimable, 0)));
        take(&t, UMA_LEDGER_SLAB, uma_or(m->sunreclaim, uma_sub(uma_or(m->slab, 0), uma_or(m->sreclaimable, 0))));
        take(&t, UMA_LEDGER_FREE_PERCPU_LISTS, percpu_lists(&snapshot->zones));
        take(&t, UMA_LEDGER_KERNEL, kernel_bytes(m));
        explain(&t, UMA_LEDGER_PINNED, uma_sub(unmapped_anon(m), swap_cache));
        explain(&t, UMA_LEDGER_GPU, share->attributed);
        ledger.gpu_whole = share->whole;
        take_driver_pools(&t, snapshot, share);
        ledger.bytes[UMA_LEDGER_UNEXPLAINED] = t.rest;
    }
    *ret_ledger = ledger;
}
