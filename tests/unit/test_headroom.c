/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "account/headroom.h"
#include "account/ledger.h"
#include "base/arena.h"
#include "machine.h"

static struct uma_headroom build(const struct uma_snapshot *s, uint64_t reserved) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_gpu_share share;
    struct uma_ledger ledger;
    struct uma_headroom h;
    assert_int_equal(uma_gpu_share_build(s, arena, &share), 0);
    uma_ledger_build(s, &share, &ledger);
    uma_headroom_build(s, &share, &ledger, reserved, &h);
    return h;
}

static void plain(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    struct uma_headroom h = build(&s, 0);
    const uint64_t reserve = KB(127601452) / 32;
    assert_int_equal(h.total.value, KB(127601452));
    assert_int_equal(h.now.value, KB(105000000));
    assert_int_equal(h.available.value, KB(118566368));
    assert_int_equal(h.reclaimable_cache.value, KB(118566368 - 105000000));
    assert_int_equal(h.reserve.value, reserve);
    assert_non_null(h.reserve_reason);
    assert_int_equal(h.budget.value, KB(118566368) - reserve);
    assert_int_equal(h.driver_pools.validity, UMA_KNOWN); /* asked, and there are none */
    assert_int_equal(h.driver_pools.value, 0);
    assert_int_equal(h.swap_free.value, KB(16777212));
    assert_int_equal(h.gpu_limit.validity, UMA_ABSENT);
    assert_int_equal(h.hugetlb_available.validity, UMA_ABSENT);
    assert_false(h.available_estimated || h.hugetlb_rule);
    h = build(&s, 20 * UMA_GIB);
    assert_int_equal(h.budget.value, KB(118566368) - reserve - 20 * UMA_GIB);
    assert_int_equal(build(&s, UINT64_MAX).budget.value, 0);
}

/* MemTotal decides the reserve: a small machine keeps half a gibibyte, a GH200 keeps four. */
static void reserve(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    s.meminfo.mem_total = u64(8 * UMA_GIB);
    assert_int_equal(build(&s, 0).reserve.value, 512 * UMA_MIB);
    s.meminfo.mem_total = u64(64 * UMA_GIB);
    assert_int_equal(build(&s, 0).reserve.value, 2 * UMA_GIB);
    s.meminfo.mem_total = u64(600 * UMA_GIB);
    assert_int_equal(build(&s, 0).reserve.value, 4 * UMA_GIB);
    assert_int_equal(build(&s, 0).budget.validity, UMA_UNKNOWN); /* nothing says what is available */
}

/* A torn or edited meminfo: no part of the pool is larger than the pool, and a product does not leave its range. */
static void torn(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    s.meminfo.mem_total = u64(UMA_GIB);
    s.meminfo.mem_free = u64(2 * UMA_GIB);
    s.meminfo.mem_available = u64(UINT64_MAX / 2);
    s.meminfo.hugepages_total = s.meminfo.hugepages_free = u64((uint64_t)INT64_MAX);
    s.meminfo.hugepagesize = u64(2 * UMA_MIB);
    s.meminfo.cma_total = u64(UMA_MIB);
    s.meminfo.cma_free = u64(2 * UMA_GIB); /* all that is free */
    struct uma_headroom h = build(&s, 0);
    assert_int_equal(h.cma_lost.value, UMA_GIB);
    assert_int_equal(h.now.value, UMA_GIB);
    assert_int_equal(h.available.value, UMA_GIB);
    assert_int_equal(h.reclaimable_cache.value, UMA_GIB);
    assert_int_equal(h.hugetlb_available.value, UMA_GIB);
    assert_int_equal(h.budget.value, UMA_GIB - 512 * UMA_MIB);
}

/* 40174336 kB available and 80 GiB in pools: a 96 GiB CUDA allocation succeeded there, so the budget must allow it. */
static void pools_count(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_meminfo(&s.meminfo, 3139656, 40174336, 37694160, 1712244);
    machine_gb10(&s, &gpu);
    struct uma_headroom h = build(&s, 0);
    assert_true(h.driver_pools.value > 78 * UMA_GIB);
    assert_in_range(h.budget.value, 96 * UMA_GIB, 116 * UMA_GIB);
    gpu.processes_validity = UMA_DENIED;
    h = build(&s, 0);
    assert_int_equal(h.driver_pools.validity, UMA_UNKNOWN);
    assert_int_equal(h.budget.value, KB(40174336) - h.reserve.value);
    gpu.unified = UMA_NO; /* a Spark has pools even when its driver does not answer */
    assert_int_equal(build(&s, 0).driver_pools.validity, UMA_UNKNOWN);
    s.platform.unified = UMA_NO;
    assert_int_equal(build(&s, 0).driver_pools.validity, UMA_ABSENT);
}

static void cma(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    s.meminfo.cma_free = u64(KB(9751756));
    struct uma_headroom h = build(&s, 0);
    assert_int_equal(h.cma_lost.value, KB(9751756));
    assert_int_equal(h.available.value, KB(118566368 - 9751756));
    assert_int_equal(h.now.value, KB(105000000));
}

static void hugetlb_rule(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    s.meminfo.hugepages_total = s.meminfo.hugepages_free = u64(8); /* a handful: NVIDIA's rule would say 16 MiB */
    struct uma_headroom h = build(&s, 0);
    assert_false(h.hugetlb_rule);
    assert_int_equal(h.hugetlb_available.value, 16 * UMA_MIB);
    assert_int_equal(h.available.value, KB(118566368));
    s.meminfo.hugepages_total = u64(50000); /* 97.7 of 121.7 GiB */
    s.meminfo.hugepages_free = u64(20000);
    s.meminfo.mem_available = u64(KB(18000000));
    h = build(&s, 0);
    assert_true(h.hugetlb_rule);
    assert_int_equal(h.available.value, 20000 * 2 * UMA_MIB);
    s.meminfo.hugepages_free = u64(UINT64_MAX);
    h = build(&s, 0);
    assert_true(h.available.value <= h.total.value && h.budget.value <= h.total.value);
}

/* Before 3.14: the formula of the commit that added MemAvailable. */
static void old_kernel(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_zone zone = { .low_pages = u64(25600) }; /* 100 MiB */
    s.meminfo.mem_total = u64(16 * UMA_GIB);
    s.meminfo.mem_free = u64(2 * UMA_GIB);
    s.meminfo.mem_available.validity = UMA_ABSENT;
    s.meminfo.active_file = u64(UMA_GIB);
    s.meminfo.inactive_file = u64(2 * UMA_GIB);
    s.meminfo.sreclaimable = u64(120 * UMA_MIB);
    s.zones.zones = &zone;
    s.zones.n_zones = 1;
    s.zones.page_size = u64(4096);
    struct uma_headroom h = build(&s, 0);
    assert_true(h.available_estimated);
    assert_int_equal(h.available.value, 2 * UMA_GIB - 100 * UMA_MIB + 3 * UMA_GIB - 100 * UMA_MIB + 60 * UMA_MIB);
    assert_int_equal(h.budget.value, h.available.value - 512 * UMA_MIB);
    s.meminfo.mem_free.validity = UMA_UNKNOWN;
    h = build(&s, 0);
    assert_int_equal(h.available.validity, UMA_UNKNOWN);
    assert_false(h.available_estimated);
    assert_int_equal(h.budget.validity, UMA_UNKNOWN);
}

static void blocks(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    s.zones.buddyinfo.validity = UMA_ABSENT;
    assert_int_equal(build(&s, 0).largest_free_block.validity, UMA_ABSENT);
    struct uma_zone zones[2] = { { .n_orders = 11, .blocks = { [0] = 100, [3] = 7 } },
                                 { .n_orders = 14, .blocks = { [0] = 1, [12] = 27 } } };
    s.zones.buddyinfo.validity = UMA_KNOWN;
    s.zones.zones = zones;
    s.zones.n_zones = 2;
    s.zones.page_size = u64(4096);
    struct uma_headroom h = build(&s, 0);
    assert_int_equal(h.n_orders, 14);
    assert_int_equal(h.free_by_order[0], 101 * 4096);
    assert_int_equal(h.free_by_order[3], 7 * 8 * 4096);
    assert_int_equal(h.free_by_order[12], 27 * 16 * UMA_MIB);
    assert_int_equal(h.largest_free_block.value, 16 * UMA_MIB);
    zones[0] = zones[1] = (struct uma_zone){ .n_orders = UINT32_MAX };
    h = build(&s, 0);
    assert_int_equal(h.largest_free_block.value, 0);
    assert_int_equal(h.largest_free_block.validity, UMA_KNOWN);
    s.zones.page_size.validity = UMA_UNKNOWN;
    assert_int_equal(build(&s, 0).largest_free_block.validity, UMA_UNKNOWN);
}

/* Strix Halo: what TTM's limit leaves bounds the budget (ttm.pages_limit 25165824 = 96 GiB). */
static void gtt(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu = { .vendor = "amd", .unified = UMA_YES, .numa_node = -1 };
    s.meminfo.mem_total = u64(124 * UMA_GIB);
    s.meminfo.mem_free = s.meminfo.mem_available = u64(110 * UMA_GIB);
    gpu.gtt_total = u64(103079215104);
    gpu.gtt_used = u64(6 * UMA_GIB);
    s.gpus.list = &gpu;
    s.gpus.n = 1;
    struct uma_headroom h = build(&s, 0);
    assert_int_equal(h.gpu_limit.value, 90 * UMA_GIB);
    assert_int_equal(h.budget.value, 90 * UMA_GIB);
    s.meminfo.mem_available = u64(50 * UMA_GIB);
    assert_true(build(&s, 0).budget.value < 50 * UMA_GIB);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(plain),       cmocka_unit_test(reserve),      cmocka_unit_test(torn),
                                        cmocka_unit_test(pools_count), cmocka_unit_test(cma),          cmocka_unit_test(blocks),
                                        cmocka_unit_test(old_kernel),  cmocka_unit_test(hugetlb_rule), cmocka_unit_test(gtt) };
    return cmocka_run_group_tests_name("headroom", tests, NULL, NULL);
}
