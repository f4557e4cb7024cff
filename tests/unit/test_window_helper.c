/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "job/window_helper.h"
#include "job/preload_library.h"
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

static void a_socket_that_only_this_user_reaches(void **state) {
    (void)state;
    struct uma_window_helper *helper = calloc(1, sizeof(*helper));
    struct uma_job_environment environment = { 0 };
    struct stat st;
    assert_non_null(helper);
    char library[PATH_MAX];
    fake_library(library);
    assert_int_equal(setenv("UMACTL_WINDOW_LIBRARY", library, 1), 0);
    uma_window_helper_prepare(UMA_WINDOW_HELPER_ALWAYS, &environment, helper);
    assert_string_equal(helper->use, "preloaded");
    char folder[64];
    (void)strcpy(folder, helper->folder.path);
    assert_false(helper->failed);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(uma_job_environment_get(&environment, "UMACTL_WINDOW"), &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    uma_window_helper_done(helper);
    uma_job_environment_done(&environment);
    assert_int_equal(stat(folder, &st), -1);
    uma_window_helper_done(helper); /* once more is nothing */

    assert_int_equal(setenv("UMACTL_WINDOW_LIBRARY", "/nonexistent/x.so", 1), 0);
    uma_window_helper_prepare(UMA_WINDOW_HELPER_ALWAYS, &environment, helper);
    assert_string_equal(helper->use, "unavailable");
    assert_null(environment.list);
    assert_true(helper->failed);
    assert_non_null(strstr(helper->note, "the helper cannot be used: /nonexistent/x.so: No such file or directory"));
    uma_window_helper_prepare(UMA_WINDOW_HELPER_AUTO, &environment, helper); /* told of whether it is needed or not */
    assert_true(helper->failed);
    assert_non_null(strstr(helper->note, "/nonexistent/x.so"));
    assert_null(environment.list);
    uma_window_helper_prepare(UMA_WINDOW_HELPER_NEVER, &environment, helper);
    assert_false(helper->failed);
    assert_string_equal(helper->use, "never");
    assert_null(environment.list);
    uma_window_helper_done(helper);
    assert_int_equal(unsetenv("UMACTL_WINDOW_LIBRARY"), 0);
    (void)unlink(library);
    free(helper);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(words), cmocka_unit_test(a_socket_that_only_this_user_reaches) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
