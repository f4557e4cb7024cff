/* SPDX-License-Identifier: MIT */
#include "guard/dry_run.h"

#include "test.h"

#define MIB (1ull << 20)
#define SECOND INT64_C(1000000000)

static struct uma_guard_dry_run would;
static struct uma_guard_state done;
static struct uma_guard_policy policy;
static struct uma_guard_decision decision;

static int begin(void **state) {
    (void)state;
    would = (struct uma_guard_dry_run){ 0 };
    done = (struct uma_guard_state){ 0 };
    policy = (struct uma_guard_policy){ .floor = 256 * MIB, .brake_release = 1.5, .brake_most = 10 };
    return 0;
}

/* A decision of these kinds at `headroom` MiB; how many of them are told. */
static uint32_t told(uint64_t headroom, int64_t second, size_t n, const enum uma_guard_action_kind *kinds, bool over) {
    decision = (struct uma_guard_decision){ .n = (uint32_t)n };
    for (size_t i = 0; i < n; i++)
        decision.actions[i] = (struct uma_guard_action){ .kind = kinds[i], .pid = kinds[i] == UMA_GUARD_ROOM ? 0 : 7 };
    assert_int_equal(uma_guard_dry_run_follow(&would, &policy, headroom * MIB, second * SECOND, &done, &decision), over);
    return decision.n;
}

static const enum uma_guard_action_kind stops[] = { UMA_GUARD_BRAKE, UMA_GUARD_BRAKE }, ends[] = { UMA_GUARD_RELEASE, UMA_GUARD_KILL },
                                        room[] = { UMA_GUARD_ROOM, UMA_GUARD_BRAKE };

static void first_alone(void **state) {
    (void)state;
    assert_int_equal(told(300, 1, 2, stops, false), 2); /* both of one moment */
    assert_int_equal(told(100, 2, 2, stops, false), 0);
    assert_int_equal(told(100, 3, 2, ends, false), 0);
    assert_int_equal(told(100, 4, 2, room, false), 1);
    assert_int_equal(decision.actions[0].kind, UMA_GUARD_ROOM);
    assert_int_equal(told(400, 5, 0, NULL, true), 0); /* where it began, and above the line of going on */
    assert_int_equal(would.lowest, 100 * MIB);
    assert_int_equal(told(300, 6, 2, ends, false), 1); /* there was nobody to let go */
    assert_int_equal(decision.actions[0].kind, UMA_GUARD_KILL);
}

static void ends_without_headroom(void **state) {
    (void)state;
    assert_int_equal(told(200, 1, 2, stops, false), 2);
    for (int64_t s = 2; s < 90; s++) /* it sinks all the time */
        assert_int_equal(told(200 - (uint64_t)s, s, 2, stops, false), 0);
    for (int64_t s = 90; s < 149; s++)
        assert_int_equal(told(111, s, 1, stops, false), 0);
    assert_int_equal(told(111, 149, 1, stops, true), 0); /* a minute since 111 was new */
    assert_int_equal(told(111, 150, 1, stops, false), 1);
    /* back, if not where it began: when it stayed for as long as one is kept stopped */
    begin(state);
    assert_int_equal(told(600, 1, 1, stops, false), 1);
    assert_int_equal(told(390, 2, 0, NULL, false), 0);
    assert_int_equal(told(391, 11, 0, NULL, false), 0);
    assert_int_equal(told(391, 12, 0, NULL, true), 0);
}

static void nothing_was_done(void **state) {
    (void)state;
    done = (struct uma_guard_state){ .n_braked = 1,
                                     .braked[0] = { .pid = 7, .stopped = true },
                                     .victim = 9,
                                     .killed = 5,
                                     .unkillable = true,
                                     .n_given_up = 1,
                                     .brake_last = 3,
                                     .last_room = 11,
                                     .danger_since = 12,
                                     .hard_since = 13,
                                     .n_past = 2 };
    assert_int_equal(told(100, 1, 1, stops, false), 1);
    assert_int_equal(done.n_braked + done.n_given_up + (uint32_t)done.victim + done.unkillable, 0);
    assert_int_equal(done.killed + done.brake_last, 0);
    assert_int_equal(done.last_room + done.danger_since + done.hard_since, 36); /* what was seen stays */
    assert_int_equal(done.n_past, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup(first_alone, begin), cmocka_unit_test_setup(ends_without_headroom, begin),
                                        cmocka_unit_test_setup(nothing_was_done, begin) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
