/* SPDX-License-Identifier: MIT */
#include "valve/account.h"
#include "valve/gate.h"

#include "test.h"

#define GIB (UINT64_C(1) << 30)

static const struct uma_valve_question healthy = { .size = GIB,
                                                   .used = 10 * GIB,
                                                   .ceiling = 96 * GIB,
                                                   .unified = true,
                                                   .known = true,
                                                   .available = 40 * GIB,
                                                   .free = 30 * GIB,
                                                   .floor = 4 * GIB };

static void passes(void **state) {
    (void)state;
    assert_int_equal(uma_valve_judge(&healthy), UMA_VALVE_PASS);
    assert_int_equal(uma_valve_room(&healthy), 36 * GIB - UMA_VALVE_MARGIN);
}

static void ceiling(void **state) {
    (void)state;
    struct uma_valve_question q = healthy;
    q.used = 95 * GIB;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_PASS); /* to the last byte */
    q.size++;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_OVER_CEILING);
    assert_int_equal(uma_valve_room(&q), GIB);
    q.size = UINT64_MAX;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_OVER_CEILING);
    q.used = 97 * GIB; /* it had more before the limit was set */
    q.size = 1;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_OVER_CEILING);
    assert_int_equal(uma_valve_room(&q), 0);
    q.ceiling = UMA_VALVE_NONE;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_PASS);
}

static void at_the_floor(void **state) {
    (void)state;
    struct uma_valve_question q = healthy;
    q.available = 5 * GIB + UMA_VALVE_MARGIN;
    q.free = 5 * GIB;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_PASS);
    q.size++;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_UNDER_FLOOR);
    q = healthy;
    q.reserved = 35 * GIB - UMA_VALVE_MARGIN;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_PASS);
    q.under_way = 1; /* what another thread has asked for is not in the figures yet */
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_UNDER_FLOOR);
    assert_int_equal(uma_valve_room(&q), GIB - 1);
    q.reserved = 100 * GIB;
    assert_int_equal(uma_valve_room(&q), 0);
    q = healthy; /* a floor that no machine has */
    q.floor = UINT64_MAX;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_UNDER_FLOOR);
    assert_int_equal(uma_valve_room(&q), 0);
    q = healthy; /* no floor, and nothing above it */
    q.floor = 0;
    assert_int_equal(uma_valve_room(&q), 40 * GIB);
}

static void out_of_cache(void **state) {
    (void)state;
    struct uma_valve_question q = healthy;
    q.free = GIB + UMA_VALVE_SLACK;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_PASS);
    q.free--;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_MAKE_ROOM);
    q.free = 0;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_MAKE_ROOM);
}

/* What is not known refuses nothing; a device with memory of its own has a limit only. */
static void falls_open(void **state) {
    (void)state;
    struct uma_valve_question q = healthy;
    q.available = q.free = 0;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_UNDER_FLOOR);
    q.known = false;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_PASS);
    assert_int_equal(uma_valve_room(&q), 86 * GIB);
    q.known = true;
    q.unified = false;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_PASS);
    assert_int_equal(uma_valve_room(&q), 86 * GIB);
    q.size = 87 * GIB;
    assert_int_equal(uma_valve_judge(&q), UMA_VALVE_OVER_CEILING);
}

/* How much small calls may take before the machine is looked at again. */
static void unlooked(void **state) {
    (void)state;
    const uint64_t mib = UINT64_C(1) << 20;
    struct uma_valve_question q = healthy;
    assert_int_equal(uma_valve_unlooked(&q), 256 * mib); /* 30 GiB free */
    q.free = 6 * GIB;                                    /* less what the driver cannot have, and less this call: 4.75 GiB */
    assert_int_equal(uma_valve_unlooked(&q), 76 * mib);
    q.available = q.floor + UMA_VALVE_MARGIN + q.size + 640 * mib; /* the floor is nearer */
    assert_int_equal(uma_valve_unlooked(&q), 10 * mib);
    q.reserved = 320 * mib;
    assert_int_equal(uma_valve_unlooked(&q), 5 * mib);
    q.available = q.floor;
    assert_int_equal(uma_valve_unlooked(&q), UMA_VALVE_LOOK);
    q.known = false;
    assert_int_equal(uma_valve_unlooked(&q), UMA_VALVE_LOOK);
}

static void default_floor(void **state) {
    (void)state;
    assert_int_equal(uma_valve_default_floor(GIB), GIB / 2);
    assert_int_equal(uma_valve_default_floor(64 * GIB), 2 * GIB);
    assert_int_equal(uma_valve_default_floor(480 * GIB), 4 * GIB);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes),     cmocka_unit_test(ceiling),       cmocka_unit_test(at_the_floor), cmocka_unit_test(out_of_cache),
        cmocka_unit_test(falls_open), cmocka_unit_test(default_floor), cmocka_unit_test(unlooked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
