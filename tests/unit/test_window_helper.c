/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "job/window_helper.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char variables[2][PATH_MAX + 4096];

static void words(void **state) {
    (void)state;
    enum uma_window_helper_when when = UMA_WINDOW_HELPER_AUTO;
    struct uma_error err = { 0 };
    assert_int_equal(uma_window_helper_parse("never", &when, &err), 0);
    assert_int_equal(when, UMA_WINDOW_HELPER_NEVER);
    assert_int_equal(uma_window_helper_parse("always", &when, &err), 0);
    assert_int_equal(when, UMA_WINDOW_HELPER_ALWAYS);
    assert_int_equal(uma_window_helper_parse("sometimes", &when, &err), -EINVAL);
    assert_int_equal(when, UMA_WINDOW_HELPER_ALWAYS);
    assert_non_null(strstr(err.text, "sometimes"));
}

static const char *value(char **environment, const char *name) {
    const char *found = NULL;
    size_t n = strlen(name);
    for (char **e = environment; *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=') {
            assert_null(found); /* once */
            found = *e + n + 1;
        }
    return found;
}

static char **environment_of(char *const *before) {
    char **after = NULL;
    assert_int_equal(uma_window_environment(before, "/l/libuma-window.so", "/s/helpers", variables, &after, NULL), 0);
    return after;
}

static void the_job_finds_both(void **state) {
    (void)state;
    char *none[] = { NULL };
    char **after = environment_of(none);
    assert_string_equal(value(after, "LD_PRELOAD"), "/l/libuma-window.so");
    assert_string_equal(value(after, "UMACTL_WINDOW"), "/s/helpers");
    free(after);

    char *before[] = { (char *)"A=1",
                       (char *)"LD_PRELOAD=a.so b.so",
                       (char *)"UMACTL_WINDOW=/outer",
                       (char *)"LD_PRELOADED=x",
                       (char *)"LD_PRELOAD=",
                       (char *)"B=2",
                       NULL };
    after = environment_of(before);
    assert_string_equal(value(after, "LD_PRELOAD"),
                        "/l/libuma-window.so:a.so b.so"); /* before the value that was there; the first, as getenv(3) has it */
    assert_string_equal(value(after, "UMACTL_WINDOW"), "/s/helpers");
    assert_string_equal(value(after, "A"), "1");
    assert_string_equal(value(after, "B"), "2");
    assert_string_equal(value(after, "LD_PRELOADED"), "x");
    assert_string_equal(before[1], "LD_PRELOAD=a.so b.so"); /* umactl's own is as it was */
    free(after);
}

static void a_value_that_is_too_long_is_refused(void **state) {
    (void)state;
    char *longest = malloc(10001), **after = NULL;
    assert_non_null(longest);
    memset(longest, 'x', 10000);
    longest[10000] = '\0';
    memcpy(longest, "LD_PRELOAD=", 11);
    char *before[] = { longest, NULL };
    struct uma_error err = { 0 };
    assert_int_equal(uma_window_environment(before, "/l", "/s", variables, &after, &err), -E2BIG);
    assert_null(after);
    free(longest);
}

static void the_library_is_where_it_is_said_to_be(void **state) {
    (void)state;
    char path[PATH_MAX] = "untouched", folder[] = "/tmp/uma window-XXXXXX", file[64];
    struct uma_error err = { 0 };
    assert_int_equal(setenv("UMACTL_WINDOW_LIBRARY", "/nonexistent/x.so", 1), 0);
    assert_int_equal(uma_window_library_find(path, &err), -ENOENT);
    assert_string_equal(path, "untouched");
    assert_int_equal(setenv("UMACTL_WINDOW_LIBRARY", "/proc/self/../self/maps", 1), 0);
    assert_int_equal(uma_window_library_find(path, &err), 0);
    assert_null(strstr(path, "..")); /* it is looked for from other folders than this one */
    /* the loader would take such a path for two */
    assert_non_null(mkdtemp(folder));
    (void)snprintf(file, sizeof(file), "%s/x.so", folder);
    FILE *f = fopen(file, "we");
    assert_non_null(f);
    (void)fclose(f);
    assert_int_equal(setenv("UMACTL_WINDOW_LIBRARY", file, 1), 0);
    assert_int_equal(uma_window_library_find(path, &err), -EINVAL);
    assert_non_null(strstr(err.text, "LD_PRELOAD"));
    (void)unlink(file);
    (void)rmdir(folder);
    assert_int_equal(unsetenv("UMACTL_WINDOW_LIBRARY"), 0);
}

static void a_socket_that_only_this_user_reaches(void **state) {
    (void)state;
    struct uma_window_helper *helper = calloc(1, sizeof(*helper));
    struct stat st;
    assert_non_null(helper);
    assert_int_equal(setenv("UMACTL_WINDOW_LIBRARY", "/proc/self/exe", 1), 0);
    uma_window_helper_prepare(UMA_WINDOW_HELPER_ALWAYS, helper);
    assert_string_equal(helper->use, "preloaded");
    char folder[64];
    (void)strcpy(folder, helper->folder);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(value(helper->environment, "UMACTL_WINDOW"), &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    uma_window_helper_done(helper);
    assert_int_equal(stat(folder, &st), -1);
    uma_window_helper_done(helper); /* once more is nothing */

    assert_int_equal(setenv("UMACTL_WINDOW_LIBRARY", "/nonexistent/x.so", 1), 0);
    uma_window_helper_prepare(UMA_WINDOW_HELPER_ALWAYS, helper);
    assert_string_equal(helper->use, "unavailable");
    assert_null(helper->environment);
    assert_non_null(strstr(helper->note, "/nonexistent/x.so"));
    uma_window_helper_prepare(UMA_WINDOW_HELPER_NEVER, helper);
    assert_string_equal(helper->use, "never");
    assert_null(helper->environment);
    uma_window_helper_done(helper);
    assert_int_equal(unsetenv("UMACTL_WINDOW_LIBRARY"), 0);
    free(helper);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(words), cmocka_unit_test(the_job_finds_both),
                                        cmocka_unit_test(a_value_that_is_too_long_is_refused),
                                        cmocka_unit_test(the_library_is_where_it_is_said_to_be),
                                        cmocka_unit_test(a_socket_that_only_this_user_reaches) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
