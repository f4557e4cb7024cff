/* SPDX-License-Identifier: MIT */
#include "plan/estimate.h"
#include "test.h"

#include <string.h>

static void sums_by_group_and_between_steps(void **state) {
    (void)state;
    struct uma_estimate e = { 0 };
    uma_estimate_add(&e, UMA_TERM_WEIGHTS, 1000, 0, 0, "test", "weights", "%d x 2 B", 500)->between_steps = true;
    uma_estimate_add(&e, UMA_TERM_ACTIVATIONS, 300, 0.1, 0.1, "test", "layer", "x");
    uma_estimate_add(&e, UMA_TERM_ACTIVATIONS, 400, 0.1, 0.1, "test", "loss", "y");
    uma_estimate_sum(&e);
    assert_int_equal(e.total, 1700);
    assert_int_equal(e.between_steps, 1000);
    assert_int_equal(e.groups[UMA_TERM_ACTIVATIONS], 700);
    assert_int_equal(e.groups[UMA_TERM_WEIGHTS], 1000);
    /* independent spans of 30 and 40 make 50 */
    assert_int_equal(e.low, 1650);
    assert_int_equal(e.high, 1750);
    assert_string_equal(e.terms[0].formula, "500 x 2 B");
}

static void arithmetic_saturates(void **state) {
    (void)state;
    assert_true(uma_plus(UINT64_MAX, 1) == UINT64_MAX);
    assert_true(uma_times(UINT64_MAX / 2, 3) == UINT64_MAX);
    assert_int_equal(uma_minus(3, 5), 0);
    assert_int_equal(uma_divide_up(7, 2), 4);
    assert_true(uma_divide_up(UINT64_MAX, 2) == UINT64_MAX / 2 + 1);
    assert_true(uma_scale(UINT64_MAX, 2) == UINT64_MAX);
    assert_int_equal(uma_scale(10, -1), 0);
    struct uma_estimate e = { 0 };
    uma_estimate_add(&e, UMA_TERM_WEIGHTS, UINT64_MAX, 0, 1, "test", "w", "w");
    uma_estimate_add(&e, UMA_TERM_WEIGHTS, UINT64_MAX, 0, 1, "test", "w", "w");
    uma_estimate_sum(&e);
    assert_true(e.total == UINT64_MAX && e.high == UINT64_MAX);
}

static void a_full_table_loses_no_bytes(void **state) {
    (void)state;
    struct uma_estimate e = { 0 };
    for (int i = 0; i < UMA_PLAN_TERMS_MAX + 10; i++)
        uma_estimate_add(&e, UMA_TERM_OVERHEAD, 1, 0, 0, "test", "one", "1");
    uma_estimate_sum(&e);
    assert_int_equal(e.term_count, UMA_PLAN_TERMS_MAX);
    assert_int_equal(e.total, UMA_PLAN_TERMS_MAX + 10);
    for (int i = 0; i < UMA_PLAN_WARNINGS_MAX + 3; i++)
        uma_estimate_warn(&e, "%0300d", i);
    assert_int_equal(e.warning_count, UMA_PLAN_WARNINGS_MAX);
    assert_int_equal(strlen(e.warnings[0]), UMA_PLAN_TEXT - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_by_group_and_between_steps),
        cmocka_unit_test(arithmetic_saturates),
        cmocka_unit_test(a_full_table_loses_no_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
