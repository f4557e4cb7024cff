/* SPDX-License-Identifier: MIT */
/* problems_memory.c - where the pool's bytes are and should not be, and signs of a shortage. */
#include "account/ledger.h"
#include "account/problems.h"
#include "account/values.h"
#include "base/units.h"

#include <string.h>

/* Bytes in free blocks of at least `least`. */
static uint64_t free_in_blocks(const struct uma_headroom *h, uint64_t page_size, uint64_t least) {
    uint64_t sum = 0;
    for (uint32_t order = 0; order < h->n_orders && order < UMA_ORDERS_MAX; order++)
        if (uma_mul(page_size, (uint64_t)1 << order) >= least)
            sum = uma_add(sum, h->free_by_order[order]);
    return sum;
}

/*
 * Free is not usable when it lies in small pieces: NVIDIA's driver takes blocks of 64 KiB and 2 MiB, and one that it cannot have fails
 * the whole request (nv-vm.c). Two shapes were reported: blocks of 2 MiB have nearly gone (MiaAI-Lab DeepSeek-v4.1 issue 23: 8.7 GiB
 * free, an allocation fails), or much is free and the largest blocks that this kernel has are gone (sparkring issue 173: 118 GiB
 * available, 27 blocks of 16 MiB, none of 32). Free memory normally lies in the largest blocks: under a tenth, or under a hundredth of
 * them with an eighth of the machine free, is far outside that. Where little is available there is nothing to say: a full machine has
 * only pieces left, and a server may run so for weeks.
 */
static void fragmentation(struct uma_problem_site *site) {
    const struct uma_headroom *h = &site->account->headroom;
    struct uma_u64 page = site->snapshot->zones.page_size;
    if (!uma_problem_unified(site) || h->n_orders == 0 || !uma_usable(page.validity) || !uma_usable(h->largest_free_block.validity) ||
        !uma_usable(h->total.validity) || !uma_usable(h->now.validity) || !uma_usable(h->available.validity))
        return;
    uint64_t free = h->now.value, top = uma_mul(page.value, (uint64_t)1 << (h->n_orders - 1));
    uint64_t largest = top < 32 * UMA_MIB ? top : 32 * UMA_MIB;
    uint64_t in_2m = free_in_blocks(h, page.value, 2 * UMA_MIB), in_largest = free_in_blocks(h, page.value, largest);
    bool no_2m = free >= 2 * UMA_GIB && in_2m < free / 10;
    bool no_largest = free >= h->total.value / 8 && in_largest < free / 100;
    if (h->available.value < h->total.value / 8 || !(no_2m || no_largest))
        return;
    const struct uma_vmstat *v = &site->snapshot->vmstat;
    const char *compaction = "";
    if (uma_usable(v->compact_stall.validity) && uma_usable(v->compact_fail.validity))
        compaction = uma_problem_text(site, "; compaction stalled an allocation %llu times and failed %llu",
                                      (unsigned long long)v->compact_stall.value, (unsigned long long)v->compact_fail.value);
    uma_problem_add(
        site, "fragmentation", UMA_WARNING, "free memory lies in small pieces: large and pinned allocations can fail",
        "sudo sysctl vm.compact_memory=1",
        "%s are free: %s in blocks of 2 MiB and more, %s in blocks of %s; the largest free block is %s%s; where compaction does "
        "not bring large blocks back, only a reboot has",
        uma_problem_bytes(site, free), uma_problem_bytes(site, in_2m), uma_problem_bytes(site, in_largest),
        uma_problem_bytes(site, largest), uma_problem_bytes(site, h->largest_free_block.value), compaction);
}

/* The driver's pools have a shrinker (nv-vm.c), which dropping slab caches runs: that is part of what --all does, and it tells of them by themselves. */
static void driver_pools(struct uma_problem_site *site) {
    uint64_t pools = uma_or(site->account->headroom.driver_pools, 0);
    if (pools < 2 * UMA_GIB)
        return;
    bool inferred = site->share->nvidia;
    uma_problem_add(
        site, "driver-pools", inferred ? UMA_WARNING : UMA_INFO,
        "the GPU driver keeps memory of programs that have ended: MemAvailable does not count it, the next GPU allocation gets it",
        "sudo umactl cache evict --all",
        inferred ? "no compute process holds GPU memory, and %s are in use that no counter names beyond what an idle machine has; "
                   "right after an exit they may still be on their way back"
                 : "GPUReclaim is %s",
        uma_problem_bytes(site, pools));
}

static void cma_loss(struct uma_problem_site *site) {
    uint64_t lost = uma_or(site->account->headroom.cma_lost, 0);
    if (lost < 64 * UMA_MIB) /* what batched counters can be apart */
        return;
    uma_problem_add(site, "cma-loss", UMA_WARNING, "the kernel counts memory as free that no program can have",
                    "add kho=off to GRUB_CMDLINE_LINUX in /etc/default/grub, then: sudo update-grub && sudo reboot",
                    "CmaFree is %s and CmaTotal %s: MemFree and MemAvailable are too high by %s (kexec handover of kernel 7.0)",
                    uma_problem_bytes(site, uma_or(site->snapshot->meminfo.cma_free, 0)),
                    uma_problem_bytes(site, uma_or(site->snapshot->meminfo.cma_total, 0)), uma_problem_bytes(site, lost));
}

/* A sixteenth: below that huge pages are someone's small set (DPDK, a database) and the pool is still a pool. */
static void hugetlb_takes_pool(struct uma_problem_site *site) {
    const struct uma_meminfo *m = &site->snapshot->meminfo;
    const struct uma_headroom *h = &site->account->headroom;
    uint64_t huge = uma_hugetlb_bytes(m);
    if (!uma_problem_unified(site) || !uma_usable(h->total.validity) || h->total.value == 0 || huge < h->total.value / 16)
        return;
    const char *unused = uma_usable(h->hugetlb_available.validity)
                             ? uma_problem_text(site, ", %s of them unused", uma_problem_bytes(site, h->hugetlb_available.value))
                             : "";
    uma_problem_add(site, "hugetlb-takes-pool", UMA_WARNING,
                    h->hugetlb_rule ? "most of the pool is set aside as huge pages: GPU programs that follow NVIDIA's rule count only those"
                                    : "part of the pool is set aside as huge pages that ordinary allocations cannot have",
                    "sudo sysctl vm.nr_hugepages=0", "huge pages take %s of %s%s", uma_problem_bytes(site, huge),
                    uma_problem_bytes(site, h->total.value), unused);
}

static uint64_t mapped_shmem(const struct uma_problem_site *site, bool *ret_known) {
    uint64_t sum = 0;
    for (size_t i = 0; i < site->snapshot->processes.n; i++) {
        *ret_known |= uma_usable(site->snapshot->processes.list[i].rss_shmem.validity);
        sum = uma_add(sum, uma_or(site->snapshot->processes.list[i].rss_shmem, 0));
    }
    return sum;
}

/*
 * tmpfs and shared memory that nobody maps stays until its file is removed: a SIGKILL leaks POSIX shared memory (MiaAI-Lab memwatch), and
 * 64 GB were found pinned so (tonyd2wild Qwen3.8 issue 5). A sixteenth of a unified pool; elsewhere a quarter, because databases and
 * desktops keep files in tmpfs on purpose. What processes map is theirs, and their line in the list of holders says so.
 */
static void shmem_large(struct uma_problem_site *site) {
    const struct uma_meminfo *m = &site->snapshot->meminfo;
    bool known = false;
    uint64_t mapped = mapped_shmem(site, &known), total = uma_or(m->mem_total, 0);
    uint64_t idle = uma_sub(uma_or(m->shmem, 0), mapped), least = uma_problem_unified(site) ? total / 16 : total / 4;
    if (!known || total == 0 || idle < least)
        return;
    uma_problem_add(site, "shmem-large", UMA_WARNING, "files in memory (tmpfs, /dev/shm) take part of the pool, and no process maps them",
                    "see: ls -lhS /dev/shm", "Shmem is %s; processes map at most %s of it", uma_problem_bytes(site, m->shmem.value),
                    uma_problem_bytes(site, mapped < m->shmem.value ? mapped : m->shmem.value));
}

static const struct uma_process *most_swapped(const struct uma_problem_site *site) {
    const struct uma_process *most = NULL;
    for (size_t i = 0; i < site->snapshot->processes.n; i++)
        if (uma_or(site->snapshot->processes.list[i].swap, 0) > (most ? most->swap.value : 0))
            most = &site->snapshot->processes.list[i];
    return most;
}

/*
 * Some swap is normal after days (cold pages of daemons): 1 GiB is where it starts to be someone's working set. It hurts when tasks wait
 * for it, which PSI tells: 5 % of the last minute.
 */
static void swap_in_use(struct uma_problem_site *site) {
    const struct uma_meminfo *m = &site->snapshot->meminfo;
    if (!uma_usable(m->swap_total.validity) || !uma_usable(m->swap_free.validity))
        return;
    uint64_t used = uma_sub(m->swap_total.value, m->swap_free.value), cached = uma_or(m->swap_cached, 0);
    if (uma_sub(used, cached) < UMA_GIB)
        return;
    /* What is in the swap cache has come back already and only keeps its place on disk. */
    const char *back =
        cached >= UMA_GIB / 20 ? uma_problem_text(site, ", %s of it is in memory again (SwapCached)", uma_problem_bytes(site, cached)) : "";
    /* Bringing it all back helps where there is room for it beside the reserve; elsewhere it would be the freeze itself. */
    bool room = uma_or(site->account->headroom.budget, 0) > used && !site->account->headroom.hugetlb_rule;
    struct uma_f64 some = site->snapshot->memory_pressure.some.avg60;
    const struct uma_process *most = most_swapped(site);
    const char *who = most ? uma_problem_text(site, ", most of it of %s (pid %d, %s)", most->name ? most->name : "?", (int)most->pid,
                                              uma_problem_bytes(site, most->swap.value))
                           : "";
    const char *waiting = uma_within(some, 0, 1) ? uma_problem_text(site, "; tasks waited for memory %s %% of the last minute",
                                                                    uma_problem_decimal(site, some.value * 100, 1))
                                                 : "";
    uma_problem_add(site, "swap-in-use", uma_problem_pressure(some) >= 0.05 ? UMA_WARNING : UMA_INFO,
                    uma_problem_unified(site)
                        ? "part of the programs' memory is on disk; GPU memory cannot go there, so the rest of the machine does"
                        : "part of the programs' memory is on disk",
                    room ? "sudo swapoff -a && sudo swapon -a" : "see: vmstat 1",
                    "%s of %s swap are used%s%s%s; whether swap should be on at all is disputed: it has saved loads and it has "
                    "prolonged freezes",
                    uma_problem_bytes(site, used), uma_problem_bytes(site, m->swap_total.value), back, who, waiting);
}

/*
 * No budget is no problem by itself: servers rest at 1.5 to 1.9 GiB available for weeks, and alerts on that alone fired 3,700 times in
 * three days (hermes-agent issue 90713). With tasks waiting for memory it is a shortage. A tenth of the time is far above the noise of a
 * healthy machine (PSI 0 there).
 */
static void low_headroom(struct uma_problem_site *site) {
    const struct uma_headroom *h = &site->account->headroom;
    const struct uma_pressure *p = &site->snapshot->memory_pressure;
    double some = uma_problem_pressure(p->some.avg10), full = uma_problem_pressure(p->full.avg10);
    if (!uma_usable(h->budget.validity) || h->budget.value > 0 || h->available.value >= h->reserve.value || some < 0.10)
        return;
    uma_problem_add(
        site, "low-headroom", full >= 0.10 ? UMA_CRITICAL : UMA_WARNING,
        "memory is short: tasks wait for it and nothing is left for a new job", "see: umactl status --watch",
        "%s are available, less than the reserve of %s; in the last 10 s some task waited %s %% and all tasks %s %% of the time",
        uma_problem_bytes(site, h->available.value), uma_problem_bytes(site, h->reserve.value), uma_problem_decimal(site, some * 100, 1),
        uma_problem_decimal(site, full * 100, 1));
}

/* The major and minor numbers that a kernel release begins with; 0 when it does not. */
static uint64_t kernel_version(const char *release) {
    uint64_t major, minor;
    const char *end = release ? release + strlen(release) : NULL;
    const char *p = release ? uma_parse_u64(release, end, &major) : NULL;
    if (!p || *p != '.' || !uma_parse_u64(p + 1, end, &minor) || major > 1000 || minor > 999)
        return 0;
    return major * 1000 + minor;
}

/*
 * Built in and off: reading says EOPNOTSUPP, or, when it was off from the start, the files are not there at all (psi_proc_init). Since a
 * kernel may also lack it, absence counts only where it matters and the kernel is new enough to have it (4.20).
 */
static void psi_disabled(struct uma_problem_site *site) {
    const struct uma_snapshot *s = site->snapshot;
    enum uma_validity v = s->memory_pressure.source.validity;
    bool missing = v == UMA_ABSENT && s->meminfo.source.validity == UMA_KNOWN && s->vmstat.source.validity == UMA_KNOWN &&
                   uma_problem_unified(site) && kernel_version(s->platform.kernel) >= 4020;
    if (v != UMA_UNSUPPORTED && !missing)
        return;
    uma_problem_add(
        site, "psi-disabled", UMA_INFO, "the kernel does not measure memory pressure: shortage can only be seen in levels, later",
        "add psi=1 to GRUB_CMDLINE_LINUX in /etc/default/grub, then: sudo update-grub && sudo reboot", "/proc/pressure/memory %s",
        v == UMA_UNSUPPORTED ? "says that it is not supported: pressure stall information is built in and off"
                             : "does not exist: pressure stall information is off or not built in");
}

/* Small overlaps of counters are normal; 1/256 (half a GiB of a Spark) means that the lines are of different moments or count twice. */
static void ledger_overcounted(struct uma_problem_site *site) {
    const struct uma_ledger *l = &site->account->ledger;
    uint64_t least = l->total / 256 > 64 * UMA_MIB ? l->total / 256 : 64 * UMA_MIB;
    if (!l->known || l->overcounted < least)
        return;
    uma_problem_add(site, "ledger-overcounted", UMA_INFO, "the kernel's counters claim more than there is: this reading is not one moment",
                    "see: umactl status", "rows claimed %s beyond the total of %s and were cut", uma_problem_bytes(site, l->overcounted),
                    uma_problem_bytes(site, l->total));
}

void uma_problems_memory(struct uma_problem_site *site) {
    low_headroom(site);
    uma_problems_cache(site);
    fragmentation(site);
    driver_pools(site);
    cma_loss(site);
    hugetlb_takes_pool(site);
    shmem_large(site);
    swap_in_use(site);
    psi_disabled(site);
    ledger_overcounted(site);
}
