/* SPDX-License-Identifier: MIT */
#include "guard/group.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static struct uma_guard_scan scan;

static bool parse(const char *text, char *ret_path) {
    return uma_guard_group_path_parse(text, strlen(text), ret_path, 32);
}

static void paths(void **state) {
    static const char *const none[] = { "",           "0::/\n",
                                        "0::/a",      "1:cpu:/a\n",
                                        "0::/../a\n", "0::/a/../b\n",
                                        "0::/..\n",   "0:://etc\n",
                                        "0::a\n",     "0::/0123456789012345678901234567890123456789\n" };
    char path[32];
    (void)state;
    assert_true(parse("12:memory:/x\n0::/system.slice/a.service\n", path));
    assert_string_equal(path, "system.slice/a.service");
    assert_true(parse("0::/a..b\n", path));
    for (size_t i = 0; i < ELEMENTS(none); i++)
        if (parse(none[i], path))
            fail_msg("accepted: %s", none[i]);
}

static void put(int folder, const char *name, const char *text) {
    int fd = openat(folder, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        fail_msg("%s", name);
    (void)close(fd);
}

static pid_t sleeper(int group) {
    char number[16];
    pid_t child = fork();
    if (child == 0)
        for (;;)
            (void)pause();
    (void)snprintf(number, sizeof(number), "%d", (int)child);
    put(group, "cgroup.procs", number);
    return child;
}

static void only_a_tree_that_is_alone_is_killed(void **state) {
    struct uma_guard_groups groups;
    char name[32];
    (void)state;
    uma_guard_groups_open(&groups);
    (void)snprintf(name, sizeof(name), "umactl-test-%d", (int)getpid());
    if (groups.folder < 0 || mkdirat(groups.folder, name, 0755) != 0)
        SKIP_BECAUSE("no control groups v2 that may be written");
    int group = openat(groups.folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t first = sleeper(group), second = sleeper(group);
    assert_int_equal(uma_guard_scan_open(&scan, ""), 0);
    assert_int_equal(uma_guard_scan_take(&scan), 0);
    uma_guard_scan_clear(&scan);
    uma_guard_scan_find(&scan, first)->in = true;
    assert_int_equal(uma_guard_groups_kill(&groups, &scan, first, false), 0); /* the second is no part of it */
    uma_guard_scan_find(&scan, second)->in = true;
    assert_int_equal(mkdirat(group, "below", 0755), 0);
    assert_int_equal(uma_guard_groups_kill(&groups, &scan, first, false), 0); /* a group below it would go too */
    assert_int_equal(unlinkat(group, "below", AT_REMOVEDIR), 0);
    assert_int_equal(uma_guard_groups_kill(&groups, &scan, first, true), 1); /* a dry run */
    assert_int_equal(kill(first, 0), 0);
    assert_int_equal(uma_guard_groups_kill(&groups, &scan, first, false), 1);
    int how;
    assert_int_equal(waitpid(first, &how, 0), first);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    assert_int_equal(waitpid(second, &how, 0), second);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    for (int i = 0; i < 100 && unlinkat(groups.folder, name, AT_REMOVEDIR) != 0; i++)
        (void)usleep(10000);
    (void)close(group);
    uma_guard_scan_close(&scan);
    uma_guard_groups_close(&groups);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),
        cmocka_unit_test(only_a_tree_that_is_alone_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
