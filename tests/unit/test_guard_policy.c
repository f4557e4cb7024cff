/* SPDX-License-Identifier: MIT */
#include "guard/policy.h"

#include "test.h"

#include <math.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static uint64_t floor_of(uint64_t total) {
    struct uma_guard_policy p;
    uma_guard_policy_default(&p);
    uma_guard_policy_settle(&p, total);
    assert_true(p.hard_floor == p.floor / 4 && p.free_floor == p.floor);
    return p.floor;
}

static void floors(void **state) {
    (void)state;
    assert_int_equal(floor_of(UINT64_C(127600816) * 1024), UINT64_C(127600816) * 32); /* a Spark: 3.8 GiB */
    assert_int_equal(floor_of(512 * GIB), 4 * GIB);
    assert_int_equal(floor_of(16 * GIB), GIB / 2);
    assert_int_equal(floor_of(8 * GIB), GIB / 2);
    assert_int_equal(floor_of(8 * GIB - 16), GIB / 2 - 1); /* no step */
    assert_int_equal(floor_of(GIB), 64 * MIB);
    assert_int_equal(floor_of(512 * MIB), 32 * MIB);
    assert_int_equal(floor_of(64 * MIB), 16 * MIB);
    assert_int_equal(floor_of(0), 0);
}

static void order(void **state) {
    (void)state;
    struct uma_guard_policy p;
    uma_guard_policy_default(&p);
    p.floor = 2 * GIB, p.hard_floor = 3 * GIB, p.free_floor = 100 * GIB, p.brake_release = 0.5, p.horizon = NAN, p.brake_times = 0,
    p.term_grace = -1;
    uma_guard_policy_settle(&p, 64 * GIB);
    assert_int_equal(p.hard_floor, 2 * GIB);
    assert_int_equal(p.free_floor, 32 * GIB);
    assert_true(p.brake_release == 1 && p.horizon == 0 && p.brake_times == 1 && p.term_grace == 0);
    uma_guard_policy_default(&p);
    p.floor = 60 * GIB;
    uma_guard_policy_settle(&p, 64 * GIB);
    assert_int_equal(p.floor, 32 * GIB);
    uma_guard_policy_settle(&p, 64 * GIB); /* settled is settled */
    assert_int_equal(p.floor, 32 * GIB);
}

static void defaults(void **state) {
    (void)state;
    struct uma_guard_policy p;
    uma_guard_policy_default(&p);
    assert_true(p.brake && p.terminate && p.kill && p.room && !p.last_resort && !p.dry_run);
    assert_true(p.protect.n > 10 && p.prefer.n == 0 && p.avoid.n > 0 && p.no_brake.n > 0);
    for (uint32_t i = 0; i < p.protect.n; i++) /* a name that is longer than the kernel's would never match */
        assert_true(strlen(p.protect.list[i]) > 0 && strlen(p.protect.list[i]) < UMA_GUARD_NAME_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(floors), cmocka_unit_test(order), cmocka_unit_test(defaults) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
