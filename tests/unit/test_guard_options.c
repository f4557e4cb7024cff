/* SPDX-License-Identifier: MIT */
#include "guard/options.h"

#include "guard/message.h"

#include <errno.h>
#include <string.h>

#include "test.h"

static struct uma_guard_options options;
static const char *wrong, *expected;

static int parse(const char *a, const char *b, const char *c) {
    char *argv[] = { (char *)(uintptr_t) "uma-guard", (char *)(uintptr_t)a, (char *)(uintptr_t)b, (char *)(uintptr_t)c, NULL };
    int argc = 1 + (a != NULL) + (b != NULL) + (c != NULL);
    wrong = expected = NULL;
    return uma_guard_options_parse(argc, argv, &options, &wrong, &expected);
}

static void defaults(void **state) {
    (void)state;
    assert_int_equal(parse(NULL, NULL, NULL), 0);
    assert_string_equal(options.run_folder, UMA_GUARD_RUN_FOLDER);
    assert_string_equal(options.state_folder, UMA_GUARD_STATE_FOLDER);
    assert_null(options.policy);
    assert_string_equal(options.root, "");
    assert_false(options.dry_run || options.once || options.help || options.version || options.within != 0);
}

static void values_are_taken_either_way(void **state) {
    (void)state;
    assert_int_equal(parse("--policy", "a", "--run-folder=b"), 0);
    assert_string_equal(options.policy, "a");
    assert_string_equal(options.run_folder, "b");
    assert_int_equal(parse("--within=7", "--dry-run", "--once"), 0);
    assert_int_equal(options.within, 7);
    assert_true(options.dry_run && options.once);
    assert_int_equal(parse("--root", "/", NULL), 0);
    assert_string_equal(options.root, "");
    assert_int_equal(parse("-h", NULL, NULL), 0);
    assert_true(options.help);
}

static void mistakes_are_named(void **state) {
    (void)state;
    options.policy = "before";
    assert_int_equal(parse("--polic", NULL, NULL), -EINVAL);
    assert_string_equal(wrong, "--polic");
    assert_string_equal(options.policy, "before");
    assert_int_equal(parse("--policy", NULL, NULL), -EINVAL);
    assert_int_equal(parse("--policy=", NULL, NULL), -EINVAL);
    assert_int_equal(parse("--dry-run=yes", NULL, NULL), -EINVAL);
    assert_int_equal(parse("--policyx", "a", NULL), -EINVAL);
    assert_int_equal(parse("extra", NULL, NULL), -EINVAL);
    assert_int_equal(parse("--within", "0", NULL), -EINVAL);
    assert_int_equal(parse("--within", "-3", NULL), -EINVAL);
    assert_int_equal(parse("--within", "4194305", NULL), -EINVAL);
    assert_int_equal(parse("--within", "7x", NULL), -EINVAL);
    assert_string_equal(wrong, "7x");
    assert_non_null(expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(values_are_taken_either_way),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
