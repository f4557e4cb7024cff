/* SPDX-License-Identifier: MIT */
/* advise_huge_pages.c - reserved huge pages, and transparent ones. */
#include "cache/advise_parts.h"

#include "base/units.h"

#include <string.h>

/* ---- reserved ------------------------------------------------------------------------------------------------ */

static const struct uma_evidence reserved_evidence[] = {
    { UMA_CERTAIN_VENDOR, "on unified memory programs are told to take free huge pages for what is available as soon as any are reserved",
      "docs.nvidia.com/dgx/dgx-spark/known-issues.html, getAvailableMemory(); copied by llama.cpp pull request 17368" },
    { UMA_CERTAIN_KERNEL, "reserved pages serve hugetlbfs and nothing else", "Documentation/admin-guide/mm/hugetlbpage.rst" },
};

static void reserved(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->nr_hugepages;
    struct uma_advice *a = uma_advise_number(site, "nr-hugepages", "proc/sys/vm/nr_hugepages", v);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, reserved_evidence);
    a->why = "no memory is set aside for hugetlbfs";
    if (v.value == 0)
        return;
    uint64_t bytes = uma_mul(v.value, uma_or(site->snapshot->meminfo.hugepagesize, 0)), total = uma_or(site->total, 0);
    const char *size = uma_advise_bytes(site, bytes);
    a->now = uma_advise_text(site, "%llu = %s", (unsigned long long)v.value, size);
    /* the rule of headroom.c, too: huge pages are the machine's way of having memory when they are most of it */
    if (total > 0 && bytes > total / 2) {
        a->verdict = UMA_VERDICT_DISPUTED;
        a->why =
            uma_advise_text(site, "most of memory is set aside: right when the programs use hugetlbfs, and everything else has only %s",
                            uma_advise_bytes(site, uma_sub(total, bytes)));
        return;
    }
    uma_advise_set(site, a, UMA_VERDICT_HURTS, "0");
    a->why = uma_advise_text(
        site,
        "%s is kept from page cache, programs and CUDA alike; and engines that follow NVIDIA's rule believe that the free ones among these "
        "pages are all there is",
        size);
}

/* ---- transparent --------------------------------------------------------------------------------------------- */

static const struct uma_evidence enabled_evidence[] = {
    { UMA_CERTAIN_KERNEL, "always gives any large enough range 2 MiB at a time, touched or not; madvise only where a program asked",
      "Documentation/admin-guide/mm/transhuge.rst" },
    { UMA_CERTAIN_FIELD, "DGX OS 7.5 has madvise", "FujitsuPolycom/sparkring issue 173" },
};

static const char *choice_now(struct uma_advise_site *site, const struct uma_choice *choice, struct uma_advice *a) {
    if (choice->selected) {
        a->now = choice->selected;
        return choice->selected;
    }
    a->verdict = UMA_VERDICT_UNKNOWN;
    a->why = uma_advise_text(site, "it could not be read: %s", uma_validity_name(choice->validity));
    return NULL;
}

/* A kernel without transparent huge pages. */
static bool missing(const struct uma_advise_site *site, const struct uma_choice *choice) {
    return choice->validity == UMA_ABSENT && site->settings;
}

static void enabled(struct uma_advise_site *site) {
    const struct uma_tuning *t = site->tuning;
    if (missing(site, &t->thp_enabled))
        return;
    struct uma_advice *a = uma_advise_add(site, "thp", "transparent huge pages");
    a->path = "sys/kernel/mm/transparent_hugepage/enabled";
    const char *now = choice_now(site, &t->thp_enabled, a);
    if (!now)
        return;
    UMA_ADVISE_EVIDENCE(a, enabled_evidence);
    const char *boot =
        t->transparent_hugepage
            ? uma_advise_text(site, " (the kernel's command line says %s: so it is again after a restart)", t->transparent_hugepage)
            : "";
    if (strcmp(now, "always") == 0) {
        a->verdict = UMA_VERDICT_DISPUTED;
        a->command = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
        a->why = uma_advise_text(
            site,
            "fewer faults and less translation for programs that never asked, against memory of the one pool that they never touch, and 2 MiB "
            "blocks that the driver wants as well%s",
            boot);
    } else if (strcmp(now, "never") == 0)
        a->why =
            uma_advise_text(site, "no program gets huge pages, also those that ask: staging weights takes 512 times the faults%s", boot);
    else
        a->why = uma_advise_text(site, "programs that ask get huge pages, others do not take more than they touch%s", boot);
}

static const struct uma_evidence defrag_evidence[] = {
    { UMA_CERTAIN_KERNEL,
      "always: an allocation that finds no huge page stalls, reclaims and compacts at once; madvise does so only where a program asked",
      "Documentation/admin-guide/mm/transhuge.rst" },
    { UMA_CERTAIN_FIELD,
      "2.7 million stalls in compaction in seven days of serving, with madvise set: what stalls cost here, not what always adds to them",
      "FujitsuPolycom/sparkring issue 173" },
};

static void defrag(struct uma_advise_site *site) {
    if (missing(site, &site->tuning->thp_defrag))
        return;
    struct uma_advice *a = uma_advise_add(site, "thp-defrag", "transparent huge pages: defrag");
    a->path = "sys/kernel/mm/transparent_hugepage/defrag";
    const char *now = choice_now(site, &site->tuning->thp_defrag, a);
    if (!now)
        return;
    UMA_ADVISE_EVIDENCE(a, defrag_evidence);
    a->why = "no program waits for a huge page that it did not ask for";
    if (strcmp(now, "always") == 0) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, "madvise");
        a->why =
            "every fault in a large range may reclaim and compact first: with the pool nearly full, as a server leaves it, programs stall in it";
    }
}

static const struct uma_evidence shmem_evidence[] = {
    { UMA_CERTAIN_KERNEL, "force is for testing, deny for emergencies", "Documentation/admin-guide/mm/transhuge.rst, shmem_enabled" },
};

static void shmem(struct uma_advise_site *site) {
    if (missing(site, &site->tuning->thp_shmem))
        return;
    struct uma_advice *a = uma_advise_add(site, "thp-shmem", "transparent huge pages: shmem");
    a->path = "sys/kernel/mm/transparent_hugepage/shmem_enabled";
    const char *now = choice_now(site, &site->tuning->thp_shmem, a);
    if (!now)
        return;
    UMA_ADVISE_EVIDENCE(a, shmem_evidence);
    a->why = "tmpfs and shared memory take what they use";
    if (strcmp(now, "force") == 0) {
        uma_advise_set(site, a, UMA_VERDICT_HURTS, "never");
        a->why = "every file in /dev/shm takes 2 MiB at a time from the pool";
    }
}

void uma_advise_huge_pages(struct uma_advise_site *site) {
    reserved(site);
    enabled(site);
    defrag(site);
    shmem(site);
}
