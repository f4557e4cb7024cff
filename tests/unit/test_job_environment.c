/* SPDX-License-Identifier: MIT */
#include "job/job_environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

static const char *value(char *const *environment, const char *name) {
    const char *found = NULL;
    size_t n = strlen(name);
    for (char *const *e = environment; *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=') {
            assert_null(found); /* once */
            found = *e + n + 1;
        }
    return found;
}

static void set_and_preloaded(void **state) {
    (void)state;
    char *before[] = { (char *)"A=1",
                       (char *)"LD_PRELOAD=a.so b.so",
                       (char *)"UMACTL_WINDOW=/outer",
                       (char *)"LD_PRELOADED=x",
                       (char *)"LD_PRELOAD=",
                       (char *)"B=2",
                       NULL };
    char **own = environ;
    struct uma_job_environment e = { 0 };
    environ = before;
    assert_string_equal(uma_job_environment_get(&e, "A"), "1");
    assert_null(uma_job_environment_get(&e, "C"));
    assert_int_equal(uma_job_environment_set(&e, "UMACTL_WINDOW", "/s/helpers", NULL), 0);
    assert_int_equal(uma_job_environment_preload(&e, "/l/libuma-window.so", NULL), 0);
    assert_int_equal(uma_job_environment_preload(&e, "/l/libuma-valve.so", NULL), 0);
    environ = own;
    /* before the value that was there; the first, as getenv(3) has it */
    assert_string_equal(value(e.list, "LD_PRELOAD"), "/l/libuma-valve.so:/l/libuma-window.so:a.so b.so");
    assert_string_equal(value(e.list, "UMACTL_WINDOW"), "/s/helpers");
    assert_string_equal(value(e.list, "A"), "1");
    assert_string_equal(value(e.list, "B"), "2");
    assert_string_equal(value(e.list, "LD_PRELOADED"), "x");
    assert_string_equal(before[1], "LD_PRELOAD=a.so b.so"); /* umactl's own is as it was */
    uma_job_environment_done(&e);
    assert_null(e.list);
}

static void of_nothing(void **state) {
    (void)state;
    char *none[] = { NULL }, **own = environ;
    struct uma_job_environment e = { 0 };
    environ = none;
    assert_int_equal(uma_job_environment_preload(&e, "/l.so", NULL), 0);
    environ = own;
    assert_string_equal(value(e.list, "LD_PRELOAD"), "/l.so");
    assert_int_equal(e.n, 1);
    uma_job_environment_done(&e);
}

static void too_long(void **state) {
    (void)state;
    struct uma_job_environment e = { 0 };
    struct uma_error err = { 0 };
    char *longest = malloc(200001);
    assert_non_null(longest);
    memset(longest, 'x', 200000);
    longest[200000] = '\0';
    assert_int_equal(uma_job_environment_set(&e, "NAME", longest, &err), -E2BIG);
    assert_non_null(strstr(err.text, "NAME"));
    assert_null(e.list);
    free(longest);
    uma_job_environment_done(&e);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(set_and_preloaded), cmocka_unit_test(of_nothing), cmocka_unit_test(too_long) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
