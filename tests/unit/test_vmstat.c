/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "observe/memory.h"

#include <string.h>
#include <time.h>

static int parse(const char *text, struct uma_vmstat *ret, struct uma_error *err) {
    return uma_vmstat_parse(text, strlen(text), "proc/vmstat", ret, err);
}

static void assert_u64(struct uma_u64 v, uint64_t expected) {
    assert_int_equal(v.validity, UMA_KNOWN);
    assert_int_equal(v.value, expected);
}

static void new_kernel(void **state) {
    (void)state;
    struct uma_vmstat v;
    assert_int_equal(parse("nr_free_pages 784914\nnr_zone_inactive_anon 5\nnr_kernel_misc_reclaimable 0\nnr_foll_pin_acquired 90\n"
                           "nr_foll_pin_released 88\nworkingset_refault_anon 3\nworkingset_refault_file 4\npgpgin 10\nallocstall_dma 1\n"
                           "allocstall_dma32 2\nallocstall_normal 30\nallocstall_movable 400\nallocstall_device 5000\npgscan_kswapd 7\n"
                           "pgscan_direct 8\npgscan_khugepaged 90\npgscan_direct_throttle 1000\npgsteal_kswapd 9\noom_kill 2\nzswpin 1\n",
                           &v, NULL),
                     0);
    assert_u64(v.nr_free_pages, 784914);
    assert_u64(v.nr_foll_pin_acquired, 90);
    assert_u64(v.allocstall, 5433);
    assert_u64(v.pgscan_kswapd, 7);
    assert_u64(v.pgscan_direct, 8); /* without pgscan_direct_throttle, which counts something else */
    assert_u64(v.workingset_refault_anon, 3);
    assert_u64(v.workingset_refault_file, 4);
    assert_u64(v.oom_kill, 2);
    assert_int_equal(v.pgsteal_direct.validity, UMA_ABSENT);
}

/* Before 4.8 reclaim was counted by zone, allocstall was one counter, and there was one refault counter (of file pages). */
static void old_kernel(void **state) {
    (void)state;
    struct uma_vmstat v;
    assert_int_equal(
        parse("nr_free_pages 100\npgsteal_kswapd_dma 0\npgsteal_kswapd_dma32 10\npgsteal_kswapd_normal 5\npgsteal_kswapd_movable 0\n"
              "pgsteal_direct_normal 3\npgscan_kswapd_dma32 20\npgscan_kswapd_normal 22\npgscan_direct_dma32 1\n"
              "pgscan_direct_throttle 77\nallocstall 12\nworkingset_refault 44\nworkingset_activate 9\n",
              &v, NULL),
        0);
    assert_u64(v.pgsteal_kswapd, 15);
    assert_u64(v.pgsteal_direct, 3);
    assert_u64(v.pgscan_kswapd, 42);
    assert_u64(v.pgscan_direct, 1);
    assert_u64(v.allocstall, 12);
    assert_u64(v.workingset_refault_file, 44);
    assert_int_equal(v.workingset_refault_anon.validity, UMA_ABSENT);
    assert_int_equal(v.oom_kill.validity, UMA_ABSENT);
}

static void cut_off(void **state) {
    (void)state;
    struct uma_vmstat v;
    struct uma_error err = { 0 };
    assert_int_equal(parse("nr_free_pages 100\r\npgpgin 12", &v, &err), 1);
    assert_u64(v.nr_free_pages, 100);
    assert_int_equal(v.pgpgin.validity, UMA_MALFORMED);
    assert_int_equal(v.oom_kill.validity, UMA_UNKNOWN); /* may have come later */
    assert_non_null(strstr(err.text, "proc/vmstat:2: pgpgin"));
    /* one part of a sum is missing: the sum is not a number */
    assert_int_equal(parse("allocstall_dma 1\nallocstall_normal 3", &v, NULL), 1);
    assert_int_equal(v.allocstall.validity, UMA_MALFORMED);
    assert_int_equal(v.allocstall.value, 0);
}

static void malformed(void **state) {
    (void)state;
    struct uma_vmstat v;
    struct uma_error err = { 0 };
    assert_int_equal(
        parse("pgpgin -1\npgpgout 99999999999999999999999\noom_kill 1 2\npswpin\npswpout 18446744073709551615\npgfault 5\npgfault 6\n", &v,
              &err),
        5);
    assert_int_equal(v.pgpgin.validity, UMA_MALFORMED);
    assert_int_equal(v.pgpgout.validity, UMA_MALFORMED);
    assert_int_equal(v.oom_kill.validity, UMA_MALFORMED);
    assert_int_equal(v.pswpin.validity, UMA_MALFORMED);
    assert_int_equal(v.pswpout.validity, UMA_MALFORMED); /* -1 printed as unsigned */
    assert_u64(v.pgfault, 5);
    assert_int_equal(parse("allocstall_dma 9223372036854775807\nallocstall_normal 1\nx 1\n", &v, NULL), 0);
    assert_int_equal(v.allocstall.validity, UMA_MALFORMED);
    v.pgpgin = (struct uma_u64){ 7, UMA_KNOWN };
    assert_int_equal(parse("", &v, &err), -EINVAL);
    assert_int_equal(parse("hello world\n", &v, &err), -EINVAL);
    assert_u64(v.pgpgin, 7);
}

static void ten_megabytes(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text text = { 0 };
    while (text.length < 10 * UMA_MIB)
        uma_text_append(&text, "pgscan_k 1\na 2\n");
    clock_t before = clock();
    struct uma_vmstat v;
    assert_int_equal(uma_vmstat_parse(text.data, text.length, "x", &v, NULL), 0);
    assert_true(clock() - before < 5 * CLOCKS_PER_SEC);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_kernel), cmocka_unit_test(old_kernel),    cmocka_unit_test(cut_off),
        cmocka_unit_test(malformed),  cmocka_unit_test(ten_megabytes),
    };
    return cmocka_run_group_tests_name("vmstat", tests, NULL, NULL);
}
