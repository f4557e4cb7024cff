/* SPDX-License-Identifier: MIT */
/* advise_memory.c - how much the kernel keeps free, how it makes room and blocks, and what it promises to programs. */
#include "cache/advise_parts.h"

#include "base/units.h"

#include <string.h>

/* ---- vm.min_free_kbytes -------------------------------------------------------------------------------------- */

static const struct uma_evidence min_free_evidence[] = {
    { UMA_CERTAIN_KERNEL,
      "the default is sqrt(16 x memory in kB), at most 256 MiB; with transparent huge pages khugepaged raises it to 11 page blocks for each zone, at most 5 % of memory; MemAvailable leaves out the high watermarks, half as much again",
      "mm/page_alloc.c calculate_min_free_kbytes(), mm/khugepaged.c set_recommended_min_free_kbytes(), mm/show_mem.c si_mem_available()" },
    { UMA_CERTAIN_FIELD,
      "4 GiB lowered MemAvailable by about 6.2 GiB, and vLLM's check at start failed on both nodes (98.89 and 100.6 of 102.22 GiB)",
      "tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark, docs/GB10-UNIFIED-MEMORY-FIELD-REPORT.md, section 2" },
    { UMA_CERTAIN_FIELD, "with pages of 64 KiB the default itself came to 10 GiB of 128, and MemAvailable was as much lower",
      "linux-mm, 2023-08-17, \"mm/khugepaged: increase transparent_hugepage_recommend_disable parameter\"" },
};

static uint64_t square_root(uint64_t v) {
    uint64_t root = 0;
    for (uint64_t bit = (uint64_t)1 << 31; bit; bit >>= 1)
        if ((root + bit) * (root + bit) <= v)
            root += bit;
    return root;
}

/* mm/page_alloc.c, calculate_min_free_kbytes(): 262144 since 5.8 (65536 before; the difference only shows above 256 GiB). */
static uint64_t formula_kbytes(uint64_t total) {
    uint64_t kbytes = total / 1024, least = 128, most = 262144;
    uint64_t root = square_root(kbytes > UINT64_MAX / 16 ? UINT64_MAX : kbytes * 16);
    return root < least ? least : root > most ? most : root;
}

static bool zone_counts(const struct uma_zone *z) {
    return uma_or(z->present_pages, 0) > 0 && strcmp(z->name, "Movable") != 0 && strcmp(z->name, "Device") != 0;
}

/* A page block is as large as a huge page, but at most the largest block: with pages of 4 KiB 2 MiB, of 64 KiB 512 MiB. */
static uint64_t khugepaged_kbytes(const struct uma_advise_site *site, uint64_t total) {
    const struct uma_choice *thp = &site->tuning->thp_enabled;
    if (!uma_usable(site->page.validity) || thp->validity == UMA_ABSENT || (thp->selected && strcmp(thp->selected, "never") == 0))
        return 0;
    uint64_t zones = 0, block = site->page.value / 8 * site->page.value;
    for (size_t i = 0; i < site->snapshot->zones.n_zones; i++)
        zones += zone_counts(&site->snapshot->zones.zones[i]);
    return MIN_OF(uma_mul(uma_mul(block, zones), 11), total / 20) / 1024;
}

/* The high watermarks, which MemAvailable leaves out: low and high lie a quarter of min apart, or scale/10000 of the memory where that is more. */
static uint64_t reserve_bytes(uint64_t min_kbytes, uint64_t scale, uint64_t total) {
    uint64_t min = uma_mul(min_kbytes, 1024), step = MAX_OF(min / 4, uma_mul(total / 10000, scale));
    return uma_add(min, uma_mul(2, step));
}

/* What MemAvailable is lowered by beyond the least: under this nobody's start check has been seen to fail for it. */
#define RESERVE_WORTH_TELLING UMA_GIB

static void min_free_kbytes(struct uma_advise_site *site) {
    const struct uma_tuning *t = site->tuning;
    struct uma_advice *a = uma_advise_number(site, "min-free-kbytes", "proc/sys/vm/min_free_kbytes", t->min_free_kbytes);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, min_free_evidence);
    uint64_t now = t->min_free_kbytes.value;
    a->now = uma_advise_text(site, "%llu kB", (unsigned long long)now);
    if (!uma_usable(site->total.validity)) {
        a->verdict = UMA_VERDICT_UNKNOWN;
        a->why = "without MemTotal the kernel's own default is not known";
        return;
    }
    uint64_t total = site->total.value, formula = formula_kbytes(total), usual = MAX_OF(formula, khugepaged_kbytes(site, total));
    uint64_t scale = 10; /* the kernel's default, so that each setting answers for itself */
    uint64_t reserve = reserve_bytes(now, scale, total), extra = uma_sub(reserve, reserve_bytes(formula, scale, total));
    const char *value = uma_advise_text(site, "%llu", (unsigned long long)formula);
    if (now < 1024) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, value);
        a->why = "below 1024 kB the kernel itself has too little to free memory with, and can deadlock";
    } else if (extra > RESERVE_WORTH_TELLING && now <= usual + usual / 16) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, value);
        a->why = uma_advise_text(
            site,
            "the kernel chose it because transparent huge pages are on and its pages are large; it lowers MemAvailable, which engines check at start, by %s more than the %llu kB that the size of memory asks for",
            uma_advise_bytes(site, extra), (unsigned long long)formula);
    } else if (extra > RESERVE_WORTH_TELLING) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, uma_advise_text(site, "%llu", (unsigned long long)usual));
        a->why = uma_advise_text(
            site,
            "somebody raised it: this kernel's own choice here is %llu kB; it lowers MemAvailable, which vLLM and llama.cpp check at start, by %s, and keeps nothing free for CUDA that page cache would not give back",
            (unsigned long long)usual, uma_advise_bytes(site, extra));
    } else
        a->why = uma_advise_text(site, "it keeps %s out of MemAvailable; this kernel's own choice here is %llu kB",
                                 uma_advise_bytes(site, reserve), (unsigned long long)usual);
}

/* ---- watermarks ---------------------------------------------------------------------------------------------- */

static const struct uma_evidence watermark_evidence[] = {
    { UMA_CERTAIN_KERNEL,
      "the distance between watermarks, in 1/10000 of memory; worth raising where allocstall counts up or kswapd sleeps too early",
      "Documentation/admin-guide/sysctl/vm.rst, watermark_scale_factor" },
    { UMA_CERTAIN_FIELD, "125 is advised for desktops with zram, where nothing checks MemAvailable before it starts",
      "wiki.archlinux.org/title/Zram, Optimizing swap on zram" },
};

static void watermark_scale(struct uma_advise_site *site) {
    struct uma_u64 scale = site->tuning->watermark_scale_factor;
    struct uma_advice *a = uma_advise_number(site, "watermark-scale-factor", "proc/sys/vm/watermark_scale_factor", scale);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, watermark_evidence);
    uint64_t total = uma_or(site->total, 0), reserve = uma_mul(2, uma_mul(total / 10000, scale.value));
    if (reserve > RESERVE_WORTH_TELLING) {
        a->verdict = UMA_VERDICT_DISPUTED;
        a->why = uma_advise_text(
            site,
            "kswapd begins earlier, which spares allocations that wait; MemAvailable is %s lower for it, all the time, and an engine's check at start compares with that",
            uma_advise_bytes(site, reserve));
        a->command = "sudo sysctl -w vm.watermark_scale_factor=10 (the kernel's default)";
    } else
        a->why = uma_advise_text(site, "kswapd begins early by %s", uma_advise_bytes(site, reserve));
}

static const struct uma_evidence boost_evidence[] = {
    { UMA_CERTAIN_KERNEL, "after a mixed page block up to factor/10000 of the high watermark is reclaimed on top",
      "Documentation/admin-guide/sysctl/vm.rst, watermark_boost_factor" },
    { UMA_CERTAIN_FIELD, "with 15000 and min_free_kbytes of 4 GiB about 15 GiB can be kept free",
      "tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark, docs/GB10-UNIFIED-MEMORY-FIELD-REPORT.md, section 2" },
};

static void watermark_boost(struct uma_advise_site *site) {
    struct uma_u64 boost = site->tuning->watermark_boost_factor, min = site->tuning->min_free_kbytes;
    struct uma_advice *a = uma_advise_number(site, "watermark-boost-factor", "proc/sys/vm/watermark_boost_factor", boost);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, boost_evidence);
    uint64_t high = reserve_bytes(uma_or(min, 0), uma_or(site->tuning->watermark_scale_factor, 10), uma_or(site->total, 0));
    uint64_t most = uma_mul(high / 10000, boost.value);
    a->why = uma_advise_text(site, "while blocks of memory get mixed, up to %s more is kept free", uma_advise_bytes(site, most));
    if (most > 2 * RESERVE_WORTH_TELLING) {
        a->verdict = UMA_VERDICT_DISPUTED;
        a->why = uma_advise_text(
            site,
            "%s; the cure is a smaller vm.min_free_kbytes or vm.watermark_scale_factor, which it multiplies; 0 switches it off, and with it what keeps large blocks apart from small ones",
            a->why);
    }
}

/* ---- contiguity ---------------------------------------------------------------------------------------------- */

static const struct uma_evidence compaction_evidence[] = {
    { UMA_CERTAIN_KERNEL,
      "0 to 100, default 20: how hard the kernel works in the background for large free blocks; 0 never; high values cost latency elsewhere",
      "Documentation/admin-guide/sysctl/vm.rst, compaction_proactiveness" },
    { UMA_CERTAIN_VENDOR, "the driver takes system memory in blocks of 64 KiB and 2 MiB; one that it cannot have fails the whole request",
      "NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv-vm.c" },
    { UMA_CERTAIN_FIELD,
      "after days of serving no block of 32 MiB was left with 118 GiB available; compaction by hand brought little back, a reboot did",
      "FujitsuPolycom/sparkring issue 173" },
};

static void compaction(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->compaction_proactiveness;
    struct uma_advice *a = uma_advise_number(site, "compaction-proactiveness", "proc/sys/vm/compaction_proactiveness", v);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, compaction_evidence);
    if (v.value == 0) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, "20");
        a->why =
            "nothing makes large free blocks in the background: the driver's requests of 2 MiB blocks then wait, or fail, while plenty is free";
    } else if (v.value > 50) {
        a->verdict = UMA_VERDICT_DISPUTED;
        a->why =
            "more background work for large blocks, which the driver wants, against pages of programs being moved, which costs them latency; nobody has published a measurement on such a machine";
    } else
        a->why = "background work for large free blocks is on";
}

static const struct uma_evidence extfrag_evidence[] = {
    { UMA_CERTAIN_KERNEL, "a zone is not compacted while its fragmentation index is at or below it; the index ends at 1000",
      "Documentation/admin-guide/sysctl/vm.rst, extfrag_threshold" },
};

static void extfrag(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->extfrag_threshold;
    struct uma_advice *a = uma_advise_number(site, "extfrag-threshold", "proc/sys/vm/extfrag_threshold", v);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, extfrag_evidence);
    a->why = "fragmented zones are compacted before memory is taken from programs";
    if (v.value >= 1000) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, "500");
        a->why = "at 1000 a request for a large block never compacts, it only reclaims: cache goes and the block still is not there";
    }
}

static const struct uma_evidence zone_reclaim_evidence[] = {
    { UMA_CERTAIN_KERNEL, "should be left disabled where cached data matters: a node drops its own cache before it takes memory of another",
      "Documentation/admin-guide/sysctl/vm.rst, zone_reclaim_mode" },
};

static void zone_reclaim(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->zone_reclaim_mode;
    struct uma_advice *a = uma_advise_number(site, "zone-reclaim-mode", "proc/sys/vm/zone_reclaim_mode", v);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, zone_reclaim_evidence);
    a->why = "memory of any node is used before cache is dropped";
    if (v.value != 0) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, "0");
        a->why =
            "a full node reclaims before the other is used: weights in the cache are dropped, and allocations wait, while memory is free elsewhere";
    }
}

/* ---- promises ------------------------------------------------------------------------------------------------ */

static const struct uma_evidence overcommit_evidence[] = {
    { UMA_CERTAIN_KERNEL,
      "2 never overcommits: address space counts when it is asked for, up to swap and overcommit_ratio of memory, and MAP_NORESERVE is not honoured",
      "Documentation/mm/overcommit-accounting.rst, mm/mmap.c do_mmap()" },
    { UMA_CERTAIN_VENDOR,
      "CUDA's memory pools reserve about twice the device's memory as address space, and out-of-memory is what a failed reservation is called",
      "NVIDIA/cuda-python pull request 2458" },
};

static void overcommit(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->overcommit_memory;
    struct uma_advice *a = uma_advise_number(site, "overcommit-memory", "proc/sys/vm/overcommit_memory", v);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, overcommit_evidence);
    const struct uma_meminfo *m = &site->snapshot->meminfo;
    a->why = "address space is not refused for what it might need";
    if (v.value != 2)
        return;
    uma_advise_set(site, a, UMA_VERDICT_HURTS, "0");
    bool known = uma_usable(m->commit_limit.validity) && uma_usable(m->committed_as.validity);
    a->why = uma_advise_text(
        site,
        "programs that map weights privately or reserve address space ahead, as CUDA and Python do, are refused with memory free%s%s%s%s%s",
        known ? ": " : "", known ? uma_advise_bytes(site, m->committed_as.value) : "", known ? " of " : "",
        known ? uma_advise_bytes(site, m->commit_limit.value) : "", known ? " are promised" : "");
}

static const struct uma_evidence vfs_evidence[] = {
    { UMA_CERTAIN_KERNEL,
      "at 0 directory entries and inodes are never reclaimed, which can easily lead to out-of-memory; far above 100 costs locks",
      "Documentation/admin-guide/sysctl/vm.rst, vfs_cache_pressure" },
};

static void vfs_cache(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->vfs_cache_pressure;
    struct uma_advice *a = uma_advise_number(site, "vfs-cache-pressure", "proc/sys/vm/vfs_cache_pressure", v);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, vfs_evidence);
    a->why = "names and inodes are given back under pressure";
    if (v.value == 0) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, "100");
        a->why = "names and inodes of every file ever looked at stay in memory for good";
    }
}

static const struct uma_evidence maps_evidence[] = {
    { UMA_CERTAIN_KERNEL, "the default is 65530 mappings for each process", "Documentation/admin-guide/sysctl/vm.rst, max_map_count" },
};

static void max_maps(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->max_map_count;
    struct uma_advice *a = uma_advise_number(site, "max-map-count", "proc/sys/vm/max_map_count", v);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, maps_evidence);
    a->why = "as many mappings as the kernel's default allows, or more";
    if (v.value < 65530) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, "65530");
        a->why = "fewer than the kernel's default: an allocator that maps in pieces is refused with memory free";
    }
}

static const struct uma_evidence lru_evidence[] = {
    { UMA_CERTAIN_KERNEL, "the OOM killer is called when the working set of that many milliseconds does not fit",
      "Documentation/admin-guide/mm/multigen_lru.rst, Thrashing prevention" },
    { UMA_CERTAIN_FIELD,
      "the OOM killer ended a helper of 1 GB beside the engine that held the machine: memory of the GPU is not in its score",
      "LMCache/LMCache issue 4759" },
};

static void lru_min_ttl(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->lru_gen_min_ttl_ms;
    if (v.validity == UMA_ABSENT)
        return; /* a kernel without multi-generation LRU */
    struct uma_advice *a = uma_advise_number(site, "lru-min-ttl", "sys/kernel/mm/lru_gen/min_ttl_ms", v);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, lru_evidence);
    a->now = uma_advise_text(site, "%llu ms", (unsigned long long)v.value);
    a->why = "the OOM killer is not called early";
    if (v.value > 0) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, "0");
        a->why = "it calls the OOM killer early, and on one pool that cannot see who holds the GPU's memory: it ends the wrong programs";
    }
}

void uma_advise_free_memory(struct uma_advise_site *site) {
    min_free_kbytes(site);
    watermark_scale(site);
    watermark_boost(site);
    compaction(site);
    extfrag(site);
    zone_reclaim(site);
    overcommit(site);
    vfs_cache(site);
    max_maps(site);
    lru_min_ttl(site);
}
