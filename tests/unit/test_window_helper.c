/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "job/window_helper.h"
#include "job/window_library.h"
#include "window/protocol.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is looked at of a library: this program's own header, which is for this machine, and the mark. */
static void fake_library(char path[PATH_MAX]) {
    unsigned char header[64];
    (void)strcpy(path, "/tmp/uma-window-library-XXXXXX");
    int fd = mkstemp(path), self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && self >= 0);
    assert_int_equal(read(self, header, sizeof(header)), sizeof(header));
    header[16] = 3; /* ET_DYN, also where this program is none */
    assert_int_equal(write(fd, header, sizeof(header)), sizeof(header));
    const char mark[] = UMA_WINDOW_MARK "1";
    assert_int_equal(write(fd, mark, sizeof(mark)), sizeof(mark));
    (void)close(fd);
    (void)close(self);
}

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

static void a_socket_that_only_this_user_reaches(void **state) {
    (void)state;
    struct uma_window_helper *helper = calloc(1, sizeof(*helper));
    struct stat st;
    assert_non_null(helper);
    char library[PATH_MAX];
    fake_library(library);
    assert_int_equal(setenv("UMACTL_WINDOW_LIBRARY", library, 1), 0);
    uma_window_helper_prepare(UMA_WINDOW_HELPER_ALWAYS, helper);
    assert_string_equal(helper->use, "preloaded");
    char folder[64];
    (void)strcpy(folder, helper->folder.path);
    assert_false(helper->failed);
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
    assert_true(helper->failed);
    assert_non_null(strstr(helper->note, "the helper cannot be used: /nonexistent/x.so: No such file or directory"));
    uma_window_helper_prepare(UMA_WINDOW_HELPER_AUTO, helper); /* told of whether it is needed or not */
    assert_true(helper->failed);
    assert_non_null(strstr(helper->note, "/nonexistent/x.so"));
    assert_null(helper->environment);
    uma_window_helper_prepare(UMA_WINDOW_HELPER_NEVER, helper);
    assert_false(helper->failed);
    assert_string_equal(helper->use, "never");
    assert_null(helper->environment);
    uma_window_helper_done(helper);
    assert_int_equal(unsetenv("UMACTL_WINDOW_LIBRARY"), 0);
    (void)unlink(library);
    free(helper);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(words), cmocka_unit_test(the_job_finds_both),
                                        cmocka_unit_test(a_value_that_is_too_long_is_refused),
                                        cmocka_unit_test(a_socket_that_only_this_user_reaches) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
