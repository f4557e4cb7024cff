/* SPDX-License-Identifier: MIT */
#include "guard/act.h"

#include "guard/marks.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

static struct uma_guard_actor actor;
static struct uma_guard_processes processes;
static struct uma_guard_policy policy;
static struct uma_guard_marks marks;
static pid_t top, child;

static void wait_a_little(void) {
    const struct timespec pause = { .tv_nsec = 2000000 };
    (void)nanosleep(&pause, NULL);
}

static int within_here(void) {
    struct uma_guard_seen self;
    int r = uma_guard_scan_one(&actor.scan, (int32_t)getpid(), &self);
    return r < 0 ? r : uma_guard_marks_within(&actor, &processes, self.pid, self.start);
}

/* A process with a child; its parent is this test, which is protected as the guard that it plays. */
static int begin(void **state) {
    int ready[2];
    (void)state;
    if (pipe(ready) != 0)
        return -1;
    top = fork();
    if (top == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        pid_t below = fork();
        if (below == 0)
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        else
            (void)!write(ready[1], &below, sizeof(below));
        for (;;)
            (void)pause();
    }
    if (read(ready[0], &child, sizeof(child)) != sizeof(child))
        return -1;
    (void)close(ready[0]);
    (void)close(ready[1]);
    memset(&marks, 0, sizeof(marks));
    uma_guard_policy_default(&policy);
    if (uma_guard_processes_open(&processes, "", (int32_t)getpid()) < 0 || uma_guard_actor_open(&actor, &processes, "", false) < 0)
        return -1;
    return uma_guard_processes_take(&processes, &policy, NULL, 1, INT64_MAX) < 0 || within_here() < 0 ? -1 : 0;
}

static int end(void **state) {
    (void)state;
    (void)kill(child, SIGKILL);
    (void)kill(top, SIGKILL);
    (void)waitpid(top, NULL, 0);
    uma_guard_actor_close(&actor);
    uma_guard_processes_close(&processes);
    return 0;
}

static char state_of(pid_t pid) {
    struct uma_guard_seen seen;
    return uma_guard_scan_one(&actor.scan, pid, &seen) == 0 ? seen.state : '-';
}

static uint64_t start_of(pid_t pid) {
    struct uma_guard_seen seen;
    assert_int_equal(uma_guard_scan_one(&actor.scan, pid, &seen), 0);
    return seen.start;
}

static void wait_for_state(pid_t pid, char wanted) {
    for (int i = 0; i < 500 && state_of(pid) != wanted; i++)
        wait_a_little();
    assert_int_equal(state_of(pid), wanted);
}

static void a_tree_is_stopped_and_goes_on(void **state) {
    (void)state;
    struct uma_guard_acted acted = uma_guard_stop_tree(&actor, top, start_of(top));
    assert_int_equal(acted.result, 0);
    assert_int_equal(acted.n, 2);
    wait_for_state(top, 'T');
    wait_for_state(child, 'T');
    assert_int_equal(actor.stopped.n, 2);
    assert_int_equal(uma_guard_stop_tree(&actor, top, start_of(top)).result, 0); /* again: nothing is counted twice */
    assert_int_equal(actor.stopped.n, 2);
    acted = uma_guard_continue_tree(&actor, top);
    assert_int_equal(acted.n, 2);
    assert_int_equal(actor.stopped.n, 0);
    wait_for_state(top, 'S');
    wait_for_state(child, 'S');
    assert_int_equal(uma_guard_continue_tree(&actor, top).result, -ESRCH);
}

static void what_somebody_else_stopped_stays_so(void **state) {
    (void)state;
    assert_int_equal(kill(child, SIGSTOP), 0);
    wait_for_state(child, 'T');
    assert_int_equal(uma_guard_processes_take(&processes, &policy, NULL, 1000000000, INT64_MAX), 0);
    assert_int_equal(within_here(), 0);
    assert_int_equal(uma_guard_stop_tree(&actor, top, start_of(top)).n, 1);
    assert_int_equal(uma_guard_continue_tree(&actor, top).n, 1);
    wait_for_state(top, 'S');
    assert_int_equal(state_of(child), 'T');
}

static void another_with_the_number_of_within_protects_all(void **state) {
    (void)state;
    assert_int_equal(uma_guard_marks_within(&actor, &processes, (int32_t)getpid(), start_of(getpid()) + 1), -ESRCH);
    for (size_t i = 0; i < processes.n; i++)
        assert_true(processes.list[i].flags & UMA_GUARD_PROTECTED);
}

static void who_cannot_be_told_to_go_on_stays_in_the_list(void **state) {
    struct rlimit before, none;
    (void)state;
    assert_int_equal(uma_guard_stop_tree(&actor, top, start_of(top)).n, 2);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 3; /* numbers that are taken */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct uma_guard_acted acted = uma_guard_continue_tree(&actor, top);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(acted.result, -EMFILE);
    assert_int_equal(actor.stopped.n, 2);
    assert_int_equal(uma_guard_continue_tree(&actor, top).n, 2);
    wait_for_state(child, 'S');
    assert_int_equal(actor.stopped.n, 0);
}

static void a_tree_that_stands_is_taken_over(void **state) {
    (void)state;
    assert_int_equal(uma_guard_adopt_tree(&actor, top, start_of(top)), 0); /* nobody stands */
    assert_int_equal(uma_guard_stop_tree(&actor, top, start_of(top)).n, 2);
    wait_for_state(top, 'T');
    wait_for_state(child, 'T');
    actor.stopped.n = 0; /* the words of it were lost */
    assert_int_equal(uma_guard_adopt_tree(&actor, top, start_of(top) + 1), 0);
    assert_int_equal(uma_guard_adopt_tree(&actor, top, start_of(top)), 2);
    assert_int_equal(uma_guard_continue_tree(&actor, top).n, 2);
    wait_for_state(top, 'S');
    wait_for_state(child, 'S');
}

static void another_with_its_number_is_left_alone(void **state) {
    (void)state;
    assert_int_equal(uma_guard_stop_tree(&actor, top, start_of(top) + 1).result, -ESRCH);
    assert_int_equal(state_of(top), 'S');
    assert_int_equal(uma_guard_end_tree(&actor, top, start_of(top) + 1, SIGKILL).result, -ESRCH);
    assert_int_equal(state_of(top), 'S');
    assert_int_equal(uma_guard_stop_tree(&actor, 1, start_of(1)).n, 0);
    assert_int_equal(uma_guard_stop_tree(&actor, getpid(), start_of(getpid())).n, 0);
    assert_int_equal(actor.stopped.n, 0);
}

static void a_stopped_tree_hears_sigterm(void **state) {
    (void)state;
    assert_int_equal(uma_guard_stop_tree(&actor, top, start_of(top)).n, 2);
    struct uma_guard_acted acted = uma_guard_end_tree(&actor, top, start_of(top), SIGTERM);
    assert_int_equal(acted.n, 2);
    int how;
    assert_int_equal(waitpid(top, &how, 0), top);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM);
    for (int i = 0; i < 500 && uma_guard_victim_left(&actor) > 0; i++)
        wait_a_little();
    assert_int_equal(uma_guard_victim_left(&actor), 0);
    assert_int_equal(actor.stopped.n, 0);
}

static void a_dry_run_signals_nobody(void **state) {
    (void)state;
    actor.dry_run = true;
    assert_int_equal(uma_guard_stop_tree(&actor, top, start_of(top)).result, 0);
    assert_int_equal(uma_guard_end_tree(&actor, top, start_of(top), SIGKILL).result, 0);
    wait_a_little();
    assert_int_equal(state_of(top), 'S');
    assert_int_equal(state_of(child), 'S');
}

static void a_tree_is_killed(void **state) {
    (void)state;
    assert_int_equal(uma_guard_reaper_start(&actor.reaper), 0);
    assert_int_equal(uma_guard_end_tree(&actor, top, start_of(top), SIGKILL).n, 2);
    int how;
    assert_int_equal(waitpid(top, &how, 0), top);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    for (int i = 0; i < 500 && uma_guard_victim_left(&actor) > 0; i++)
        wait_a_little();
    assert_int_equal(uma_guard_victim_left(&actor), 0);
    uma_guard_reaper_stop(&actor.reaper);
}

static void a_protected_child_is_left_out(void **state) {
    (void)state;
    int32_t at = uma_guard_processes_find(&processes, child, start_of(child));
    assert_true(at >= 0);
    processes.list[at].flags |= UMA_GUARD_PROTECTED;
    assert_int_equal(uma_guard_stop_tree(&actor, top, start_of(top)).n, 1);
    wait_for_state(top, 'T');
    assert_int_equal(state_of(child), 'S');
    (void)uma_guard_continue_tree(&actor, 0);
}

static void marks_are_of_trees_and_end(void **state) {
    (void)state;
    uma_guard_marks_add(&marks, top, start_of(top), UMA_GUARD_NO_BRAKE, 100);
    uma_guard_marks_apply(&marks, &actor, &processes, 50);
    assert_true(processes.list[uma_guard_processes_find(&processes, child, start_of(child))].flags & UMA_GUARD_NO_BRAKE);
    size_t n = processes.n;
    processes.n = 0; /* a table that took too long has not everybody */
    uma_guard_marks_apply(&marks, &actor, &processes, 60);
    assert_int_equal(marks.n, 1);
    processes.n = n;
    uma_guard_marks_apply(&marks, &actor, &processes, 100);
    assert_int_equal(marks.n, 0);
    for (int32_t i = 1; i <= UMA_GUARD_MARKS + 5; i++)
        uma_guard_marks_add(&marks, i, 1, UMA_GUARD_PROTECTED, i);
    assert_int_equal(marks.n, UMA_GUARD_MARKS);
    for (uint32_t i = 0; i < marks.n; i++)
        assert_true(marks.list[i].until > 5); /* those that end first gave their places */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_tree_is_stopped_and_goes_on, begin, end),
        cmocka_unit_test_setup_teardown(what_somebody_else_stopped_stays_so, begin, end),
        cmocka_unit_test_setup_teardown(another_with_its_number_is_left_alone, begin, end),
        cmocka_unit_test_setup_teardown(another_with_the_number_of_within_protects_all, begin, end),
        cmocka_unit_test_setup_teardown(who_cannot_be_told_to_go_on_stays_in_the_list, begin, end),
        cmocka_unit_test_setup_teardown(a_tree_that_stands_is_taken_over, begin, end),
        cmocka_unit_test_setup_teardown(a_stopped_tree_hears_sigterm, begin, end),
        cmocka_unit_test_setup_teardown(a_dry_run_signals_nobody, begin, end),
        cmocka_unit_test_setup_teardown(a_tree_is_killed, begin, end),
        cmocka_unit_test_setup_teardown(a_protected_child_is_left_out, begin, end),
        cmocka_unit_test_setup_teardown(marks_are_of_trees_and_end, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
