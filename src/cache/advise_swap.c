/* SPDX-License-Identifier: MIT */
/* advise_swap.c - swap, where it lies, and when it is used. Memory that a GPU driver took is never swapped, whatever is set here. */
#include "cache/advise_parts.h"

#include "base/units.h"

#include <string.h>

enum { ON_DISK = 1, IN_MEMORY = 2 };

/* "/dev/zram0" of /proc/swaps. */
static bool is_zram(const struct uma_swap *swap) {
    const char *last = strrchr(swap->path, '/');
    return strncmp(last ? last + 1 : swap->path, "zram", 4) == 0;
}

static unsigned kinds(const struct uma_snapshot *s) {
    unsigned found = 0;
    for (size_t i = 0; i < s->n_swaps; i++)
        found |= is_zram(&s->swaps[i]) ? IN_MEMORY : ON_DISK;
    return found;
}

static bool known(const struct uma_snapshot *s) {
    return uma_usable(s->swaps_source.validity);
}

/* ---- swap at all --------------------------------------------------------------------------------------------- */

static const struct uma_evidence swap_evidence[] = {
    { UMA_CERTAIN_FIELD, "a job beyond the pool thrashed for nine and a half hours, under a container limit that did not bind",
      "graphistry/pygraphistry pull request 1671" },
    { UMA_CERTAIN_FIELD, "64 GB of swap got weights loaded that the OOM killer had ended before", "sgl-project/sglang issue 37931" },
    { UMA_CERTAIN_FIELD, "swap of 500 MB/s while loading cost no time: without it the load took as long",
      "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks pull request 230" },
    { UMA_CERTAIN_VENDOR, "memory can be made available by swapping out, which cudaMemGetInfo does not count",
      "docs.nvidia.com/dgx/dgx-spark/known-issues.html" },
};

static void swap(struct uma_advise_site *site) {
    const struct uma_snapshot *s = site->snapshot;
    struct uma_advice *a = uma_advise_add(site, "swap", "swap");
    if (!known(s)) {
        a->verdict = UMA_VERDICT_UNKNOWN;
        a->why = "the swap areas could not be read";
        return;
    }
    UMA_ADVISE_EVIDENCE(a, swap_evidence);
    a->verdict = UMA_VERDICT_DISPUTED;
    uint64_t size = 0, used = 0;
    for (size_t i = 0; i < s->n_swaps; i++) {
        size = uma_add(size, s->swaps[i].size);
        used = uma_add(used, s->swaps[i].used);
    }
    if (s->n_swaps == 0) {
        a->now = "none";
        a->why =
            "a dip has nothing to give way into: the kernel ends programs, often not the one that holds the GPU's memory; but a full pool is over quickly";
        return;
    }
    a->now = uma_advise_text(site, "%s %s, %s used", uma_advise_bytes(site, size),
                             s->n_swaps > 1          ? "in several areas"
                             : is_zram(&s->swaps[0]) ? "zram"
                                                     : s->swaps[0].type,
                             uma_advise_bytes(site, used));
    a->why =
        "idle programs make room for a load; but what the GPU's driver holds never moves, so a pool that is really full thrashes instead of failing. umactl does not count swap as memory that a job can have";
}

/* ---- zram and zswap ------------------------------------------------------------------------------------------ */

static const struct uma_evidence zram_evidence[] = {
    { UMA_CERTAIN_KERNEL, "pages are compressed into memory: expect half, and no gain for what does not compress",
      "Documentation/admin-guide/blockdev/zram.rst" },
    { UMA_CERTAIN_FIELD, "on desktops idle memory shrinks to a third or a quarter", "endlessm/eos-boot-helper pull request 191" },
};

static void zram(struct uma_advise_site *site) {
    if (!known(site->snapshot) || !(kinds(site->snapshot) & IN_MEMORY))
        return;
    struct uma_advice *a = uma_advise_add(site, "zram", "swap in memory (zram)");
    UMA_ADVISE_EVIDENCE(a, zram_evidence);
    a->verdict = UMA_VERDICT_DISPUTED;
    uint64_t stored = 0, used = 0;
    bool all = site->tuning->n_zrams > 0;
    for (size_t i = 0; i < site->tuning->n_zrams; i++) {
        const struct uma_zram *z = &site->tuning->zrams[i];
        all = all && uma_usable(z->stored.validity) && uma_usable(z->memory_used.validity);
        stored = uma_add(stored, z->stored.value);
        used = uma_add(used, z->memory_used.value);
    }
    if (all)
        a->now = uma_advise_text(site, "%s in %s", uma_advise_bytes(site, stored), uma_advise_bytes(site, used));
    a->why =
        "what is swapped stays in the one pool, only smaller: idle Python and desktop pages shrink, weights and caches of numbers do not, and compressing needs free memory just when there is none. Nobody has published what it does beside a GPU driver";
}

static const struct uma_evidence zswap_evidence[] = {
    { UMA_CERTAIN_KERNEL, "up to max_pool_percent, 20 by default, of memory holds compressed pages before they go to the disk",
      "Documentation/admin-guide/mm/zswap.rst" },
};

static void zswap(struct uma_advise_site *site) {
    struct uma_advice *a = uma_advise_add(site, "zswap", "zswap");
    UMA_ADVISE_EVIDENCE(a, zswap_evidence);
    if (site->tuning->zswap == UMA_MAYBE) {
        a->verdict = UMA_VERDICT_UNKNOWN;
        a->why = "this kernel shows no zswap, or does not let it be read";
        return;
    }
    a->now = site->tuning->zswap == UMA_YES ? "on" : "off";
    a->why = "swap goes to the disk directly";
    if (site->tuning->zswap == UMA_NO || (known(site->snapshot) && !(kinds(site->snapshot) & ON_DISK)))
        return;
    a->verdict = UMA_VERDICT_DISPUTED;
    a->why =
        "swapped pages are kept compressed in the pool first, up to a fifth of it: fewer waits for the disk, less of the room that swapping was for";
}

/* ---- when ---------------------------------------------------------------------------------------------------- */

static const struct uma_evidence swappiness_evidence[] = {
    { UMA_CERTAIN_KERNEL,
      "0 to 200: at 100 swap and file cache cost the same to read back, below it swap is dearer; beyond 100 is for swap in memory",
      "Documentation/admin-guide/sysctl/vm.rst, swappiness" },
    { UMA_CERTAIN_FIELD, "set to 1, a load of 272 s took 272 s", "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks pull request 230" },
    { UMA_CERTAIN_FIELD, "what worked was not swappiness but keeping memory free during the load",
      "tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark, docs/GB10-UNIFIED-MEMORY-FIELD-REPORT.md, section 1" },
};

static void swappiness(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->swappiness;
    struct uma_advice *a = uma_advise_number(site, "swappiness", "proc/sys/vm/swappiness", v);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, swappiness_evidence);
    unsigned kind = kinds(site->snapshot);
    a->why = "file cache gives way before programs do; two owners changed it and saw no difference";
    if (known(site->snapshot) && kind == 0)
        a->why = "without swap it decides nothing";
    else if (kind == ON_DISK && v.value > 100) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, "60");
        a->why = "programs are swapped to the disk before cache of weights is dropped, which reads back faster";
    }
}

static const struct uma_evidence cluster_evidence[] = {
    { UMA_CERTAIN_KERNEL, "2 to this power pages are read from swap at once", "Documentation/admin-guide/sysctl/vm.rst, page-cluster" },
    { UMA_CERTAIN_FIELD, "with zram 0 is set", "wiki.archlinux.org/title/Zram, Optimizing swap on zram" },
};

static void page_cluster(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->page_cluster;
    struct uma_advice *a = uma_advise_number(site, "page-cluster", "proc/sys/vm/page-cluster", v);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, cluster_evidence);
    a->why = "swap is read in pieces that suit a disk";
    if (kinds(site->snapshot) == IN_MEMORY && v.value > 0) {
        a->verdict = UMA_VERDICT_DISPUTED;
        a->command = "sudo sysctl -w vm.page-cluster=0";
        a->why =
            "swap in memory gains nothing from reading neighbours, and each takes a page of the pool back; distributions with zram set 0, the kernel's documents leave it to the workload";
    }
}

void uma_advise_swap(struct uma_advise_site *site) {
    swap(site);
    zram(site);
    zswap(site);
    swappiness(site);
    page_cluster(site);
}
