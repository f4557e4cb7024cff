/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "cache/seen.h"

static void each_once(void **state) {
    (void)state;
    struct uma_seen *seen = uma_seen_new();
    assert_non_null(seen);
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t device = 1; device <= 3; device++)
            for (uint64_t inode = 1; inode <= 5000; inode++)
                assert_int_equal(uma_seen_add(seen, device, inode), pass == 0);
    /* a device that differs, an inode that differs, and the two exchanged */
    assert_int_equal(uma_seen_add(seen, 4, 1), 1);
    assert_int_equal(uma_seen_add(seen, 1, 5001), 1);
    assert_int_equal(uma_seen_add(seen, 5000, 1), 1);
    assert_int_equal(uma_seen_add(seen, UINT64_MAX, UINT64_MAX), 1);
    assert_int_equal(uma_seen_add(seen, UINT64_MAX, UINT64_MAX), 0);
    assert_null(uma_seen_free(seen));
}

static void numbers_of_zero(void **state) {
    (void)state;
    struct uma_seen *seen = uma_seen_new();
    assert_non_null(seen);
    assert_int_equal(uma_seen_add(seen, 0, 0), 1);
    assert_int_equal(uma_seen_add(seen, 0, 0), 0);
    assert_int_equal(uma_seen_add(seen, 0, 1), 1);
    assert_int_equal(uma_seen_add(seen, 1, 0), 1);
    assert_int_equal(uma_seen_add(seen, 1, 0), 0);
    assert_null(uma_seen_free(seen));
    assert_null(uma_seen_free(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_once), cmocka_unit_test(numbers_of_zero) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
