/* SPDX-License-Identifier: MIT */
#include "job/tree.h"
#include "job/warn.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static void words(void **state) {
    (void)state;
    static const struct {
        const char *word;
        int signal;
    } good[] = { { "USR1", SIGUSR1 }, { "SIGUSR2", SIGUSR2 }, { "usr1", SIGUSR1 }, { "sigterm", SIGTERM },
                 { "10", 10 },        { "64", 64 },           { "HUP", SIGHUP } };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct uma_job_warn_options o = { 0 };
        assert_int_equal(uma_job_warn_parse(good[i].word, &o, NULL), 0);
        assert_int_equal(o.signal, good[i].signal);
        assert_null(o.file);
    }
    static const char *const bad[] = { "USR3",    "SIG", "S",     "0",     "65",       "-1",      "KILL",
                                       "SIGSTOP", "9",   "USR1 ", "USR11", "save-now", "folder/", "RTMIN" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct uma_job_warn_options o = { 0 };
        struct uma_error err = { 0 };
        assert_int_equal(uma_job_warn_parse(bad[i], &o, &err), -EINVAL);
        assert_true(err.text[0] != '\0');
        assert_false(uma_job_warn_wanted(&o));
    }
}

static void one_of_each(void **state) {
    (void)state;
    struct uma_job_warn_options o = { 0 };
    assert_int_equal(uma_job_warn_parse("USR1", &o, NULL), 0);
    assert_int_equal(uma_job_warn_parse("./USR1", &o, NULL), 0);
    assert_string_equal(o.file, "./USR1");
    assert_int_equal(uma_job_warn_parse("USR2", &o, NULL), -EINVAL);
    assert_int_equal(uma_job_warn_parse("/tmp/x", &o, NULL), -EINVAL);
    assert_int_equal(o.signal, SIGUSR1);
}

static void files(void **state) {
    (void)state;
    struct uma_error err = { 0 };
    char folder[] = "/tmp/umactl-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/save", folder);
    assert_int_equal(uma_job_warn_file_check(path, &err), 0); /* it will be created */
    assert_int_equal(uma_job_warn_file_check(folder, &err), -EISDIR);
    assert_int_equal(uma_job_warn_file_check("/nonexistent/folder/save", &err), -ENOENT);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)close(fd);
    assert_int_equal(uma_job_warn_file_check(path, &err), 0);
    (void)unlink(path);
    (void)rmdir(folder);
}

/* A launcher that waits for nothing, two ranks that do, and below one of them workers that inherited its handler. */
static void topmost_that_wait(void **state) {
    (void)state;
    const struct uma_tree_process list[] = { { .pid = 10, .ppid = 1 },  { .pid = 20, .ppid = 10 }, { .pid = 21, .ppid = 10 },
                                             { .pid = 30, .ppid = 20 }, { .pid = 31, .ppid = 30 }, { .pid = 40, .ppid = 40 } };
    const bool awaits[] = { false, true, true, false, true, true };
    bool chosen[6] = { 0 };
    assert_int_equal(uma_job_warn_choose(list, awaits, 6, chosen), 3);
    assert_true(!chosen[0] && chosen[1] && chosen[2] && !chosen[3] && !chosen[4] && chosen[5]);
    assert_int_equal(uma_job_warn_choose(list, awaits, 0, chosen), 0);
}

/* Parents that go in a circle, as a list that was read piece by piece may show them. */
static void a_circle_ends(void **state) {
    (void)state;
    const struct uma_tree_process list[] = { { .pid = 1, .ppid = 3 }, { .pid = 2, .ppid = 1 }, { .pid = 3, .ppid = 2 } };
    const bool awaits[] = { false, true, false };
    bool chosen[3];
    assert_int_equal(uma_job_warn_choose(list, awaits, 3, chosen), 1);
    assert_true(chosen[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),         cmocka_unit_test(one_of_each), cmocka_unit_test(files), cmocka_unit_test(topmost_that_wait),
        cmocka_unit_test(a_circle_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
