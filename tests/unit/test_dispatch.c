/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/cleanup.h"
#include "cmd/command.h"

#include <string.h>

static const char *const names[] = { "status", "require", "run", "snapshot", "a-name-that-is-longer-than-any-of-ours" };

static const char *name_of(const void *userdata, size_t i) {
    (void)userdata;
    return names[i];
}

static const char *nearest(const char *word) {
    return uma_command_nearest(word, name_of, NULL, ELEMENTS(names));
}

static void test_nearest(void **state) {
    (void)state;
    assert_string_equal(nearest("stauts"), "status"); /* two swapped */
    assert_string_equal(nearest("statu"), "status");
    assert_string_equal(nearest("statuss"), "status");
    assert_string_equal(nearest("rnu"), "run");
    assert_string_equal(nearest("snap"), "snapshot"); /* on the way there */
    assert_string_equal(nearest("requrie"), "require");
    assert_null(nearest("frobnicate"));
    assert_null(nearest(""));
    assert_null(nearest("x"));
    char huge[4096];
    (void)memset(huge, 's', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    assert_null(nearest(huge));
}

static int ran, arguments;

static int run_first(int argc, char **argv) {
    ran = 1;
    arguments = argc;
    assert_string_equal(argv[0], "first");
    assert_null(argv[argc]);
    return 40;
}
static int run_second(int argc, char **argv) {
    ran = 2;
    arguments = argc;
    assert_string_equal(argv[0], "second");
    return 41;
}

static void test_dispatch(void **state) {
    (void)state;
    static const struct uma_command first = { "first", "does", "usage\n", run_first },
                                    second = { "second", "does too", "usage\n", run_second };
    static const struct uma_command *const table[] = { &first, &second };
    char *alone[] = { (char[]){ "umactl" }, NULL };
    assert_int_equal(uma_command_dispatch(table, 2, 1, alone), 40);
    assert_int_equal(ran, 1);
    assert_int_equal(arguments, 1);
    char *with[] = { (char[]){ "umactl" }, (char[]){ "second" }, (char[]){ "--x" }, NULL };
    assert_int_equal(uma_command_dispatch(table, 2, 3, with), 41);
    assert_int_equal(ran, 2);
    assert_int_equal(arguments, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_nearest), cmocka_unit_test(test_dispatch) };
    return cmocka_run_group_tests_name("dispatch", tests, NULL, NULL);
}
