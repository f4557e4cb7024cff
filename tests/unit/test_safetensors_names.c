/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "plan/model/safetensors_names.h"

#include <string.h>

static void test_names(void **state) {
    (void)state;
    struct uma_safetensors_names names = { 0 };
    char name[32];
    uint32_t file = 99;
    for (uint32_t i = 0; i < 20000; i++) { /* over several growths of the table */
        int n = snprintf(name, sizeof(name), "tensor.%u", i);
        assert_int_equal(uma_safetensors_names_add(&names, name, (size_t)n, i % 7, &file), 0);
    }
    assert_int_equal(file, 99);
    for (uint32_t i = 0; i < 20000; i++) {
        int n = snprintf(name, sizeof(name), "tensor.%u", i);
        assert_int_equal(uma_safetensors_names_add(&names, name, (size_t)n, 50, &file), 1);
        assert_int_equal(file, i % 7);
    }
    assert_int_equal(names.count, 20000);
    /* a name is all of its bytes: lengths, and what stands behind a NUL */
    assert_int_equal(uma_safetensors_names_add(&names, "", 0, 0, &file), 0);
    assert_int_equal(uma_safetensors_names_add(&names, "\0", 1, 0, &file), 0);
    assert_int_equal(uma_safetensors_names_add(&names, "a\0b", 3, 0, &file), 0);
    assert_int_equal(uma_safetensors_names_add(&names, "a\0c", 3, 0, &file), 0);
    assert_int_equal(uma_safetensors_names_add(&names, "a\0c", 3, 0, &file), 1);
    uma_safetensors_names_done(&names);
    assert_null(names.hashes);
}

static void test_limit(void **state) {
    (void)state;
    struct uma_safetensors_names names = { 0 };
    uint32_t file;
    for (uint32_t i = 0; i < UMA_SAFETENSORS_NAMES_MAX; i++)
        if (uma_safetensors_names_add(&names, (const char *)&i, sizeof(i), 0, &file) != 0)
            fail_msg("%u", i);
    uint32_t more = UMA_SAFETENSORS_NAMES_MAX, old = 5;
    assert_int_equal(uma_safetensors_names_add(&names, (const char *)&more, sizeof(more), 0, &file), -E2BIG);
    assert_int_equal(uma_safetensors_names_add(&names, (const char *)&old, sizeof(old), 0, &file), 1);
    uma_safetensors_names_done(&names);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_names), cmocka_unit_test(test_limit) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
