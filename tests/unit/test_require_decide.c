/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "cmd/require.h"

static const struct uma_u64 page = { 4096, UMA_KNOWN }, unknown = { 0, UMA_UNKNOWN };

/* 4 KiB pages, orders 0..10: 100 blocks of 1 MiB (order 8), 3 of 4 MiB (order 10), and many single pages. */
static struct uma_headroom fragmented(void) {
    struct uma_headroom h = { .budget = { 10 * UMA_GIB, UMA_KNOWN }, .n_orders = 11 };
    h.free_by_order[0] = UMA_GIB;
    h.free_by_order[8] = 100 * UMA_MIB;
    h.free_by_order[10] = 12 * UMA_MIB;
    return h;
}

static void assert_free(struct uma_u64 value, uint64_t expected) {
    assert_int_equal(value.validity, UMA_KNOWN);
    assert_true(value.value == expected);
}

static void test_contiguous_free(void **state) {
    (void)state;
    struct uma_headroom h = fragmented();
    assert_free(uma_contiguous_free(&h, page, 1), UMA_GIB + 112 * UMA_MIB);
    assert_free(uma_contiguous_free(&h, page, 4096), UMA_GIB + 112 * UMA_MIB);
    assert_free(uma_contiguous_free(&h, page, 4097), 112 * UMA_MIB); /* a single page does not hold it */
    assert_free(uma_contiguous_free(&h, page, UMA_MIB), 112 * UMA_MIB);
    assert_free(uma_contiguous_free(&h, page, UMA_MIB + 1), 12 * UMA_MIB);
    assert_free(uma_contiguous_free(&h, page, 4 * UMA_MIB), 12 * UMA_MIB);
    assert_free(uma_contiguous_free(&h, page, 64 * UMA_MIB), 12 * UMA_MIB); /* no such block exists: the largest ones, chained */
    h.free_by_order[10] = UINT64_MAX;
    assert_free(uma_contiguous_free(&h, page, 1), UINT64_MAX);
}

static void test_contiguous_unknown(void **state) {
    (void)state;
    struct uma_headroom h = fragmented();
    assert_int_equal(uma_contiguous_free(&h, unknown, 4096).validity, UMA_UNKNOWN);
    h.n_orders = 0;
    assert_int_equal(uma_contiguous_free(&h, page, 4096).validity, UMA_UNKNOWN);
}

static enum uma_truth verdict(const struct uma_headroom *h, uint64_t bytes, uint64_t contiguous) {
    return uma_require_verdict(h, page, &(struct uma_requirement){ bytes, contiguous });
}

static void test_verdict(void **state) {
    (void)state;
    struct uma_headroom h = fragmented();
    assert_int_equal(verdict(&h, 10 * UMA_GIB, 0), UMA_YES);
    assert_int_equal(verdict(&h, 10 * UMA_GIB + 1, 0), UMA_NO);
    assert_int_equal(verdict(&h, UMA_GIB, 4 * UMA_MIB), UMA_YES);
    assert_int_equal(verdict(&h, UMA_GIB, 12 * UMA_MIB), UMA_YES);
    assert_int_equal(verdict(&h, UMA_GIB, 12 * UMA_MIB + 1), UMA_NO);
    h.n_orders = 0;
    assert_int_equal(verdict(&h, UMA_GIB, 4096), UMA_MAYBE);
    assert_int_equal(verdict(&h, 11 * UMA_GIB, 4096), UMA_NO); /* one no is enough */
    h = fragmented();
    h.budget.validity = UMA_FAILED;
    assert_int_equal(verdict(&h, 1, 0), UMA_MAYBE);
    assert_int_equal(verdict(&h, 1, UMA_MIB), UMA_MAYBE);
    assert_int_equal(verdict(&h, 1, UMA_GIB), UMA_NO);
}

static void test_never(void **state) {
    (void)state;
    struct uma_headroom h = { .total = { 16 * UMA_GIB, UMA_KNOWN }, .reserve = { UMA_GIB, UMA_KNOWN } };
    assert_false(uma_require_never(&h, &(struct uma_requirement){ 15 * UMA_GIB, 16 * UMA_GIB }));
    assert_true(uma_require_never(&h, &(struct uma_requirement){ 15 * UMA_GIB + 1, 0 }));
    assert_true(uma_require_never(&h, &(struct uma_requirement){ 1, 16 * UMA_GIB + 1 }));
    h.reserve.value = 99 * UMA_GIB; /* nonsense wraps nothing around */
    assert_true(uma_require_never(&h, &(struct uma_requirement){ 1, 0 }));
    assert_false(uma_require_never(&h, &(struct uma_requirement){ 0, 0 }));
    h.total.validity = UMA_MALFORMED;
    assert_false(uma_require_never(&h, &(struct uma_requirement){ UINT64_MAX, UINT64_MAX }));
}

static void test_delay(void **state) {
    (void)state;
    double d = 0.2;
    for (int i = 0; i < 10; i++)
        d = uma_require_delay(d, 5 * UMA_GIB, 5 * UMA_GIB + UMA_MIB); /* stands still: back off, but not beyond 1 s */
    assert_true(d > 0.999 && d < 1.001);
    assert_true(uma_require_delay(d, 5 * UMA_GIB, 6 * UMA_GIB) < 0.21); /* comes back: look closely */
    assert_true(uma_require_delay(d, 6 * UMA_GIB, 5 * UMA_GIB) < 0.21);
    assert_true(uma_require_delay(0, 0, 0) >= 0.19); /* never a busy loop */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contiguous_free), cmocka_unit_test(test_contiguous_unknown),
        cmocka_unit_test(test_verdict),         cmocka_unit_test(test_never),
        cmocka_unit_test(test_delay),
    };
    return cmocka_run_group_tests_name("require_decide", tests, NULL, NULL);
}
