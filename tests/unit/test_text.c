/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/text.h"

#include <string.h>

static const char *safe(struct uma_text *t, const char *s, size_t max) {
    uma_text_reset(t);
    (void)uma_text_safe(t, s, max);
    return t->data ? t->data : "";
}

static void hostile_text_is_harmless(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "plain", "plain" },
        { "a\nb\tc\r", "a\\nb\\tc\\r" },
        { "\x1b[2Jx", "\\x1b[2Jx" },
        { "\x7f\x01", "\\x7f\\x01" },
        { "\xff\xfe", "\\xff\\xfe" },
        { "\xc2\x9b"
          "31m",
          "\\x9b31m" }, /* C1 CSI: some terminals obey it */
        { "\xe2\x80\xae"
          "gnp.exe",
          "\\u202egnp.exe" },                  /* right-to-left override */
        { "\xc0\xaf", "\\xc0\\xaf" },          /* overlong slash */
        { "\xed\xa0\x80", "\\xed\\xa0\\x80" }, /* surrogate */
        { "\xf0\x9f\x98\x80 ok", "\xf0\x9f\x98\x80 ok" },
        { "\xe6\xbc", "\\xe6\\xbc" }, /* cut off in a sequence */
        { "a\\nb", "a\\\\nb" },       /* no newline */
        { "\\", "\\\\" },
        { "\\\n", "\\\\\\n" },
        { "\\x1b[31m", "\\\\x1b[31m" },
        { "\\xff\\x7f", "\\xff\\\\x7f" }, /* a byte that is not UTF-8 in a snapshot; nothing in a snapshot */
        { "\\xf", "\\\\xf" },
    };
    _cleanup_text_ struct uma_text t = { 0 };
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        assert_string_equal(safe(&t, cases[i].in, 0), cases[i].out);
}

static void escaped_once(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text t = { 0 }, again = { 0 };
    assert_int_equal(uma_text_safe(&t, "a\\b\n", 0), 6);
    assert_int_equal(uma_text_columns(t.data), 6);
    assert_int_equal(uma_text_cut(&again, t.data, 0), 6);
    assert_string_equal(again.data, "a\\\\b\\n");
    uma_text_reset(&again);
    assert_int_equal(uma_text_cut(&again, t.data, 4), 4);
    assert_string_equal(again.data, "a\\\\…");
    uma_text_reset(&again);
    (void)uma_text_cut(&again, "\x1b", 0); /* whoever says that it is escaped is not believed */
    assert_string_equal(again.data, "\\x1b");
}

static void cut_to_columns(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text t = { 0 };
    assert_string_equal(safe(&t, "abcdef", 6), "abcdef");
    assert_string_equal(safe(&t, "abcdefg", 6), "abcde…");
    assert_string_equal(safe(&t, "漢字漢字", 6), "漢字…");
    assert_string_equal(safe(&t, "a\n\n\n\n", 6), "a\\n\\n…");
    assert_string_equal(safe(&t, "xy", 1), "…");
    for (size_t max = 1; max < 12; max++) { /* never wider than asked, whatever comes */
        uma_text_reset(&t);
        size_t columns = uma_text_safe(&t,
                                       "\x1b漢\xff"
                                       "e\xcc\x81 long enough",
                                       max);
        assert_true(columns <= max);
        assert_int_equal(uma_text_columns(t.data), columns);
    }
}

static void grows_and_stays_terminated(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text t = { 0 };
    for (int i = 0; i < 10000; i++)
        uma_text_printf(&t, "%d,", i);
    assert_false(t.failed);
    assert_int_equal(strlen(t.data), t.length);
    uma_text_pad(&t, 3);
    assert_string_equal(t.data + t.length - 3, "   ");
}

static void plain_copy(void **state) {
    (void)state;
    char buffer[8];
    assert_int_equal(uma_text_copy_plain(buffer, sizeof(buffer), "a\x1b\xc2\x9b~ \x7f"), 7);
    assert_string_equal(buffer, "a???~ ?");
    assert_int_equal(uma_text_copy_plain(buffer, sizeof(buffer), "0123456789"), 7);
    assert_string_equal(buffer, "0123456");
    assert_int_equal(uma_text_copy_plain(buffer, 1, "0123456789"), 0);
    assert_string_equal(buffer, "");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(hostile_text_is_harmless), cmocka_unit_test(cut_to_columns),
                                        cmocka_unit_test(escaped_once), cmocka_unit_test(plain_copy),
                                        cmocka_unit_test(grows_and_stays_terminated) };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
