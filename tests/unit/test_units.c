/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"

static void sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        { "0", 0 },
        { "12G", 12 * UMA_GIB },
        { "12GiB", 12 * UMA_GIB },
        { "12GB", 12000000000 },
        { "1.5G", 3 * UMA_GIB / 2 },
        { "850M", 850 * UMA_MIB },
        { " 7 KiB ", 7168 },
        { "1k", 1024 },
        { "9007199254740993", 9007199254740993 },
    };
    for (size_t i = 0; i < ELEMENTS(good); i++) {
        uint64_t v = 1;
        assert_int_equal(uma_parse_size(good[i].text, &v, NULL), 0);
        assert_int_equal(v, good[i].bytes);
    }
    static const char *const bad[] = { "", "G", "-1", "12X", "12 GG", "1e9", "0x10", "99999999999999999999", "9999999T", "12G 3", "nan" };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        uint64_t v = 77;
        struct uma_error err = { 0 };
        assert_true(uma_parse_size(bad[i], &v, &err) < 0);
        assert_int_equal(v, 77);
        assert_true(err.text[0] != '\0');
    }
}

static void durations(void **state) {
    (void)state;
    double s;
    assert_int_equal(uma_parse_duration("90", &s, NULL), 0);
    assert_true(s == 90);
    assert_int_equal(uma_parse_duration("0.5", &s, NULL), 0);
    assert_true(s == 0.5);
    assert_int_equal(uma_parse_duration("5m", &s, NULL), 0);
    assert_true(s == 300);
    assert_true(uma_parse_duration("5 parsecs", &s, NULL) < 0);
    assert_true(uma_parse_duration("-1", &s, NULL) < 0);
}

static void human(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = { { 0, "0 B" },
                  { 1023, "1023 B" },
                  { 1024, "1.0 KiB" },
                  { 127601388ull * 1024, "122 GiB" },
                  { 12 * UMA_GIB, "12.0 GiB" },
                  { UINT64_MAX, "16.0 EiB" } };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_text_ struct uma_text t = { 0 };
        uma_text_bytes(&t, cases[i].bytes);
        assert_string_equal(t.data, cases[i].text);
    }
}

static void counts_are_decimal_and_tokens_binary(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t count, tokens;
    } good[] = { { "7", 7, 7 },
                 { "4096", 4096, 4096 },
                 { "70B", UINT64_C(70000000000), UINT64_C(70) << 30 },
                 { "7.24b", UINT64_C(7240000000), 7773890806 },
                 { "9e9", UINT64_C(9000000000), UINT64_C(9000000000) },
                 { "1.5E+3", 1500, 1500 },
                 { "32k", 32000, 32768 },
                 { "1M", 1000000, 1048576 },
                 { "2T", UINT64_C(2000000000000), UINT64_C(2) << 40 },
                 { " 12 ", 12, 12 },
                 { "9223372036854775807", INT64_MAX, INT64_MAX } };
    for (size_t i = 0; i < ELEMENTS(good); i++) {
        uint64_t v = 0;
        assert_int_equal(uma_parse_count(good[i].text, &v, NULL), 0);
        assert_true(v == good[i].count);
        assert_int_equal(uma_parse_tokens(good[i].text, &v, NULL), 0);
        assert_true(v == good[i].tokens);
    }
    static const char *const bad[] = { "", "B", "-1", "7X", "7BB", "1e", "e9", "1e99", "99999999999999999999", "9e18B", "nan", "0x10" };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        uint64_t v = 77;
        struct uma_error err = { 0 };
        assert_true(uma_parse_count(bad[i], &v, &err) < 0);
        assert_true(uma_parse_tokens(bad[i], &v, &err) < 0);
        assert_int_equal(v, 77);
        assert_true(err.text[0] != 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(counts_are_decimal_and_tokens_binary), cmocka_unit_test(sizes),
                                        cmocka_unit_test(durations), cmocka_unit_test(human) };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
