/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "job/tree.h"

#include <string.h>

static int stat_of(const char *text, struct uma_tree_process *p, uint64_t *ticks) {
    return uma_tree_stat_parse(text, strlen(text), p, ticks);
}

static void stat_lines(void **state) {
    (void)state;
    struct uma_tree_process p;
    uint64_t ticks;
    assert_int_equal(
        stat_of("7960 (sleep) S 7934 7960 5146 0 -1 4194304 102 0 0 0 1 2 30 400 20 0 1 0 284409 2990080 389 18446744073709551615 9 0\n",
                &p, &ticks),
        0);
    assert_int_equal(p.pid, 7960);
    assert_int_equal(p.ppid, 7934);
    assert_int_equal(p.state, 'S');
    assert_int_equal(p.start_ticks, 284409);
    assert_int_equal(ticks, 433);
    assert_string_equal(p.name, "sleep");
    /* the name may hold whatever its process wants */
    assert_int_equal(stat_of("1 (a) R 2 (b\n) Z 99 1 1 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 55\n", &p, &ticks), 0);
    assert_int_equal(p.ppid, 99);
    assert_int_equal(p.state, 'Z');
    assert_string_equal(p.name, "a) R 2 (b\n");
    static const char *const bad[] = { "",
                                       "1",
                                       "1 (x",
                                       "1 (x)",
                                       "1 (x) S",
                                       "1 (x) S 1 2 3",
                                       "0 (x) S 1 1 1 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 55",
                                       "x (y) S 1 1 1 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 55",
                                       ") 1 ( S 1 1",
                                       "1 (x) S 1  1 1 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 55" };
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        assert_int_equal(stat_of(bad[i], &p, &ticks), -EINVAL);
}

static void status_lines(void **state) {
    (void)state;
    struct uma_tree_process p = { 0 };
    static const char text[] =
        "Name:\tVmRSS:\t9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t     512 kB\nRssFile:\t     256 kB\nRssShmem:\t       0 kB\nVmSwap:\t 1";
    uma_tree_status_parse(text, strlen(text), &p);
    assert_int_equal(p.rss_peak.value, 2048 * UMA_KIB);
    assert_int_equal(p.rss.value, 1024 * UMA_KIB);
    assert_int_equal(p.anon.value, 512 * UMA_KIB);
    assert_int_equal(p.file.value, 256 * UMA_KIB);
    assert_int_equal(p.shmem.validity, UMA_KNOWN);
    assert_int_equal(p.shmem.value, 0);
    assert_int_equal(p.swap.value, 1024);
    /* a zombie has none of these lines */
    p = (struct uma_tree_process){ 0 };
    uma_tree_status_parse("Name:\tx\nState:\tZ (zombie)\nVmHWM:\nRssAnon:\tmany kB\nVmRSS:\t99999999999999999999 kB\n", 74, &p);
    assert_int_equal(p.rss.validity, UMA_UNKNOWN);
    assert_int_equal(p.anon.validity, UMA_UNKNOWN);
    assert_int_equal(p.rss_peak.validity, UMA_UNKNOWN);
}

/* There was no memory for one: the job goes on, and so does what asks. */
static void no_tree(void **state) {
    (void)state;
    struct uma_tree_reading reading = { .processes = 42 };
    const struct uma_tree_process *list;
    struct uma_error err = { 0 };
    assert_int_equal(uma_tree_read(NULL, &reading, &err), -ENOMEM);
    assert_int_equal(reading.processes, 42); /* untouched */
    assert_int_equal(uma_tree_processes(NULL, &list), 0);
    assert_null(list);
    assert_false(uma_tree_contains(NULL, 1));
    assert_null(uma_tree_free(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(stat_lines), cmocka_unit_test(status_lines), cmocka_unit_test(no_tree) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
