/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "guard/helper/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static const char *const no_environment[] = { NULL };

static struct uma_helper_child started(const char *script, int in, int extra, int64_t ends_ns) {
    const char *argv[] = { "sh", "-c", script, NULL };
    struct uma_helper_program program = { .path = "/bin/sh", .argv = argv, .environment = no_environment, .in = in, .extra = extra };
    struct uma_helper_child child;
    assert_int_equal(uma_helper_child_start(&program, ends_ns, &child, NULL), 0);
    return child;
}

static int ended(struct uma_helper_child *child) {
    int status = -1;
    for (int i = 0; i < 1000; i++) {
        if (uma_helper_child_check(child, uma_monotonic_ns(), &status) == 1) {
            assert_int_equal(child->pid, 0);
            assert_int_equal(uma_helper_child_check(child, uma_monotonic_ns(), &status), 0); /* there is none any more */
            return status;
        }
        (void)poll(NULL, 0, 10);
    }
    fail_msg("no end within 10 s");
    return -1;
}

static void status_and_descriptors(void **state) {
    (void)state;
    SKIP_UNDER_EMULATION();
    int in = uma_helper_text_file("body", 4, NULL), extra = uma_helper_text_file("address", 7, NULL);
    assert_true(in >= 0 && extra >= 0);
    /* what it is given, and nothing of ours: no other descriptor, no environment of ours, no signal that is blocked or ignored */
    (void)signal(SIGPIPE, SIG_IGN);
    struct uma_helper_child child =
        started("read a || [ \"$a\" = body ] || exit 3; read b < /dev/fd/3 || [ \"$b\" = address ] || exit 4\n"
                "[ -z \"$HOME\" ] || exit 5\n"
                "for f in /proc/self/fd/*; do case ${f##*/} in 0|1|2|3|'*') ;; *) [ -e \"$f\" ] && exit 6 ;; esac; done\n"
                "exit 7",
                in, extra, INT64_MAX);
    (void)signal(SIGPIPE, SIG_DFL);
    int status = ended(&child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    (void)close(in);
    (void)close(extra);
}

static void no_such_program(void **state) {
    (void)state;
    const char *argv[] = { "x", NULL };
    struct uma_helper_program program = { .path = "/nonexistent/x", .argv = argv, .environment = no_environment, .in = -1, .extra = -1 };
    struct uma_helper_child child;
    assert_int_equal(uma_helper_child_start(&program, INT64_MAX, &child, NULL), 0);
    int status = ended(&child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 127);
}

/* Its time is over: it and what it started go. */
static void too_long(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct uma_helper_child child = started("sleep 100 3>&- & sleep 100", -1, ends[1], uma_monotonic_ns() + 50000000);
    (void)close(ends[1]);
    int status = ended(&child);
    assert_true(child.killed);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    char c;
    assert_int_equal(read(ends[0], &c, 1), 0); /* nobody has the other end any more */
    (void)close(ends[0]);
}

/* One that ended and left somebody behind in its group takes him along. */
static void nobody_is_left(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct uma_helper_child child = started("sleep 100 &", -1, ends[1], INT64_MAX);
    (void)close(ends[1]);
    int status = ended(&child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char c;
    assert_int_equal(read(ends[0], &c, 1), 0);
    (void)close(ends[0]);
}

static void ended_now(void **state) {
    (void)state;
    struct uma_helper_child child = started("sleep 100", -1, -1, INT64_MAX), none = { .pidfd = -1 };
    uma_helper_child_end(&child);
    assert_int_equal(child.pid, 0);
    uma_helper_child_end(&none);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* all are reaped */
}

static void programs(void **state) {
    (void)state;
    char path[64];
    assert_true(uma_helper_program_find("sh", path, sizeof(path)));
    assert_int_equal(path[0], '/');
    assert_false(uma_helper_program_find("no-such-program", path, sizeof(path)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_and_descriptors), cmocka_unit_test(no_such_program), cmocka_unit_test(too_long),
        cmocka_unit_test(nobody_is_left),         cmocka_unit_test(ended_now),       cmocka_unit_test(programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
