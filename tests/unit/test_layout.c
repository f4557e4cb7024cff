/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "cmd/layout.h"

#include <math.h>
#include <string.h>

static const struct uma_status_style ascii = { .columns = 20 }, utf8 = { .columns = 20, .utf8 = true };

static void assert_text(struct uma_text *t, const char *expected) {
    assert_false(t->failed);
    assert_string_equal(t->data ? t->data : "", expected);
    uma_text_done(t);
}

static void test_numbers(void **state) {
    (void)state;
    struct uma_text t = { 0 };
    uma_layout_gib(&t, UMA_GIB * 12 + UMA_GIB / 3);
    assert_text(&t, "12.3");
    uma_layout_gib(&t, UINT64_MAX);
    assert_text(&t, "17179869184.0");
    uma_layout_gib_column(&t, (struct uma_u64){ UMA_GIB, UMA_KNOWN }, 6);
    uma_layout_gib_column(&t, (struct uma_u64){ UMA_GIB, UMA_UNKNOWN }, 6);
    uma_layout_gib_column(&t, (struct uma_u64){ UMA_GIB, UMA_ABSENT }, 3);
    uma_layout_gib_column(&t, (struct uma_u64){ 2000 * UMA_GIB, UMA_STALE }, 3);
    assert_text(&t, "   1.0     ?  -2000.0");
    uma_layout_number(&t, (struct uma_f64){ 1.999, UMA_KNOWN }, 2);
    uma_layout_number(&t, (struct uma_f64){ -0.5, UMA_KNOWN }, 1);
    uma_layout_number(&t, (struct uma_f64){ -0.001, UMA_KNOWN }, 1);
    uma_layout_number(&t, (struct uma_f64){ NAN, UMA_KNOWN }, 1);
    uma_layout_number(&t, (struct uma_f64){ 7.5, UMA_FAILED }, 1);
    assert_text(&t, "2.00-0.50.0??");
}

static void test_bar(void **state) {
    (void)state;
    struct uma_text t = { 0 };
    uma_layout_bar(&t, &ascii, 1, 1000, 10);
    assert_text(&t, "#");
    uma_layout_bar(&t, &ascii, 5, 10, 10);
    assert_text(&t, "#####");
    uma_layout_bar(&t, &utf8, 1, 1000, 10);
    assert_text(&t, "▏");
    uma_layout_bar(&t, &utf8, 20, 10, 2); /* more than all of it is all of it */
    assert_text(&t, "██");
    uma_layout_bar(&t, &utf8, 0, 10, 2);
    uma_layout_bar(&t, &utf8, 1, 0, 2);
    assert_text(&t, "");
}

static void test_wrap(void **state) {
    (void)state;
    struct uma_text t = { 0 };
    uma_layout_wrap(&t, &ascii, "one two three four five six", 4, 0);
    assert_text(&t, "one two three\n    four five six\n");
    uma_layout_wrap(&t, &ascii, "one two three four five six", 4, 1);
    assert_text(&t, "one two three f…\n");
    uma_layout_wrap(&t, &ascii, "abcdefghijklmnopqrstuvwxyz", 4, 0); /* no space to break at */
    assert_text(&t, "abcdefghijklmnop\n    qrstuvwxyz\n");
    uma_layout_wrap(&t, &ascii, "a\nb\033c", 4, 0);
    assert_text(&t, "a\\nb\\x1bc\n");
    uma_layout_wrap(&t, &ascii, "a\\nb", 4, 1); /* once, in the last line too */
    assert_text(&t, "a\\\\nb\n");
    uma_layout_wrap_escaped(&t, &ascii, "a\\\\nb", 4, 1);
    assert_text(&t, "a\\\\nb\n");
    uma_layout_wrap(&t, &ascii, "", 4, 0);
    assert_text(&t, "\n");
}

/* A text of a megabyte takes no time to speak of: each line is looked at once. */
static void test_wrap_large(void **state) {
    (void)state;
    enum { LARGE = 1 << 20 };
    char *s = malloc(LARGE + 1);
    assert_non_null(s);
    (void)memset(s, 'x', LARGE);
    s[LARGE] = '\0';
    struct uma_text t = { 0 };
    uma_layout_wrap(&t, &ascii, s, 0, 0);
    assert_int_equal(uma_layout_lines(&t), (LARGE + 19) / 20);
    uma_text_done(&t);
    free(s);
}

static void test_columns(void **state) {
    (void)state;
    struct uma_text t = { 0 };
    struct uma_status_style colour = { .columns = 20, .colour = true };
    uma_text_append(&t, "first line\n");
    uma_layout_ink(&t, &colour, UMA_INK_RED);
    uma_text_append(&t, "é漢");
    uma_layout_ink(&t, &colour, UMA_INK_PLAIN);
    assert_int_equal(uma_layout_column(&t), 3);
    uma_layout_to_column(&t, 5);
    assert_int_equal(uma_layout_column(&t), 5);
    uma_layout_to_column(&t, 2);
    assert_int_equal(uma_layout_column(&t), 5);
    assert_int_equal(uma_layout_lines(&t), 1);
    uma_text_done(&t);
}

static void test_clip(void **state) {
    (void)state;
    struct uma_text t = { 0 };
    uma_text_append(&t, "abc\n\033[1mabcdef\033[0m\né漢漢\n");
    uma_layout_clip(&t, 4);
    assert_text(&t, "abc\n\033[1mabcd\033[0m\né漢\n");
}

static void test_ascii(void **state) {
    (void)state;
    struct uma_text t = { 0 };
    uma_text_append(&t, "aé漢…b\n");
    uma_layout_ascii(&t);
    assert_text(&t, "a???~b\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_bar),  cmocka_unit_test(test_wrap),  cmocka_unit_test(test_wrap_large),
        cmocka_unit_test(test_columns), cmocka_unit_test(test_clip), cmocka_unit_test(test_ascii),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
