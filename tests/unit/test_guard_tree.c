/* SPDX-License-Identifier: MIT */
#include "guard/tree.h"

#include "base/cleanup.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* 8192 places are too many for a stack */
static struct uma_guard_scan scan;

static void who_has_ended_is_gone_with_its_threads(void **state) {
    (void)state;
    assert_true(uma_guard_seen_gone(&(struct uma_guard_seen){ .state = 'Z', .alone = true }));
    assert_false(uma_guard_seen_gone(&(struct uma_guard_seen){ .state = 'Z', .alone = false }));
    assert_false(uma_guard_seen_gone(&(struct uma_guard_seen){ .state = 'D', .alone = true }));
}

static bool is_pid(const struct uma_guard_seen *seen, void *userdata) {
    return seen->pid == *(const int32_t *)userdata;
}

static void descendants_are_found(void **state) {
    int ready[2];
    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild != 0)
            (void)!write(ready[1], &grandchild, sizeof(grandchild));
        for (;;)
            (void)pause();
    }
    pid_t grandchild;
    assert_int_equal(read(ready[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
    assert_int_equal(uma_guard_scan_open(&scan, ""), 0);
    assert_int_equal(uma_guard_scan_take(&scan), 0);
    assert_true(scan.whole);
    struct uma_guard_seen *seen = uma_guard_scan_find(&scan, child);
    assert_non_null(seen);
    assert_int_equal(seen->parent, getpid());
    uma_guard_scan_clear(&scan);
    seen->in = true;
    assert_int_equal(uma_guard_scan_spread(&scan, NULL, NULL), 2);
    assert_true(uma_guard_scan_find(&scan, grandchild)->in);
    assert_false(uma_guard_scan_find(&scan, getpid())->in);
    /* one that stays out */
    uma_guard_scan_clear(&scan);
    uma_guard_scan_find(&scan, getpid())->in = true;
    int32_t out = child;
    assert_int_equal(uma_guard_scan_spread(&scan, is_pid, &out), 1);
    assert_false(uma_guard_scan_find(&scan, grandchild)->in);
    (void)kill(grandchild, SIGKILL);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    struct uma_guard_seen one;
    assert_int_equal(uma_guard_scan_one(&scan, child, &one), -ESRCH);
    uma_guard_scan_close(&scan);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static void put(const char *folder, int pid, int parent) {
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/proc/%d", folder, pid);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)strcat(path, "/stat");
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    (void)fprintf(f, "%d (x) S %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 7 0 0\n", pid, parent);
    (void)fclose(f);
}

/* A folder may say that two are each other's parent, or one its own. */
static void parents_that_go_round_end(void **state) {
    char folder[] = "/tmp/umactl-test-XXXXXX", path[64], command[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/proc", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    put(folder, 30, 20);
    put(folder, 20, 30);
    put(folder, 10, 10);
    put(folder, 5, 4);
    assert_int_equal(uma_guard_scan_open(&scan, folder), 0);
    assert_int_equal(uma_guard_scan_take(&scan), 0);
    assert_int_equal(scan.n, 4);
    assert_int_equal(scan.list[0].pid, 5); /* in order, whatever the folder's is */
    assert_int_equal(scan.list[3].pid, 30);
    uma_guard_scan_clear(&scan);
    assert_int_equal(uma_guard_scan_spread(&scan, NULL, NULL), 0);
    uma_guard_scan_clear(&scan);
    uma_guard_scan_find(&scan, 20)->in = true;
    assert_int_equal(uma_guard_scan_spread(&scan, NULL, NULL), 2);
    uma_guard_scan_close(&scan);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_ended_is_gone_with_its_threads),
        cmocka_unit_test(descendants_are_found),
        cmocka_unit_test(parents_that_go_round_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
