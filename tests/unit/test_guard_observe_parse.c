/* SPDX-License-Identifier: MIT */
#include "guard/observe.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

#define MEMINFO                                                                                                                            \
    "MemTotal:       1000 kB\nMemFree:         300 kB\nMemAvailable:    600 kB\nBuffers:          10 kB\nCached:          290 kB\n"        \
    "SwapCached:        0 kB\nSwapTotal:       50 kB\nSwapFree:        40 kB\nDirty:            3 kB\nWriteback:        2 kB\n"            \
    "AnonPages:       100 kB\nShmem:            20 kB\n"

static bool meminfo(const char *text, struct uma_guard_reading *reading) {
    memset(reading, 0, sizeof(*reading));
    return uma_guard_meminfo_parse(text, strlen(text), reading);
}

static void reads_meminfo(void **state) {
    (void)state;
    struct uma_guard_reading r;
    assert_true(meminfo(MEMINFO, &r));
    assert_int_equal(r.known, UMA_GUARD_KNOWS_MEMINFO);
    assert_int_equal(r.total, 1000 * 1024);
    assert_int_equal(r.free, 300 * 1024);
    assert_int_equal(r.available, 600 * 1024);
    assert_int_equal(r.anon, 100 * 1024);
    assert_int_equal(r.shmem, 20 * 1024);
    assert_int_equal(r.cache, 280 * 1024);
    assert_int_equal(r.dirty, 5 * 1024);
    assert_int_equal(r.swap_total, 50 * 1024);
    assert_int_equal(r.swap_free, 40 * 1024);
    /* CMA has more free than it has: lost */
    assert_true(meminfo(MEMINFO "CmaTotal: 10 kB\nCmaFree: 150 kB\n", &r));
    assert_int_equal(r.available, 450 * 1024);
    assert_true(meminfo(MEMINFO "CmaTotal: 10 kB\nCmaFree: 9 kB\n", &r));
    assert_int_equal(r.available, 600 * 1024);
    assert_true(meminfo(MEMINFO "CmaTotal: 0 kB\nCmaFree: 1500 kB\n", &r));
    assert_int_equal(r.available, 0);
}

static void refuses_what_is_no_meminfo(void **state) {
    (void)state;
    struct uma_guard_reading r;
    const char *whole = MEMINFO;
    size_t n = strlen(whole);
    for (size_t cut = 0; cut < n; cut++) { /* a number that lost a digit must not count */
        memset(&r, 0, sizeof(r));
        assert_false(uma_guard_meminfo_parse(whole, cut, &r));
        assert_int_equal(r.known, 0);
    }
    assert_false(meminfo("", &r));
    assert_false(meminfo("MemTotal: 99999999999999999999999 kB\n", &r));
    assert_true(meminfo("MemTotal: 7 MB\n" MEMINFO, &r)); /* not in kB: passed over */
    assert_int_equal(r.total, 1000 * 1024);
    assert_true(meminfo("MemFree\n:\n::: 7 kB\n" MEMINFO, &r));
    assert_int_equal(r.free, 300 * 1024);
    assert_true(meminfo(MEMINFO "MemFree: 1 kB\n", &r)); /* the first of a name */
    assert_int_equal(r.free, 300 * 1024);
}

static bool vmstat(const char *text, struct uma_guard_reading *reading) {
    memset(reading, 0, sizeof(*reading));
    return uma_guard_vmstat_parse(text, strlen(text), reading);
}

static void reads_vmstat(void **state) {
    (void)state;
    struct uma_guard_reading r;
    assert_true(vmstat(
        "nr_free_pages 9\nallocstall_dma 1\nallocstall_normal 2\nallocstall_movable 30\npgscan_direct 5\npgscan_direct_throttle 77\n"
        "pgsteal_direct 4\ncompact_stall 6\ncompact_fail 7\npswpin 8\npswpout 9\nworkingset_refault_anon 66\nworkingset_refault_file 10\n",
        &r));
    assert_int_equal(r.known, UMA_GUARD_KNOWS_VMSTAT);
    assert_int_equal(r.allocstall, 33);
    assert_int_equal(r.pgscan_direct, 5);
    assert_int_equal(r.pgsteal_direct, 4);
    assert_int_equal(r.compact_stall, 6);
    assert_int_equal(r.compact_fail, 7);
    assert_int_equal(r.pswpin, 8);
    assert_int_equal(r.pswpout, 9);
    assert_int_equal(r.refault_file, 10);
    assert_true(vmstat("allocstall 3\npgscan_direct 1\n", &r)); /* no swap, no compaction */
    assert_int_equal(r.allocstall, 3);
    assert_false(vmstat("allocstall_normal 3\npgscan_direct 1", &r)); /* cut */
    assert_false(vmstat("allocstall_normal x\npgscan_direct 1\n", &r));
    assert_false(vmstat("allocstall_normal -3\npgscan_direct 1\n", &r));
    assert_false(vmstat("\n\n \n", &r));
    assert_true(vmstat("allocstall_a 18446744073709551615\nallocstall_b 5\npgscan_direct 0\n", &r));
    assert_true(r.allocstall == UINT64_MAX);
}

static bool pressure(const char *text, struct uma_guard_reading *reading) {
    memset(reading, 0, sizeof(*reading));
    return uma_guard_pressure_parse(text, strlen(text), reading);
}

static void reads_pressure(void **state) {
    (void)state;
    struct uma_guard_reading r;
    assert_true(pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=7\n", &r));
    assert_int_equal(r.known, UMA_GUARD_KNOWS_PRESSURE);
    assert_int_equal(r.psi_some, 12000);
    assert_int_equal(r.psi_full, 7000);
    assert_false(pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n", &r));
    assert_false(pressure("some avg10=0.00 total=12\nfull avg10=1.00 total=7", &r));
    assert_false(pressure("some avg10=0.00 total=\nfull avg10=1.00 total=7\n", &r));
    assert_false(pressure("", &r));
}

static void reads_zoneinfo(void **state) {
    (void)state;
    struct uma_guard_reading r = { 0 };
    const char *text =
        "Node 0, zone      DMA\n  pages free     3840\n  pagesets\n    cpu: 0\n              count:    5\n              high:     0\n"
        "    cpu: 1\n              count:    7\n  node_unreclaimable:  0\n";
    assert_true(uma_guard_zoneinfo_parse(text, strlen(text), 4096, &r));
    assert_int_equal(r.known, UMA_GUARD_KNOWS_LISTS);
    assert_int_equal(r.per_cpu, 12 * 4096);
    r = (struct uma_guard_reading){ 0 };
    assert_false(uma_guard_zoneinfo_parse("count: x\n", 9, 4096, &r));
    assert_false(uma_guard_zoneinfo_parse("count: 1", 8, 4096, &r));
    assert_false(uma_guard_zoneinfo_parse("", 0, 4096, &r));
    assert_int_equal(r.known, 0);
    text = "count: 18446744073709551615\ncount: 9\n";
    assert_true(uma_guard_zoneinfo_parse(text, strlen(text), 65536, &r));
    assert_true(r.per_cpu == UINT64_MAX);
}

static void reads_buddyinfo(void **state) {
    (void)state;
    struct uma_guard_reading r = { 0 };
    const char *text = "Node 0, zone      DMA      1      0      0      0      0      0      0      0      1      1      3 \n"
                       "Node 0, zone   Normal    435      8     87     72    371    335    232     69     13    107    116 \n";
    assert_true(uma_guard_buddyinfo_parse(text, strlen(text), &r));
    assert_int_equal(r.known, UMA_GUARD_KNOWS_BLOCKS);
    assert_int_equal(r.blocks[0], 436);
    assert_int_equal(r.blocks[10], 119);
    /* a kernel with 14 orders: one block of order 13 is eight of order 10 */
    text = "Node 0, zone   Normal 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n";
    assert_true(uma_guard_buddyinfo_parse(text, strlen(text), &r));
    assert_int_equal(r.blocks[10], 1 + 2 + 4 + 8);
    r = (struct uma_guard_reading){ 0 };
    static const char *const bad[] = { "",
                                       "Node 0, zone\n",
                                       "Node 0, zone Normal\n",
                                       "Node 0, zone Normal 1 2 3",
                                       "Node 0, zone Normal 1 x\n",
                                       "Node 0, zone Normal 1 2\nhello\n",
                                       "Node 0, zone Normal 1 2x 3\n",
                                       "Node 0, zone Normal 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28\n" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(uma_guard_buddyinfo_parse(bad[i], strlen(bad[i]), &r));
    assert_int_equal(r.known, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_meminfo),  cmocka_unit_test(refuses_what_is_no_meminfo),
        cmocka_unit_test(reads_vmstat),   cmocka_unit_test(reads_pressure),
        cmocka_unit_test(reads_zoneinfo), cmocka_unit_test(reads_buddyinfo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
