/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "observe/files/file_ids.h"

static void each_once(void **state) {
    (void)state;
    struct uma_file_ids *ids = uma_file_ids_new();
    assert_non_null(ids);
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t device = 1; device <= 3; device++)
            for (uint64_t inode = 1; inode <= 5000; inode++)
                assert_int_equal(uma_file_ids_add(ids, device, inode, 0), pass == 0);
    /* a device that differs, an inode that differs, and the two exchanged */
    assert_int_equal(uma_file_ids_add(ids, 4, 1, 0), 1);
    assert_int_equal(uma_file_ids_add(ids, 1, 5001, 0), 1);
    assert_int_equal(uma_file_ids_add(ids, 5000, 1, 0), 1);
    assert_int_equal(uma_file_ids_add(ids, UINT64_MAX, UINT64_MAX, 0), 1);
    assert_int_equal(uma_file_ids_add(ids, UINT64_MAX, UINT64_MAX, 0), 0);
    assert_null(uma_file_ids_free(ids));
}

static void numbers_of_zero(void **state) {
    (void)state;
    struct uma_file_ids *ids = uma_file_ids_new();
    assert_non_null(ids);
    assert_int_equal(uma_file_ids_add(ids, 0, 0, 0), 1);
    assert_int_equal(uma_file_ids_add(ids, 0, 0, 0), 0);
    assert_int_equal(uma_file_ids_add(ids, 0, 1, 0), 1);
    assert_int_equal(uma_file_ids_add(ids, 1, 0, 0), 1);
    assert_int_equal(uma_file_ids_add(ids, 1, 0, 0), 0);
    assert_null(uma_file_ids_free(ids));
    assert_null(uma_file_ids_free(NULL));
}

static void values(void **state) {
    (void)state;
    struct uma_file_ids *ids = uma_file_ids_new();
    assert_non_null(ids);
    for (uint32_t i = 1; i <= 5000; i++)
        assert_int_equal(uma_file_ids_add(ids, 7, i, i), 1);
    assert_int_equal(uma_file_ids_add(ids, 7, 1, 99), 0); /* it keeps the value that it had */
    for (uint32_t i = 1; i <= 5000; i++)
        assert_int_equal(*uma_file_ids_find(ids, 7, i), i);
    *uma_file_ids_find(ids, 7, 5) = 50;
    assert_int_equal(*uma_file_ids_find(ids, 7, 5), 50);
    assert_null(uma_file_ids_find(ids, 7, 5001));
    assert_null(uma_file_ids_find(ids, 8, 1));
    assert_null(uma_file_ids_find(ids, 0, 0));
    assert_int_equal(uma_file_ids_add(ids, 0, 0, 3), 1);
    assert_int_equal(*uma_file_ids_find(ids, 0, 0), 3);
    assert_null(uma_file_ids_free(ids));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_once), cmocka_unit_test(numbers_of_zero), cmocka_unit_test(values) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
