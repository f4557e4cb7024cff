/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/arena.h"
#include "uma.h"

#include <string.h>

static void test_life(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    uma_snapshot_done(&s); /* a zeroed one is fine */
    assert_int_equal(uma_snapshot_init(&s), 0);
    assert_non_null(s.arena);
    s.time_ns = 7;
    s.n_swaps = 1;
    s.swaps = uma_arena_array(s.arena, 1, sizeof(*s.swaps));
    struct uma_arena *arena = s.arena;
    uma_snapshot_reset(&s);
    assert_ptr_equal(s.arena, arena);
    assert_int_equal(s.time_ns, 0);
    assert_int_equal(s.n_swaps, 0);
    assert_null(s.swaps);
    assert_int_equal(uma_arena_used(s.arena), 0);
    uma_snapshot_done(&s);
    assert_null(s.arena);
    uma_snapshot_done(&s);
}

static void test_limit(void **state) {
    (void)state;
    struct uma_snapshot s;
    assert_int_equal(uma_snapshot_init(&s), 0);
    assert_null(uma_arena_alloc(s.arena, (size_t)1024 * 1024 * 1024)); /* refused, not swallowed */
    assert_non_null(uma_arena_alloc(s.arena, 64));
    uma_snapshot_done(&s);
}

/* Every value has its own word, and a number that is none is a word too. */
static void test_names(void **state) {
    (void)state;
    for (int i = 0; i < UMA_VALIDITY_MAX; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(uma_validity_name((enum uma_validity)i), uma_validity_name((enum uma_validity)j));
    for (int i = 0; i < UMA_PLATFORM_MAX; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(uma_platform_text((enum uma_platform_name)i), uma_platform_text((enum uma_platform_name)j));
    assert_string_equal(uma_validity_name(UMA_UNSUPPORTED), "not supported");
    assert_string_equal(uma_platform_text(UMA_PLATFORM_DGX_SPARK), "dgx-spark");
    assert_string_equal(uma_throttle_name(UMA_THROTTLE_SW_POWER_CAP), "sw_power_cap");
    assert_string_equal(uma_throttle_name((enum uma_throttle)99), "unknown");
    assert_string_equal(uma_validity_name((enum uma_validity) - 1), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
