/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "act/driver_limit.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)

static bool is(uint64_t first, uint64_t second, uint64_t limit) {
    struct uma_driver_limits limits = { .n = 2, .gpus = { { .hard = first }, { .hard = second } } };
    return uma_driver_limit_is(&limits, limit);
}

static void every_gpu_has_the_limit_but_for_rounding(void **state) {
    (void)state;
    assert_true(is(64 * MIB, 64 * MIB, 64 * MIB));
    assert_true(is(64 * MIB - 1, 64 * MIB, 64 * MIB));
    assert_true(is(62 * MIB + 1, 64 * MIB, 64 * MIB));
    assert_false(is(62 * MIB, 64 * MIB, 64 * MIB));
    assert_false(is(64 * MIB + 1, 64 * MIB, 64 * MIB));
    assert_false(is(64 * MIB, UMA_DRIVER_LIMIT_NONE, 64 * MIB));
    assert_true(is(UMA_DRIVER_LIMIT_NONE, UMA_DRIVER_LIMIT_NONE, UMA_DRIVER_LIMIT_NONE));
    assert_false(is(UMA_DRIVER_LIMIT_NONE, UMA_DRIVER_LIMIT_NONE - 1, UMA_DRIVER_LIMIT_NONE));
}

static void what_was_not_read_is_no_limit(void **state) {
    (void)state;
    struct uma_driver_limits none = { 0 }, unset = { .state = UMA_DRIVER_LIMITS_UNSET, .n = 1, .gpus = { { .hard = MIB } } };
    assert_false(uma_driver_limit_is(&none, MIB));
    assert_false(uma_driver_limit_is(&unset, MIB));
}

static void each_refusal_says_what_to_do(void **state) {
    (void)state;
    static const struct {
        enum uma_driver_limits_state state;
        const char *said;
    } cases[] = { { UMA_DRIVER_LIMITS_DENIED, "root" },
                  { UMA_DRIVER_LIMITS_NO_SYMBOLS, "r615" },
                  { UMA_DRIVER_LIMITS_UNSUPPORTED, "RmMemacctMode" },
                  { UMA_DRIVER_LIMITS_UNSET, "+dmem" },
                  { UMA_DRIVER_LIMITS_HUNG, "hung" } };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_driver_limits limits = { .state = cases[i].state };
        char text[400], small[8];
        uma_driver_limit_explain(&limits, text, sizeof(text));
        assert_non_null(strstr(text, cases[i].said));
        (void)strcpy(limits.detail, "Insufficient Permissions");
        uma_driver_limit_explain(&limits, text, sizeof(text));
        assert_ptr_equal(strstr(text, "Insufficient Permissions"), text);
        uma_driver_limit_explain(&limits, small, sizeof(small));
        assert_string_equal(small, "Insuffi");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_gpu_has_the_limit_but_for_rounding),
                                        cmocka_unit_test(what_was_not_read_is_no_limit), cmocka_unit_test(each_refusal_says_what_to_do) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
