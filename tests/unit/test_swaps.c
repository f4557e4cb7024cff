/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "observe/memory.h"

#include <string.h>

#define HEADING "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"

static int setup(void **state) {
    *state = uma_arena_new(UMA_MIB);
    return *state ? 0 : -1;
}

static int teardown(void **state) {
    *state = uma_arena_free(*state);
    return 0;
}

static int parse(void **state, const char *text, size_t *ret_n, struct uma_swap **ret, struct uma_error *err) {
    return uma_swaps_parse(text, strlen(text), "proc/swaps", *state, ret_n, ret, err);
}

static void none(void **state) {
    size_t n = 7;
    struct uma_swap *s = NULL;
    assert_int_equal(parse(state, HEADING, &n, &s, NULL), 0);
    assert_int_equal(n, 0);
    assert_int_equal(parse(state, "", &n, &s, NULL), -EINVAL);
    assert_int_equal(parse(state, "/swap.img file 1 0 -2\n", &n, &s, NULL), -EINVAL);
}

static void several(void **state) {
    size_t n;
    struct uma_swap *s;
    assert_int_equal(parse(state,
                           HEADING "/swap.img                               file\t\t16777212\t585728\t\t-2\r\n"
                                   "/mnt/my\\040disk\\134x\\011\\012end\\040(deleted) partition 8 0 100\n",
                           &n, &s, NULL),
                     0);
    assert_int_equal(n, 2);
    assert_string_equal(s[0].path, "/swap.img");
    assert_string_equal(s[0].type, "file");
    assert_int_equal(s[0].size, 16777212 * UMA_KIB);
    assert_int_equal(s[0].used, 572 * UMA_MIB);
    assert_int_equal(s[0].priority, -2);
    assert_string_equal(s[1].path, "/mnt/my disk\\x\t\nend (deleted)");
    assert_int_equal(s[1].priority, 100);
}

static void malformed(void **state) {
    size_t n;
    struct uma_swap *s;
    struct uma_error err = { 0 };
    assert_int_equal(
        parse(
            state,
            HEADING
            "/a file 8 9 -2\n/b file 8\n/c file x 0 -2\n/d file 8 0 -2 more\n/e file 18014398509481984 0 1\n/good\xff file 8 4 0\n/f file 8 0 -",
            &n, &s, &err),
        6);
    assert_int_equal(n, 1);
    assert_string_equal(s[0].path, "/good\\xff");
    assert_non_null(strstr(err.text, "proc/swaps:2"));
}

/* Escapes that are none stay as they are; a path that is all escapes, and one that is too long. */
static void escapes(void **state) {
    size_t n;
    struct uma_swap *s;
    assert_int_equal(parse(state, HEADING "\\04\\777\\\\8 file 8 0 0\n", &n, &s, NULL), 0);
    assert_string_equal(s[0].path, "\\04\\777\\\\8");
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, HEADING);
    for (size_t i = 0; i < 5000; i++)
        uma_text_char(&text, 'x');
    uma_text_append(&text, " file 8 0 0\n");
    assert_int_equal(parse(state, text.data, &n, &s, NULL), 1);
    assert_int_equal(n, 0);
}

static void too_many(void **state) {
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, HEADING);
    for (size_t i = 0; i < UMA_SWAPS_MAX + 5; i++)
        uma_text_append(&text, "/a file 8 0 0\n");
    size_t n;
    struct uma_swap *s;
    assert_int_equal(parse(state, text.data, &n, &s, NULL), 5);
    assert_int_equal(n, UMA_SWAPS_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(none, setup, teardown),      cmocka_unit_test_setup_teardown(several, setup, teardown),
        cmocka_unit_test_setup_teardown(malformed, setup, teardown), cmocka_unit_test_setup_teardown(escapes, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many, setup, teardown),
    };
    return cmocka_run_group_tests_name("swaps", tests, NULL, NULL);
}
