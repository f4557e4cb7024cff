/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/arena.h"

#include <stdint.h>
#include <string.h>

static void limit_holds(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *a = uma_arena_new(100000);
    size_t got = 0;
    while (uma_arena_alloc(a, 1000))
        got += 1000;
    assert_true(got >= 80000 && got <= 100000);
    assert_null(uma_arena_alloc(a, 100000));
    assert_null(uma_arena_alloc(a, SIZE_MAX));
    assert_null(uma_arena_array(a, SIZE_MAX / 2, 4));
}

static void reset_keeps_memory_and_zeroes_it(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *a = uma_arena_new(1 << 24);
    for (int round = 0; round < 12; round++) { /* within the limit only when memory is used again */
        for (int i = 0; i < 1000; i++) {
            unsigned char *p = uma_arena_alloc(a, (size_t)(i % 97) * 100 + 1);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 16, 0);
            for (int k = 0; k < (i % 97) * 100 + 1; k++)
                assert_int_equal(p[k], 0);
            (void)memset(p, 0xaa, (size_t)(i % 97) * 100 + 1);
        }
        uma_arena_reset(a);
        assert_int_equal(uma_arena_used(a), 0);
    }
}

static void names_become_utf8(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *a = uma_arena_new(1 << 16);
    assert_string_equal(uma_arena_utf8(a, "ok \xc3\xa9", 5), "ok \xc3\xa9");
    assert_string_equal(uma_arena_utf8(a, "\xff x\xc3", 4), "\\xff x\\xc3");
    assert_string_equal(uma_arena_utf8(a, "cut\0off", 7), "cut");
    assert_string_equal(uma_arena_strndup(a, "abcdef", 3), "abc");
    assert_string_equal(uma_arena_printf(a, "%d %s", 7, "x"), "7 x");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(limit_holds), cmocka_unit_test(reset_keeps_memory_and_zeroes_it),
                                        cmocka_unit_test(names_become_utf8) };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
