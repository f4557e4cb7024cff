/* SPDX-License-Identifier: MIT */
#include "guard/processes_text.h"

#include <string.h>

#include "test.h"

#define NUMBERS " S 7 70 700 34816 70 4194304 11 0 22 0 0 0 0 0 20 0 1 0 5555 3133440 360 18446744073709551615 1 1 0\n"

static bool stat_of(const char *text, struct uma_guard_stat *stat) {
    return uma_guard_stat_parse(text, strlen(text), stat);
}

static void reads_stat(void **state) {
    (void)state;
    struct uma_guard_stat s;
    assert_true(stat_of("70 (cat)" NUMBERS, &s));
    assert_true(s.pid == 70 && s.parent == 7 && s.session == 700 && s.terminal && s.state == 'S' && s.flags == 4194304);
    assert_true(s.faults == 33 && s.start == 5555 && s.resident == 360);
    assert_string_equal(s.name, "cat");
    assert_true(stat_of("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 18446744073709551615\n", &s));
    assert_true(s.flags & UMA_GUARD_FLAG_KERNEL_THREAD);
    assert_false(s.terminal);
}

static void hostile_names(void **state) {
    (void)state;
    struct uma_guard_stat s;
    assert_true(stat_of("70 (foo) Z ()" NUMBERS, &s));
    assert_string_equal(s.name, "foo) Z (");
    assert_true(s.state == 'S' && s.parent == 7);
    assert_true(stat_of("70 (a\nb) R 1 1\n)" NUMBERS, &s));
    assert_string_equal(s.name, "a\nb) R 1 1\n");
    assert_true(stat_of("70 ()" NUMBERS, &s));
    assert_string_equal(s.name, "");
    assert_true(stat_of("70 (kworker/u8:3-events_unbound_and_more)" NUMBERS, &s)); /* kernel threads' are longer */
    assert_string_equal(s.name, "kworker/u8:3-ev");
    assert_true(stat_of("70 (\xff\xfe\x1b[31m)" NUMBERS, &s));
}

static void refuses_what_is_no_stat(void **state) {
    (void)state;
    struct uma_guard_stat s = { .pid = -7 };
    const char *whole = "70 (cat)" NUMBERS;
    size_t needed = (size_t)(strstr(whole, " 18446744073709551615") - whole);
    for (size_t cut = 0; cut <= needed; cut++)
        assert_false(uma_guard_stat_parse(whole, cut, &s));
    assert_true(uma_guard_stat_parse(whole, needed + 1, &s));
    s.pid = -7;
    static const char *const bad[] = {
        "",
        "x",
        "70",
        "70 cat" NUMBERS,
        "-1 (cat)" NUMBERS,
        "99999999999 (cat)" NUMBERS,
        "70 (cat" NUMBERS,
        "70 (cat)  S 7 70\n",
        "70 (cat) 5 7 70 700 34816 70 4194304 11 0 22 0 0 0 0 0 20 0 1 0 5555 3133440 360 1\n",
        "70 (cat) S 99999999999 70 700 34816 70 4194304 11 0 22 0 0 0 0 0 20 0 1 0 5555 3133440 360 1\n",
        "70 (cat) S 7 70 700 34816 70 4194304 11 0 22 0 0 0 0 0 20 0 1 0 99999999999999999999999 3133440 360 1\n",
        "70 (cat) S 7 70 700 34816 70 4194304 11 0 22 0 0 0 0 0 20 0 1 0 x 3133440 360 1\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (stat_of(bad[i], &s))
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(s.pid, -7);
}

static bool status_of(const char *text, bool whole, struct uma_guard_status *status) {
    return uma_guard_status_parse(text, strlen(text), whole, status);
}

static void reads_status(void **state) {
    (void)state;
    struct uma_guard_status s;
    assert_true(status_of("Name:\tx\nUid:\t1000\t1001\t0\t0\nRssAnon:\t     108 kB\nRssFile:\t 5 kB\nRssShmem:\t 7 kB\nVmSwap:\t 9 kB\n",
                          true, &s));
    assert_true(s.known_uid && s.known_memory && s.uid == 1001 && s.anon == 108 * 1024 && s.shmem == 7 * 1024 && s.swap == 9 * 1024);
    assert_true(status_of("Uid:\t0\t0\t0\t0\nRssAnon:\t1 kB\nRssShmem:\t0 kB\n", true, &s)); /* no swap in the kernel */
    assert_true(s.known_memory && s.swap == 0);
    assert_true(status_of("Name:\tkthreadd\nUid:\t0\t0\t0\t0\nKthread:\t1\n", true, &s)); /* it has no memory */
    assert_true(s.known_memory && s.anon == 0);
    assert_true(status_of("Uid:\t5\t5\t0\t0\nGroups:\t1 2 3", false, &s)); /* cut: it may have */
    assert_true(s.known_uid && !s.known_memory);
    assert_true(status_of("Uid:\t5\t5\t0\t0\nRssAnon:\t1 kB\nRssShmem:\t1", true, &s));
    assert_false(s.known_memory);
    assert_true(status_of("Uid:\t5\t5\t0\t0\nRssAnon:\tlots kB\nRssShmem:\t1 kB\n", true, &s));
    assert_false(s.known_memory);
    assert_true(status_of("Uid:\t5\t5\t0\t0\nRssAnon:\t99999999999999999999 kB\nRssShmem:\t1 kB\n", true, &s));
    assert_true(!s.known_memory && s.anon == 0);
    assert_true(status_of("Uid:\t5\nRssAnon:\t1 kB\nRssShmem:\t1 kB\n", true, &s));
    assert_true(!s.known_uid && s.known_memory);
    s.uid = 77;
    assert_false(status_of("", true, &s));
    assert_false(status_of("Name:\tUid:\n\n\n", true, &s));
    assert_int_equal(s.uid, 77);
}

static void reads_cgroup(void **state) {
    (void)state;
    const char *text = "9:name=systemd:/a.slice/b:c.scope\nx\n1:\n3:cpu,cpuacct:/\n0::/system.slice/ssh.service\n0::/cut", *at = text,
               *end = text + strlen(text), *path;
    size_t length;
    assert_true(uma_guard_cgroup_next(&at, end, &path, &length));
    assert_memory_equal(path, "/a.slice/b:c.scope", length);
    assert_int_equal(length, 18);
    assert_true(uma_guard_cgroup_next(&at, end, &path, &length));
    assert_int_equal(length, 1);
    assert_true(uma_guard_cgroup_next(&at, end, &path, &length));
    assert_memory_equal(path, "/system.slice/ssh.service", length);
    assert_false(uma_guard_cgroup_next(&at, end, &path, &length));
    at = text;
    assert_false(uma_guard_cgroup_next(&at, text, &path, &length));
}

static void shells_with_and_without_work(void **state) {
    (void)state;
#define SITS(words) uma_guard_shell_sits(words, sizeof(words) - 1)
    assert_true(SITS("-bash\0"));
    assert_true(SITS("bash\0"));
    assert_true(SITS("bash"));
    assert_true(SITS("bash\0-i\0"));
    assert_true(SITS("bash\0--login\0-i\0"));
    assert_true(SITS("sh\0+m\0"));
    assert_true(SITS("bash\0--rcfile\0") && SITS("bash\0--norc\0")); /* a c in a long option is none */
    assert_false(SITS("bash\0train.sh\0"));
    assert_false(SITS("bash\0-c\0python train.py\0"));
    assert_false(SITS("bash\0-lc\0exec python\0"));
    assert_false(SITS("sh\0-e\0/x\0"));
    assert_false(SITS("")); /* a process that ends: nothing of it can be told */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_stat),   cmocka_unit_test(hostile_names), cmocka_unit_test(refuses_what_is_no_stat),
        cmocka_unit_test(reads_status), cmocka_unit_test(reads_cgroup),  cmocka_unit_test(shells_with_and_without_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
