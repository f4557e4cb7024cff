/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/json_write.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static void document(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text t = { 0 };
    struct uma_json j = { .text = &t };
    uma_json_begin_object(&j, NULL, false);
    uma_json_string(&j, "schema", "umactl.test/1");
    uma_json_begin_array(&j, "rows", false);
    for (int i = 0; i < 2; i++) {
        uma_json_begin_object(&j, NULL, true);
        uma_json_unsigned(&j, "bytes", UINT64_MAX);
        uma_json_u64(&j, "unknown", (struct uma_u64){ 7, UMA_ABSENT });
        uma_json_u64(&j, "most", (struct uma_u64){ INT64_MAX, UMA_KNOWN });
        uma_json_u64(&j, "beyond", (struct uma_u64){ (uint64_t)INT64_MAX + 1, UMA_KNOWN });
        uma_json_end_object(&j);
    }
    uma_json_end_array(&j);
    uma_json_begin_array(&j, "none", false);
    uma_json_end_array(&j);
    uma_json_time(&j, "time", 1790000000123456789);
    uma_json_double(&j, "nan", NAN);
    uma_json_truth(&j, "maybe", UMA_MAYBE);
    uma_json_end_object(&j);
    assert_string_equal(
        t.data,
        "{\n  \"schema\": \"umactl.test/1\",\n  \"rows\": [\n    { \"bytes\": 18446744073709551615, \"unknown\": null, \"most\": 9223372036854775807, \"beyond\": null },\n"
        "    { \"bytes\": 18446744073709551615, \"unknown\": null, \"most\": 9223372036854775807, \"beyond\": null }\n  ],\n  \"none\": [],\n  \"time\": 1790000000.123456,\n  \"nan\": null,\n"
        "  \"maybe\": null\n}\n");
}

/* Every byte string gives valid JSON, and valid UTF-8 comes back as it was. */
static void strings_survive(void **state) {
    (void)state;
    static const char *const cases[] = {
        "", "a\"b\\c", "\n\r\t\x01\x1f\x7f", "\xc3\xa9\xe2\x80\xa8\xe2\x80\xae\xc2\x9b", "\xf0\x9f\x98\x80", "</script>"
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_text_ struct uma_text t = { 0 };
        struct uma_json j = { .text = &t, .compact = true };
        uma_json_begin_array(&j, NULL, false);
        uma_json_string(&j, NULL, cases[i]);
        uma_json_end_array(&j);
        json_t *back = json_loads(t.data, 0, NULL);
        assert_non_null(back);
        assert_string_equal(json_string_value(json_array_get(back, 0)), cases[i]);
        json_decref(back);
        for (const char *p = t.data; *p && *p != '\n'; p++)
            assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
    }
    for (int first = 0; first < 256; first++)
        for (int second = 0; second < 256; second++) {
            char raw[3] = { (char)first, (char)second, 0 };
            _cleanup_text_ struct uma_text t = { 0 };
            struct uma_json j = { .text = &t, .compact = true };
            uma_json_begin_array(&j, NULL, false);
            uma_json_string_n(&j, NULL, raw, 2);
            uma_json_end_array(&j);
            json_t *back = json_loadb(t.data, t.length, JSON_ALLOW_NUL, NULL);
            assert_non_null(back);
            json_decref(back);
        }
}

static void doubles_read_back_exactly(void **state) {
    (void)state;
    static const double cases[] = { 0, 1, -1, 0.1, 1.0 / 3, 1e300, 5e-324, 123456789.123456789, 45.12, 1e15, 65 };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char number[32];
        uma_double_format(cases[i], number);
        assert_true(strtod(number, NULL) == cases[i]);
    }
    char number[32];
    uma_double_format(45.12, number);
    assert_string_equal(number, "45.12");
}

/* What turns the text around it about is written as its code point; its neighbours are not. */
static void order_is_escaped(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text t = { 0 };
    struct uma_json j = { .text = &t };
    uma_json_string(
        &j, NULL,
        "\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa9|\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa");
    assert_string_equal(t.data, "\"\\u200e\\u200f\\u2028\\u202e\\u2066\\u2069|\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa\"");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(document), cmocka_unit_test(strings_survive), cmocka_unit_test(order_is_escaped),
                                        cmocka_unit_test(doubles_read_back_exactly) };
    return cmocka_run_group_tests_name("json_write", tests, NULL, NULL);
}
