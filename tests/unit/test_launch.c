/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "job/launch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct uma_signals signals;

static int take(void **state) {
    (void)state;
    struct uma_error err = { 0 };
    return uma_signals_take(&signals, &err);
}

static int give_back(void **state) {
    (void)state;
    uma_signals_restore(&signals);
    return close(signals.fd);
}

static struct uma_launched launch(char *const *argv, int procs_fd, bool die_with_umactl) {
    struct uma_terminal terminal = { .fd = -1 };
    struct uma_cgroup_scope scope = { .dir_fd = -1, .procs_fd = procs_fd };
    struct uma_launch how = {
        .argv = argv, .signals = &signals, .terminal = &terminal, .scope = &scope, .die_with_umactl = die_with_umactl
    };
    struct uma_launched launched;
    struct uma_error err = { 0 };
    assert_int_equal(uma_job_launch(&how, &launched, &err), 0);
    return launched;
}

static int status_of(struct uma_launched launched) {
    int status;
    assert_int_equal(waitpid(launched.pid, &status, 0), launched.pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int shell(const char *script) {
    char *argv[] = { (char *)"sh", (char *)"-c", (char *)script, NULL };
    struct uma_launched launched = launch(argv, -1, true);
    assert_int_equal(launched.exec_errno, 0);
    return status_of(launched);
}

static void runs(void **state) {
    (void)state;
    assert_int_equal(shell("exit 7"), 7);
    /* a group of its own, in which it is the leader: field 5 of stat is the group (proc_pid_stat(5)) */
    assert_int_equal(shell("read pid name state parent group rest </proc/$$/stat && test $group = $$"), 0);
}

static void cannot_run(void **state) {
    (void)state;
    char *missing[] = { (char *)"/nonexistent/program", NULL }, *folder[] = { (char *)"/", NULL };
    struct uma_launched launched = launch(missing, -1, false);
    assert_int_equal(launched.exec_errno, ENOENT);
    assert_int_equal(uma_exec_status(launched.exec_errno), 127);
    launched = launch(folder, -1, false);
    assert_int_equal(launched.exec_errno, EACCES);
    assert_int_equal(uma_exec_status(launched.exec_errno), 126);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* both are reaped */
}

/* umactl blocks and ignores for itself; the job begins as umactl was begun. */
static void signals_are_those_inherited(void **state) {
    (void)state;
    assert_int_equal(
        shell("while read name value; do test $name != SigBlk: || test $value = 0000000000000000 || exit 1; done </proc/$$/status"), 0);
    char script[200];
    sigset_t blocked;
    assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &blocked), 0);
    assert_true(sigismember(&blocked, SIGTERM) == 1); /* here they are */
    (void)snprintf(script, sizeof(script), "kill -PIPE $$; exit 3");
    char *argv[] = { (char *)"sh", (char *)"-c", script, NULL };
    int status;
    struct uma_launched launched = launch(argv, -1, false);
    assert_int_equal(waitpid(launched.pid, &status, 0), launched.pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
}

static void no_descriptor_goes_along(void **state) {
    (void)state;
    char script[100];
    int own = open("/dev/null", O_RDONLY | O_CLOEXEC), theirs = open("/dev/null", O_RDONLY);
    (void)snprintf(script, sizeof(script), "test ! -e /proc/$$/fd/%d && test ! -e /proc/$$/fd/%d && test -e /proc/$$/fd/%d", own,
                   signals.fd, theirs);
    assert_int_equal(shell(script), 0);
    (void)close(own);
    (void)close(theirs);
}

static void an_environment_of_its_own(void **state) {
    (void)state;
    struct uma_terminal terminal = { .fd = -1 };
    struct uma_cgroup_scope scope = { .dir_fd = -1, .procs_fd = -1 };
    char *argv[] = { (char *)"sh", (char *)"-c", (char *)"test \"$UMA_ONLY\" = here && test -z \"$HOME$UMA_OURS\"", NULL };
    char *environment[] = { (char *)"UMA_ONLY=here", NULL };
    struct uma_launch how = { .argv = argv, .environment = environment, .signals = &signals, .terminal = &terminal, .scope = &scope };
    struct uma_launched launched;
    assert_int_equal(setenv("UMA_OURS", "x", 1), 0);
    assert_int_equal(uma_job_launch(&how, &launched, NULL), 0); /* found in umactl's PATH all the same */
    assert_int_equal(launched.exec_errno, 0);
    assert_int_equal(status_of(launched), 0);
    assert_null(getenv("UMA_ONLY"));
    assert_int_equal(shell("test \"$UMA_OURS\" = x"), 0);
}

static void a_group_that_refuses(void **state) {
    (void)state;
    char *argv[] = { (char *)"true", NULL };
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    struct uma_launched launched = launch(argv, full, false);
    assert_int_equal(launched.cgroup_errno, ENOSPC);
    assert_int_equal(launched.exec_errno, 0); /* it runs all the same */
    assert_int_equal(status_of(launched), 0);
    (void)close(full);
}

/* The group that the driver holds to a limit: where nothing else does, the job does not begin outside of it. */
static void a_limited_group_that_refuses(void **state) {
    (void)state;
    char *argv[] = { (char *)"true", NULL };
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct uma_terminal terminal = { .fd = -1 };
    struct uma_cgroup_scope scope = { .dir_fd = -1, .procs_fd = -1 }, limit = { .dir_fd = -1, .procs_fd = full };
    struct uma_launch how = { .argv = argv, .signals = &signals, .terminal = &terminal, .scope = &scope, .limit_scope = &limit };
    struct uma_launched launched;
    assert_true(full >= 0);
    assert_int_equal(uma_job_launch(&how, &launched, NULL), 0);
    assert_int_equal(launched.limit_errno, ENOSPC);
    assert_int_equal(launched.exec_errno, 0);
    assert_int_equal(status_of(launched), 0);
    how.limit_needed = true;
    how.argv = (char *[]){ (char *)"sh", (char *)"-c", (char *)"echo ran >&2", NULL };
    assert_int_equal(uma_job_launch(&how, &launched, NULL), 0);
    assert_int_equal(launched.limit_errno, ENOSPC);
    assert_int_equal(launched.exec_errno, ENOSPC); /* and it was waited for */
    (void)close(full);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(runs),
                                        cmocka_unit_test(cannot_run),
                                        cmocka_unit_test(signals_are_those_inherited),
                                        cmocka_unit_test(no_descriptor_goes_along),
                                        cmocka_unit_test(an_environment_of_its_own),
                                        cmocka_unit_test(a_group_that_refuses),
                                        cmocka_unit_test(a_limited_group_that_refuses) };
    return cmocka_run_group_tests(tests, take, give_back);
}
