/* SPDX-License-Identifier: MIT */
#include "guard_script.h"

static struct uma_guard_danger d;

static void assess(void) {
    struct uma_guard_stops stops = { .steady = script.history.steady, .fell_from = script.history.fell_from };
    uma_guard_danger_assess(&script.history, &script.policy, &stops, &d);
}

/* From `from`, `rate` bytes a second, looked at every 10 ms; headroom at which it was danger, 0: never. */
static uint64_t falls(uint64_t from, double rate, uint64_t to) {
    for (int i = 0; i < 400000; i++) {
        double left = (double)from - rate * 0.01 * i;
        if (left < (double)to)
            return 0;
        script_read(10, (uint64_t)left);
        assess();
        if (d.danger)
            return d.headroom;
    }
    return 0;
}

static void nothing_known(void **state) {
    (void)state;
    assess();
    assert_false(d.known || d.danger);
    script_read(1000, GIB / 2); /* far below, and nothing moves: no danger */
    assess();
    assert_true(d.known && !d.danger);
    assert_true(d.signals & UMA_GUARD_SIGNAL_BELOW_HARD);
    assert_true(isnan(d.psi_some) && isinf(d.to_line));
}

/* 0.5, 3, 15 and 20 GB/s: in time, and not much too early. */
static void collapses(void **state) {
    static const double rates[] = { 0.5e9, 3e9, 15e9, 20e9 };
    for (size_t i = 0; i < 4; i++) {
        script_begin(state);
        uint64_t at = falls(60 * GIB, rates[i], 0);
        assert_int_equal(d.reason, UMA_GUARD_WILL_REACH_FLOOR);
        assert_true(at >= script.policy.floor && at <= script.policy.floor + (uint64_t)(rates[i] * 0.55));
    }
}

/* It begins so near that there is hardly any time. */
static void begins_near(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++)
        script_read(100, script.policy.floor + GIB);
    uint64_t at = falls(script.policy.floor + GIB, 15e9, 0);
    assert_true(at > script.policy.floor);
}

static void false_kill(void **state) {
    (void)state;
    for (int i = 0; i < 600; i++) { /* MemFree 1222 MiB, MemAvailable 7039 MiB: a guard that looked at MemFree ended a healthy server */
        script.now.free = 1222 * MIB;
        script_read(100, 7039 * MIB - (uint64_t)(i % 7) * 15 * MIB);
        assess();
        assert_false(d.danger);
    }
    assert_true(d.signals & UMA_GUARD_SIGNAL_FREE_SHORT);
}

static void cache_only(void **state) {
    (void)state;
    for (int i = 0; i < 500; i++) { /* a file of 60 GB is written: free falls by 5 GB/s, available stays */
        script.now.free = 62 * GIB - (uint64_t)i * GIB / 9;
        script_read(25, 115 * GIB + (uint64_t)(i % 3) * 20 * MIB);
        assess();
        assert_false(d.danger || d.falling);
    }
}

/* 107 MiB to each side, and more than a GiB now and then, above the floor. */
static void noise(void **state) {
    (void)state;
    for (int i = 0; i < 3000; i++) {
        uint64_t wander = (uint64_t)((i / 100 * 7919) % 214) * MIB, dip = (uint64_t)(i % 300 < 20   ? i % 300
                                                                                     : i % 300 < 40 ? 40 - i % 300
                                                                                                    : 0) *
                                                                          60 * MIB;
        script_read(50, 6 * GIB + wander - dip);
        assess();
        assert_false(d.danger);
    }
}

static void stall_and_level(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) { /* it stalls, far above: another subject (a control group's limit) */
        script.now.allocstall += 5;
        script.now.psi_some += 20 * MS;
        script_read(50, 60 * GIB);
        assess();
        assert_false(d.danger);
    }
    for (int i = 0; i < 30; i++) { /* below the floor without a fall: two signals */
        script.now.allocstall += 5;
        script.now.psi_some += 20 * MS;
        script_read(50, 2 * GIB);
        assess();
    }
    assert_true(d.danger && d.stalled);
    for (int i = 0; i < 30; i++) { /* pressure alone is none, and neither are stalls without it */
        script.now.psi_some += 20 * MS;
        script_read(50, 2 * GIB);
        assess();
    }
    assert_false(d.danger);
    for (int i = 0; i < 30; i++) {
        script.now.allocstall += 5;
        script_read(50, 2 * GIB);
        assess();
    }
    assert_false(d.danger);
    for (int i = 0; i < 30; i++) { /* reclaim in vain and swapping in, on a kernel without PSI */
        script.now.known &= ~(uint32_t)UMA_GUARD_KNOWS_PRESSURE;
        script.now.pgscan_direct += 1000;
        script.now.pswpin += 500;
        script_read(50, 2 * GIB);
        assess();
    }
    assert_true(d.danger);
}

/* Refusals of the driver: evidence, whatever their number. */
static void refusals(void **state) {
    (void)state;
    script.now.known |= UMA_GUARD_KNOWS_REFUSALS;
    for (int i = 0; i < 100; i++) {
        script.now.driver_refusals += 7;
        script_read(50, 2 * GIB);
        assess();
        assert_false(d.danger);
    }
    assert_true(d.signals & UMA_GUARD_SIGNAL_REFUSED);
}

/* A server stands at 1.7 GiB for an hour, with excursions; then somebody else begins to grow. */
static void thin(void **state) {
    (void)state;
    for (int i = 0; i < 36000; i++) {
        uint64_t wander = (uint64_t)((i / 50 * 7919) % 32) * MIB, dip = (uint64_t)(i % 4000 > 3950 ? i % 4000 - 3950 : 0) * 10 * MIB;
        script_read(100, 1700 * MIB + wander - 16 * MIB - dip);
        assess();
        assert_false(d.danger);
        if (i > 400)
            assert_true(d.signals & UMA_GUARD_SIGNAL_STEADY);
    }
    uint64_t at = falls(1700 * MIB, 0.3e9, 0);
    assert_true(at > 512 * MIB && at < 1200 * MIB);
}

static void clocks(void **state) {
    (void)state;
    script_read(1000, 60 * GIB);
    script.now.time -= 3600 * 1000 * MS; /* another boot's clock, or a broken one */
    script.now.boot = script.now.time;
    script_read(10, 5 * GIB);
    assess();
    assert_false(d.danger || d.falling);
    script.now.boot += 7200 * 1000 * MS; /* it slept, and wakes with less */
    script_read(20, 4200 * MIB);
    assess();
    assert_false(d.danger || d.falling);
    script.now.gap = 1; /* the guard itself was stopped */
    script_read(20, 4100 * MIB);
    assess();
    assert_false(d.danger || d.falling);
}

/* What was read before a stop says nothing of what came of it. */
static void after_a_stop(void **state) {
    (void)state;
    assert_true(falls(20 * GIB, 15e9, 0) > 0);
    uint64_t left = d.headroom;
    struct uma_guard_stops stops = { .since = script.now.time + 30 * MS };
    for (int i = 0; i < 10; i++) {
        script_read(10, left);
        uma_guard_danger_assess(&script.history, &script.policy, &stops, &d);
        assert_false(d.falling);
    }
    for (int i = 0; i < 15; i++) {
        left -= 150 * MIB;
        script_read(10, left);
        uma_guard_danger_assess(&script.history, &script.policy, &stops, &d);
    }
    assert_true(d.falling && d.danger);
}

static void wake(void **state) {
    (void)state;
    script_read(1000, 115 * GIB);
    assess();
    assert_true(uma_guard_danger_wake(&d, SPARK) >= 500 * MS);
    script_read(1000, 60 * GIB); /* 55 GiB in a second: fast, and far */
    assess();
    assert_true(uma_guard_danger_wake(&d, SPARK) <= 150 * MS);
    script_begin(state);
    script_read(1000, 60 * GIB);
    assess();
    assert_true(uma_guard_danger_wake(&d, SPARK) >= 250 * MS); /* no more than four a second */
    script_read(1000, 4 * GIB);
    assess();
    assert_int_equal(uma_guard_danger_wake(&d, SPARK), 10 * MS);
    script_begin(state);
    script.now.total = 16 * GIB;
    script_read(1000, 15 * GIB);
    assess();
    assert_true(uma_guard_danger_wake(&d, 16 * GIB) >= 250 * MS);
    script.now.total = 0; /* a reading that is none */
    script_read(1000, 0);
    assess();
    assert_int_equal(uma_guard_danger_wake(&d, 0), 10 * MS);
}

static void blocks(void **state) {
    (void)state;
    script.now.known |= UMA_GUARD_KNOWS_BLOCKS;
    script.now.blocks[0] = 1000000;
    script_read(1000, 60 * GIB);
    assess();
    assert_true(d.signals & UMA_GUARD_SIGNAL_BLOCKS_SHORT);
    assert_false(d.danger);
    script.now.blocks[9] = 500;
    script_read(1000, 60 * GIB);
    assess();
    assert_false(d.signals & UMA_GUARD_SIGNAL_BLOCKS_SHORT);
}

#define T(name) cmocka_unit_test_setup(name, script_begin)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(nothing_known), T(collapses), T(begins_near), T(false_kill),   T(cache_only), T(noise),  T(stall_and_level),
        T(refusals),      T(thin),      T(clocks),      T(after_a_stop), T(wake),       T(blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
