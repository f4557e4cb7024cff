/* SPDX-License-Identifier: MIT */
#include "valve/account.h"
#include "valve/settings.h"

#include <string.h>

#include "test.h"

static struct uma_valve_settings s;
static const char *unknown;
static size_t length;

static void parse(const char *text) {
    uma_valve_settings_parse(text, &s, &unknown, &length);
}

static void understood(void **state) {
    (void)state;
    parse(NULL);
    assert_null(unknown);
    assert_true(s.ceiling == UMA_VALVE_NONE && !s.has_floor && !s.off && s.report == UMA_VALVE_REPORT_AUTO && !s.token[0]);
    parse("ceiling:103079215104,floor:0,report:raw,token:0123456789abcdef0123456789abcdef");
    assert_null(unknown);
    assert_true(s.ceiling == UINT64_C(103079215104) && s.has_floor && s.floor == 0 && s.report == UMA_VALVE_REPORT_RAW);
    assert_string_equal(s.token, "0123456789abcdef0123456789abcdef");
    parse("report:pool,,ceiling:18446744073709551615");
    assert_null(unknown);
    assert_true(s.report == UMA_VALVE_REPORT_POOL && s.ceiling == UINT64_MAX);
    parse("floor:5,off");
    assert_true(s.off && s.floor == 5);
}

/* The first is told, the others are used all the same. */
static void not_understood(void **state) {
    (void)state;
    static const char *const wrong[] = { "ceiling:",  "ceiling:12G", "ceiling:18446744073709551616",
                                         "floor:-1",  "floor",       "report:some",
                                         "token:",    "token:xyz",   "token:0123456789abcdef0123456789abcdef0",
                                         "Ceiling:5", "offf",        ":5",
                                         "\xff\xfe" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text), "report:raw,%s,floor:7", wrong[i]);
        parse(text);
        assert_non_null(unknown);
        assert_int_equal(length, strlen(wrong[i]));
        assert_memory_equal(unknown, wrong[i], length);
        assert_true(s.ceiling == UMA_VALVE_NONE && !s.off && s.floor == 7 && s.report == UMA_VALVE_REPORT_RAW && !s.token[0]);
    }
}

static void long_text(void **state) {
    (void)state;
    static char text[100001];
    memset(text, ',', sizeof(text) - 1);
    parse(text);
    assert_null(unknown);
    memset(text, 'x', sizeof(text) - 1);
    parse(text);
    assert_ptr_equal(unknown, text);
    assert_true(length <= 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(understood), cmocka_unit_test(not_understood), cmocka_unit_test(long_text) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
