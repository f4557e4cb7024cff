/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "account/ledger.h"
#include "base/arena.h"
#include "machine.h"

static struct uma_ledger build(const struct uma_snapshot *s) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_gpu_share share;
    struct uma_ledger ledger;
    assert_int_equal(uma_gpu_share_build(s, arena, &share), 0);
    uma_ledger_build(s, &share, &ledger);
    assert_int_equal(machine_sum(&ledger), ledger.total);
    return ledger;
}

static void idle(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    struct uma_ledger l = build(&s);
    assert_true(l.known);
    assert_int_equal(l.total, KB(127601452));
    assert_int_equal(l.bytes[UMA_LEDGER_FREE], KB(105000000));
    assert_int_equal(l.bytes[UMA_LEDGER_ANON], KB(1400000));
    assert_int_equal(l.bytes[UMA_LEDGER_SHMEM], KB(3028));
    assert_int_equal(l.bytes[UMA_LEDGER_CACHE_DIRTY], KB(1000));
    assert_int_equal(l.bytes[UMA_LEDGER_CACHE_MAPPED], KB(400000 - 3028));
    assert_int_equal(l.bytes[UMA_LEDGER_CACHE_CLEAN], KB(18100000 - 3028 + 13252 - 1000 - 396972));
    assert_int_equal(l.bytes[UMA_LEDGER_SLAB_RECLAIMABLE], KB(477572));
    assert_int_equal(l.bytes[UMA_LEDGER_SLAB], KB(520360));
    assert_int_equal(l.bytes[UMA_LEDGER_KERNEL], KB(20000 + 40000 + 27520 + 101620 - 20000));
    assert_int_equal(l.bytes[UMA_LEDGER_DRIVER_POOLS], 0); /* 1.8 GiB are left: the idle residual and noise */
    assert_int_equal(l.overcounted, 0);
}

/* vLLM issue 56457's comment: no CUDA process, 80 GiB that nothing names, and a 96 GiB CUDA allocation succeeds. */
static void pools_sample(struct uma_snapshot *s, struct uma_gpu *gpu) {
    machine_meminfo(&s->meminfo, 3139656, 40174336, 37694160, 1712244);
    machine_gb10(s, gpu);
}

static void driver_pools(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    pools_sample(&s, &gpu);
    struct uma_ledger l = build(&s);
    assert_in_range(l.bytes[UMA_LEDGER_DRIVER_POOLS], 78 * UMA_GIB, 80 * UMA_GIB);
    assert_int_equal(l.bytes[UMA_LEDGER_UNEXPLAINED], 1383 * UMA_MIB);

    /* each of these takes the evidence away */
    struct uma_gpu_process p = { .pid = 7, .bytes = u64(5 * UMA_GIB), .compute = true };
    gpu.processes = &p;
    gpu.n_processes = 1;
    l = build(&s);
    assert_int_equal(l.bytes[UMA_LEDGER_DRIVER_POOLS], 0);
    assert_int_equal(l.bytes[UMA_LEDGER_GPU], 5 * UMA_GIB);
    p.bytes.validity = UMA_UNSUPPORTED;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_DRIVER_POOLS], 0);
    p = (struct uma_gpu_process){ .pid = 7, .bytes = u64(84 * UMA_MIB) }; /* Xorg draws: no obstacle */
    assert_true(build(&s).bytes[UMA_LEDGER_DRIVER_POOLS] > 78 * UMA_GIB);
    gpu.n_processes = 0;
    gpu.utilization = f64(0.96); /* someone computes and is not listed */
    assert_int_equal(build(&s).bytes[UMA_LEDGER_DRIVER_POOLS], 0);
    gpu.utilization = f64(0);
    s.platform.in_container = UMA_YES; /* the list shows this PID namespace only */
    assert_int_equal(build(&s).bytes[UMA_LEDGER_DRIVER_POOLS], 0);
    s.platform.in_container = UMA_NO;
    gpu.processes_validity = UMA_FAILED;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_DRIVER_POOLS], 0);
    gpu.processes_validity = UMA_KNOWN;
    s.gpus.source.validity = UMA_STALE;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_DRIVER_POOLS], 0);
    s.gpus.source.validity = UMA_KNOWN;
    s.meminfo.cached.validity = UMA_UNKNOWN; /* then the cache is in the remainder */
    assert_int_equal(build(&s).bytes[UMA_LEDGER_DRIVER_POOLS], 0);
    s.meminfo.cached.validity = UMA_KNOWN;
    gpu.unified = UMA_NO;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_DRIVER_POOLS], 0);
}

static void ttm_counts_its_own(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    machine_meminfo(&s.meminfo, 3139656, 40174336, 37694160, 1712244);
    s.meminfo.gpu_active = u64(20 * UMA_GIB);
    s.meminfo.gpu_reclaim = u64(3 * UMA_GIB);
    struct uma_ledger l = build(&s);
    assert_int_equal(l.bytes[UMA_LEDGER_GPU], 20 * UMA_GIB);
    assert_int_equal(l.bytes[UMA_LEDGER_DRIVER_POOLS], 3 * UMA_GIB);
}

static void gpu_attribution(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpus[2];
    machine_meminfo(&s.meminfo, 3139656, 40174336, 37694160, 1712244);
    machine_gb10(&s, &gpus[0]);
    gpus[1] = gpus[0];
    s.gpus.n = 2;
    /* one process in both lists of a GPU counts once; on two GPUs it counts twice */
    struct uma_gpu_process a[] = { { 9, u64(UMA_GIB), true }, { 4, u64(2 * UMA_GIB), false }, { 9, u64(UMA_GIB), false } };
    struct uma_gpu_process b[] = { { 9, u64(3 * UMA_GIB), true } };
    gpus[0].processes = a;
    gpus[0].n_processes = 3;
    gpus[1].processes = b;
    gpus[1].n_processes = 1;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_GPU], 6 * UMA_GIB);
    gpus[1].unified = UMA_NO; /* a card of its own beside */
    assert_int_equal(build(&s).bytes[UMA_LEDGER_GPU], 3 * UMA_GIB);
    gpus[1].numa_node = 1; /* GH200: its HBM is part of MemTotal */
    assert_int_equal(build(&s).bytes[UMA_LEDGER_GPU], 6 * UMA_GIB);
    /* more than the remainder is cut to it, and is no overcount: managed memory and graphics can be listed and counted as RSS */
    b[0].bytes = u64(UINT64_MAX);
    struct uma_ledger l = build(&s);
    assert_int_equal(l.bytes[UMA_LEDGER_UNEXPLAINED], 0);
    assert_int_equal(l.overcounted, 0);
    assert_true(l.bytes[UMA_LEDGER_GPU] < 81 * UMA_GIB);
}

static void amd_and_tegra(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu = { .vendor = "amd", .unified = UMA_YES, .numa_node = -1 };
    machine_meminfo(&s.meminfo, 3139656, 40174336, 37694160, 1712244);
    s.gpus.source.validity = UMA_KNOWN;
    s.gpus.list = &gpu;
    s.gpus.n = 1;
    gpu.gtt_used = u64(40 * UMA_GIB);
    gpu.vram_used = u64(4 * UMA_GIB); /* carved out before MemTotal */
    assert_int_equal(build(&s).bytes[UMA_LEDGER_GPU], 40 * UMA_GIB);
    assert_true(build(&s).gpu_whole);
    struct uma_gpu_process process = { 7, u64(40 * UMA_GIB), true };
    gpu.processes = &process;
    gpu.n_processes = 1;
    assert_false(build(&s).gpu_whole);
    gpu = (struct uma_gpu){ .vendor = "tegra", .unified = UMA_YES, .numa_node = -1 };
    s.meminfo.nvmap_mem_used = u64(11 * UMA_GIB);
    assert_int_equal(build(&s).bytes[UMA_LEDGER_GPU], 11 * UMA_GIB);
}

static void cma(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    s.meminfo.cma_total = u64(0);
    s.meminfo.cma_free = u64(KB(940604)); /* NV-Kernels PR 590 */
    struct uma_ledger l = build(&s);
    assert_int_equal(l.bytes[UMA_LEDGER_CMA_LOST], KB(940604));
    assert_int_equal(l.bytes[UMA_LEDGER_FREE], KB(105000000 - 940604));
    s.meminfo.cma_free = u64(UINT64_MAX);
    l = build(&s);
    assert_int_equal(l.bytes[UMA_LEDGER_FREE], 0);
    assert_int_equal(l.bytes[UMA_LEDGER_CMA_LOST], KB(105000000));
    s.meminfo.cma_total.validity = UMA_ABSENT;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_CMA_LOST], 0);
    assert_int_equal(uma_cma_lost(&s.meminfo).validity, UMA_UNKNOWN);
}

static void hugetlb(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    s.meminfo.mem_free = u64(KB(65000000));
    s.meminfo.hugepages_total = u64(1000);
    s.meminfo.hugetlb = u64(3 * UMA_GIB); /* also 1 GiB pages */
    assert_int_equal(build(&s).bytes[UMA_LEDGER_HUGETLB], 3 * UMA_GIB);
    s.meminfo.hugetlb.validity = UMA_ABSENT; /* before 4.19 */
    assert_int_equal(build(&s).bytes[UMA_LEDGER_HUGETLB], 2000 * UMA_MIB);
    s.meminfo.hugepages_total = u64(UINT64_MAX);
    struct uma_ledger l = build(&s);
    assert_true(l.overcounted > 0);
}

/* The kernel's accounting, one gibibyte taken by each mechanism, as measured on Linux 6.18. */
static void identity(void **state) {
    (void)state;
    const uint64_t G = UMA_GIB;
    struct uma_snapshot base = { 0 };
    machine_meminfo(&base.meminfo, 105000000, 118566368, 18100000, 1400000);
    struct uma_meminfo *bm = &base.meminfo;
    bm->active_anon = u64(KB(1400000));
    bm->inactive_anon = u64(KB(3028));
    bm->active_file = u64(KB(9000000));
    bm->inactive_file = u64(bm->cached.value + bm->buffers.value - bm->shmem.value - KB(9000000));
    bm->unevictable = bm->mlocked = u64(0);
    bm->mem_free = u64(bm->mem_free.value - G); /* someone took it */
    struct uma_ledger before = build(&base);
    assert_int_equal(before.bytes[UMA_LEDGER_PINNED], 0);

    struct uma_snapshot s = base; /* io_uring fixed buffers after munmap: Inactive(anon) only */
    s.meminfo.inactive_anon.value += G;
    struct uma_ledger l = build(&s);
    assert_int_equal(l.bytes[UMA_LEDGER_PINNED], G);
    assert_int_equal(before.bytes[UMA_LEDGER_UNEXPLAINED] - l.bytes[UMA_LEDGER_UNEXPLAINED], G);

    s = base; /* memfd or tmpfs: Cached, Shmem, Inactive(anon) */
    s.meminfo.cached.value += G;
    s.meminfo.shmem.value += G;
    s.meminfo.inactive_anon.value += G;
    l = build(&s);
    assert_int_equal(l.bytes[UMA_LEDGER_SHMEM], before.bytes[UMA_LEDGER_SHMEM] + G);
    assert_int_equal(l.bytes[UMA_LEDGER_PINNED], 0);
    assert_int_equal(l.bytes[UMA_LEDGER_CACHE_CLEAN], before.bytes[UMA_LEDGER_CACHE_CLEAN] + before.bytes[UMA_LEDGER_CACHE_MAPPED]);

    s = base; /* locked anonymous memory: AnonPages and Unevictable */
    s.meminfo.anon_pages.value += G;
    s.meminfo.unevictable.value += G;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_PINNED], 0);
    s.meminfo.inactive_anon.value += G / 2; /* and half a gibibyte pinned beside it is still seen */
    s.meminfo.mem_free.value -= G + G / 2;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_PINNED], G / 2);

    s = base; /* secretmem: Cached and Unevictable, a file */
    s.meminfo.cached.value += G;
    s.meminfo.unevictable.value += G;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_PINNED], 0);

    s = base; /* MADV_FREE moves anonymous pages to the file lists: never more pinned */
    s.meminfo.active_anon.value -= KB(1000000);
    s.meminfo.inactive_file.value += KB(1000000);
    assert_int_equal(build(&s).bytes[UMA_LEDGER_PINNED], 0);

    s = base; /* pipe buffers, packet rings: no line at all */
    assert_int_equal(build(&s).bytes[UMA_LEDGER_UNEXPLAINED], before.bytes[UMA_LEDGER_UNEXPLAINED]);

    s = base; /* a BPF array: VmallocUsed */
    s.meminfo.vmalloc_used.value += G;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_KERNEL], before.bytes[UMA_LEDGER_KERNEL] + G);
    s.meminfo.percpu.validity = UMA_ABSENT; /* an old kernel's VmallocUsed is address space */
    assert_true(build(&s).bytes[UMA_LEDGER_KERNEL] < before.bytes[UMA_LEDGER_KERNEL]);

    s = base; /* freed pages parked in per-CPU lists */
    struct uma_zone zones[2] = { { .pcp_pages = u64(200000) }, { .pcp_pages = u64(62144) } };
    s.zones.zones = zones;
    s.zones.n_zones = 2;
    s.zones.page_size = u64(4096);
    assert_int_equal(build(&s).bytes[UMA_LEDGER_FREE_PERCPU_LISTS], G);
    s.zones.page_size.validity = UMA_UNKNOWN;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_FREE_PERCPU_LISTS], 0);
}

static void swap_cache(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    s.meminfo.swap_cached = u64(KB(500000));
    assert_int_equal(build(&s).bytes[UMA_LEDGER_ANON], KB(1900000)); /* nothing tells how much of it is mapped */
    s.meminfo.active_anon = u64(KB(1400000));
    s.meminfo.inactive_anon = u64(KB(3028 + 10000)); /* 10 MB of it is not mapped; the rest is in AnonPages already */
    assert_int_equal(build(&s).bytes[UMA_LEDGER_ANON], KB(1410000));
    assert_int_equal(build(&s).bytes[UMA_LEDGER_PINNED], 0);
}

static void mapped_shmem(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    s.meminfo.shmem = u64(KB(300000));
    assert_int_equal(build(&s).bytes[UMA_LEDGER_CACHE_MAPPED], KB(100000));
    struct uma_process p[2] = { { .pid = 1, .rss_shmem = u64(KB(50000)) }, { .pid = 2, .rss_shmem = { 0, UMA_DENIED } } };
    s.processes.list = p;
    s.processes.n = 2;
    assert_int_equal(build(&s).bytes[UMA_LEDGER_CACHE_MAPPED], KB(350000));
    p[0].rss_shmem = u64(UINT64_MAX);
    assert_int_equal(build(&s).bytes[UMA_LEDGER_CACHE_MAPPED], KB(100000));
}

static void torn(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    s.meminfo.mem_free = u64(KB(127000000));
    struct uma_ledger l = build(&s);
    assert_int_equal(l.bytes[UMA_LEDGER_UNEXPLAINED], 0);
    assert_true(l.overcounted > 18 * UMA_GIB);
    s.meminfo.mem_total.validity = UMA_UNKNOWN;
    l = build(&s);
    assert_false(l.known);
    assert_int_equal(l.total, 0);
}

static uint64_t random_state = 0x9e3779b97f4a7c15;
static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Any combination of unknown, huge and plain fields sums to the byte. */
static void any_reading_sums(void **state) {
    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct uma_snapshot s = { 0 };
        struct uma_gpu gpu;
        struct uma_gpu_process p = { .pid = 5, .compute = (random_next() & 1) != 0 };
        machine_gb10(&s, &gpu);
#define RANDOM_FIELD(field, key)                                                                                                           \
    s.meminfo.field = (struct uma_u64){ random_next() >> (random_next() % 48), (enum uma_validity)(random_next() % UMA_VALIDITY_MAX) };
        UMA_MEMINFO_FIELDS(RANDOM_FIELD)
#undef RANDOM_FIELD
        s.meminfo.mem_total.validity = UMA_KNOWN;
        p.bytes = (struct uma_u64){ random_next() >> (random_next() % 48), (enum uma_validity)(random_next() % UMA_VALIDITY_MAX) };
        gpu.processes = &p;
        gpu.n_processes = random_next() & 1;
        (void)build(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(idle),    cmocka_unit_test(driver_pools),    cmocka_unit_test(ttm_counts_its_own),
                                        cmocka_unit_test(cma),     cmocka_unit_test(gpu_attribution), cmocka_unit_test(amd_and_tegra),
                                        cmocka_unit_test(hugetlb), cmocka_unit_test(identity),        cmocka_unit_test(swap_cache),
                                        cmocka_unit_test(torn),    cmocka_unit_test(mapped_shmem),    cmocka_unit_test(any_reading_sums) };
    return cmocka_run_group_tests_name("ledger", tests, NULL, NULL);
}
