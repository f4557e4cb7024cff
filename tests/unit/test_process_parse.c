/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "observe/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int setup(void **state) {
    *state = uma_arena_new(4 * UMA_MIB);
    return *state ? 0 : -1;
}
static int teardown(void **state) {
    (void)uma_arena_free(*state);
    return 0;
}

static const char rest[] = " S 7 1 1 0 -1 4194560 100 200 42 0 700 50 9 9 20 0 13 0 4711 52449280 4799 18446744073709551615 1 1\n";

static void stat_of_names(void **state) {
    /* a process chooses its name; what follows the last bracket is the kernel's */
    static const struct {
        const char *comm, *name;
    } cases[] = {
        { "bash", "bash" }, { "foo) Z ", "foo) Z " },         { ") R 1 (", ") R 1 (" },
        { "a\nb", "a\nb" }, { "\x1b[31mred", "\x1b[31mred" }, { "\xff\xfe", "\\xff\\xfe" },
        { "", "" },         { "((()))", "((()))" },           { "tmux: server", "tmux: server" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char text[256];
        int n = snprintf(text, sizeof(text), "123 (%s)%s", cases[i].comm, rest);
        struct uma_process p = { 0 };
        assert_int_equal(uma_process_stat_parse(text, (size_t)n, "stat", *state, &p, NULL), 0);
        assert_string_equal(p.name, cases[i].name);
        assert_int_equal(p.pid, 123);
        assert_int_equal(p.ppid, 7);
        assert_int_equal(p.state, 'S');
        assert_int_equal(p.threads, 13);
        assert_int_equal(p.start_ticks, 4711);
        assert_int_equal(p.majfaults.value, 42);
        assert_true(p.cpu_seconds.value == 7.5);
        assert_false(p.kernel_thread);
    }
}

static void stat_kernel_thread(void **state) {
    static const char text[] = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 3 0 0 20 0 1 0 2 0 0 18446744073709551615 0\n";
    struct uma_process p = { 0 };
    assert_int_equal(uma_process_stat_parse(text, sizeof(text) - 1, "stat", *state, &p, NULL), 0);
    assert_true(p.kernel_thread);
}

/* Cut off anywhere up to the start time, it is refused, says where, and nothing is touched. */
static void stat_cut_off(void **state) {
    char text[256];
    size_t n = (size_t)snprintf(text, sizeof(text), "123 (bash)%s", rest), start_end = (size_t)(strstr(text, "4711") + 4 - text);
    for (size_t length = 0; length <= start_end; length++) {
        struct uma_process p = { .pid = 9 };
        struct uma_error err = { 0 };
        assert_int_equal(uma_process_stat_parse(text, length, "proc/123/stat", *state, &p, &err), -EINVAL);
        assert_int_equal(p.pid, 9);
        assert_null(p.name);
        assert_non_null(strstr(err.text, "proc/123/stat: byte "));
    }
    struct uma_process p = { 0 };
    assert_int_equal(uma_process_stat_parse(text, n, "stat", *state, &p, NULL), 0);
    static const char *const bad[] = { "x (bash) S 1", "99999999999 (x) S 1", "1 bash S 1 1",
                                       "1 (bash) 5 1", "1 (bash) S x",        "1 (b) S 99999999999 1" };
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        assert_int_equal(uma_process_stat_parse(bad[i], strlen(bad[i]), "stat", *state, &p, NULL), -EINVAL);
}

static void status_fields(void **state) {
    (void)state;
    static const char text[] =
        "Name:\tx\\nUid:\t0\nState:\tS (sleeping)\nUid:\t1000\t1001\t1002\t1003\nVmPin:\t 1048576 kB\nVmRSS:\t  300 kB\nRssAnon:\t 100 kB\n"
        "RssFile:\t 150 kB\nRssShmem:\t\t50 kB\nVmSwap:\t 7 kB\nVmLck:\t0 kB\nThreads:\t12\n";
    struct uma_process p = { .pid = 5 };
    assert_int_equal(uma_process_status_parse(text, sizeof(text) - 1, "status", &p, NULL), 0);
    assert_int_equal(p.uid, 1000);
    assert_int_equal(p.threads, 12);
    assert_int_equal(p.rss.value, 300 * 1024);
    assert_int_equal(p.rss_anon.value, 100 * 1024);
    assert_int_equal(p.rss_file.value, 150 * 1024);
    assert_int_equal(p.rss_shmem.value, 50 * 1024);
    assert_int_equal(p.swap.value, 7 * 1024);
    assert_int_equal(p.pinned.value, UMA_GIB);
    assert_int_equal(p.locked.validity, UMA_KNOWN);
    assert_int_equal(p.locked.value, 0);
    assert_int_equal(p.hugetlb.validity, UMA_ABSENT); /* before 4.4 */
}

static void status_garbage(void **state) {
    (void)state;
    static const char text[] =
        "VmRSS:\t18446744073709551615 kB\r\nRssAnon:\t12 MB\nVmSwap: -1 kB\nRssFile:\nUid:\tx\nThreads:\t3\nVmPin:\t5";
    struct uma_process p = { .uid = 77 };
    assert_int_equal(uma_process_status_parse(text, sizeof(text) - 1, "status", &p, NULL), 0);
    assert_int_equal(p.uid, 77);
    assert_int_equal(p.rss.validity, UMA_MALFORMED);
    assert_int_equal(p.rss_anon.validity, UMA_MALFORMED);
    assert_int_equal(p.swap.validity, UMA_MALFORMED);
    assert_int_equal(p.rss_file.validity, UMA_MALFORMED);
    assert_int_equal(p.pinned.validity, UMA_MALFORMED); /* cut off: 5 may have been 52 */
    struct uma_error err = { 0 };
    assert_int_equal(uma_process_status_parse("hello\n::\n\n", 10, "status", &p, &err), -EINVAL);
    assert_int_equal(uma_process_status_parse("", 0, "status", &p, &err), -EINVAL);
    assert_non_null(strstr(err.text, "status"));
}

static void arguments(void **state) {
    struct uma_process p = { 0 };
    static const char text[] = "python3\0-m\0vllm\xff\0\0--api-key\0secret\0\0\0\0";
    assert_int_equal(uma_process_cmdline_parse(text, sizeof(text), false, *state, &p), 0);
    assert_int_equal(p.argc, 6);
    assert_string_equal(p.argv[0], "python3");
    assert_string_equal(p.argv[2], "vllm\\xff");
    assert_string_equal(p.argv[3], "");
    assert_string_equal(p.argv[5], "***");
    assert_false(p.cmdline_cut);
    struct uma_process none = { 0 };
    assert_int_equal(uma_process_cmdline_parse("", 0, false, *state, &none), 0);
    assert_int_equal(none.argc, 0);
    struct uma_process title = { 0 };
    assert_int_equal(uma_process_cmdline_parse("postgres: idle\0\0\0\0\0", 19, false, *state, &title), 0);
    assert_int_equal(title.argc, 1);
}

static void arguments_huge(void **state) {
    enum { SIZE = 10 * 1000 * 1000 };
    char *text = malloc(SIZE);
    assert_non_null(text);
    (void)memset(text, 'x', SIZE);
    struct uma_process p = { 0 };
    assert_int_equal(uma_process_cmdline_parse(text, SIZE, false, *state, &p), 0);
    assert_true(p.cmdline_cut);
    assert_int_equal(p.argc, 1);
    assert_int_equal(strlen(p.argv[0]), UMA_CMDLINE_MAX);
    (void)memset(text, 0, 8192);
    text[8191] = 'x';
    struct uma_process empties = { 0 };
    assert_int_equal(uma_process_cmdline_parse(text, 8192, false, *state, &empties), 0);
    assert_int_equal(empties.argc, 8192);
    assert_string_equal(empties.argv[8190], "");
    assert_string_equal(empties.argv[8191], "x");
    free(text);
    /* an arena that is full is an error, not a crash */
    _cleanup_arena_ struct uma_arena *small = uma_arena_new(64);
    struct uma_process starved = { 0 };
    assert_int_equal(uma_process_cmdline_parse("a\0b\0c\0d\0e\0f\0g\0h\0i\0j\0k", 21, false, small, &starved), -ENOMEM);
    assert_int_equal(starved.argc, 0);
    assert_null(starved.argv);
}

static void cgroup_lines(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int r, version;
        const char *path;
    } cases[] = {
        { "0::/user.slice/session-1.scope\n", 0, 2, "/user.slice/session-1.scope" },
        { "5:cpu,cpuacct:/a\n4:memory:/docker/x\n1:name=systemd:/b\n0::/c\n", 0, 1, "/docker/x" }, /* hybrid: memory is on v1 */
        { "0::/c\n4:hugetlb,memory:/m\n", 0, 1, "/m" },
        { "1:name=systemd:/b\n5:cpu:/a\n", 0, 0, "/b" },
        { "0::/a:b:c\r\n", 0, 2, "/a:b:c" },
        { "0::/../../outside\n", 0, 2, "/../../outside" },
        { "0::/cut", 0, 2, "/cut" },
        { "4:mymemory:/x\n", -EINVAL, 0, NULL },
        { "4:memory:x\n", -EINVAL, 0, NULL },
        { "\n\n::\n", -EINVAL, 0, NULL },
        { "", -EINVAL, 0, NULL },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        int version = -1;
        const char *path = NULL;
        size_t n = 0;
        struct uma_error err = { 0 };
        assert_int_equal(uma_process_cgroup_parse(cases[i].text, strlen(cases[i].text), "cgroup", &version, &path, &n, &err), cases[i].r);
        if (cases[i].r < 0) {
            assert_true(err.text[0] && version == -1);
            continue;
        }
        assert_int_equal(version, cases[i].version);
        assert_int_equal(n, strlen(cases[i].path));
        assert_memory_equal(path, cases[i].path, n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_of_names),  cmocka_unit_test(stat_kernel_thread), cmocka_unit_test(stat_cut_off),
        cmocka_unit_test(status_fields),  cmocka_unit_test(status_garbage),     cmocka_unit_test(arguments),
        cmocka_unit_test(arguments_huge), cmocka_unit_test(cgroup_lines),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
