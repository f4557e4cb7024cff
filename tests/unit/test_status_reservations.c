/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "cmd/status.h"

#include <string.h>

static struct uma_claim_seen list[] = {
    { .id = 1, .reserved = UMA_GIB, .taken = UMA_GIB / 2, .unspent = UMA_GIB / 2, .pid = 11, .uid = 1000, .name = "small" },
    { .id = 2, .reserved = 60 * UMA_GIB, .taken = 12 * UMA_GIB, .unspent = 48 * UMA_GIB, .pid = 12, .own = true, .name = "big\x1b[31m\n" },
    { .id = 3, .reserved = UMA_GIB, .taken = 5 * UMA_GIB, .unspent = 0, .pid = 13 },
};

static void lines(void **state) {
    (void)state;
    const struct uma_claims claims = { .n = 3, .list = list }, none = { 0 };
    const struct uma_status_style style = { .columns = 100 };
    struct uma_text text = { 0 };
    uma_status_reservations(&text, &none, &style, 5);
    assert_int_equal(text.length, 0);
    uma_status_reservations(&text, &claims, &style, 5);
    assert_string_equal(text.data, "RESERVED BY RUNNING JOBS\n"
                                   "  60.0 GiB  big\\x1b[31m\\n (pid 12): 12.0 GiB taken, 48.0 GiB to come; own\n"
                                   "  1.0 GiB  small (pid 11): 512 MiB taken, 512 MiB to come\n"
                                   "  1.0 GiB  ? (pid 13): 1.0 GiB taken, 0 B to come\n");
    uma_text_reset(&text);
    uma_status_reservations(&text, &claims, &style, 1);
    assert_non_null(strstr(text.data, "and 2 more"));
    assert_null(strstr(text.data, "small"));
    uma_text_done(&text);
}

static void document(void **state) {
    (void)state;
    const struct uma_claims claims = { .n = 1, .list = list };
    struct uma_text text = { 0 };
    struct uma_json json = { .text = &text, .compact = true };
    uma_json_begin_object(&json, NULL, false);
    uma_reservations_json(&json, &claims);
    uma_json_end_object(&json);
    assert_non_null(strstr(text.data, "\"unspent\":536870912"));
    assert_non_null(strstr(text.data, "\"uid\":1000"));
    assert_non_null(strstr(text.data, "\"own\":false"));
    uma_text_done(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(lines), cmocka_unit_test(document) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
