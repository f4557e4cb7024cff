/* SPDX-License-Identifier: MIT */
#include "guard/history.h"

#include "test.h"

#include <math.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define MS INT64_C(1000000)
#define SPARK (UINT64_C(127600816) * 1024)

static struct uma_guard_history h;

static struct uma_guard_reading reading(int64_t ms, uint64_t available) {
    return (struct uma_guard_reading){
        .time = ms * MS, .boot = ms * MS, .known = UMA_GUARD_KNOWS_MEMINFO, .total = SPARK, .free = available / 2, .available = available
    };
}

static void add(int64_t ms, uint64_t available) {
    struct uma_guard_reading r = reading(ms, available);
    uma_guard_history_add(&h, &r);
}

static int begin(void **state) {
    (void)state;
    memset(&h, 0, sizeof(h));
    return 0;
}

static void empty(void **state) {
    (void)state;
    struct uma_guard_rates r;
    assert_null(uma_guard_history_get(&h, 0));
    assert_int_equal(uma_guard_history_headroom(&h), 0);
    uma_guard_history_rates(&h, 100 * MS, &r);
    assert_false(r.known);
    assert_true(isnan(r.psi_some) && isnan(r.allocstall));
    add(1000, GIB);
    uma_guard_history_rates(&h, 100 * MS, &r);
    assert_false(r.known);
    uma_guard_history_rates_since(&h, 0, &r);
    assert_false(r.known);
    assert_int_equal(uma_guard_history_get(&h, 0)->available, GIB);
    assert_null(uma_guard_history_get(&h, 1));
    assert_null(uma_guard_history_get(&h, UINT32_MAX));
}

static void rates(void **state) {
    (void)state;
    struct uma_guard_rates r;
    for (int i = 0; i <= 100; i++)
        add(1000 + 10 * i, 40 * GIB - (uint64_t)i * 100 * MIB);
    uma_guard_history_rates(&h, 50 * MS, &r);
    assert_true(r.known && r.span_ns == 50 * MS && r.n == 6);
    assert_true(fabs(r.available + 100.0 * (double)MIB * 100) < 1e3);
    assert_true(fabs(r.available + r.unreclaimable) < 1e-3);
    uma_guard_history_rates(&h, 1500 * MS, &r); /* as much as there is, when that is half of it */
    assert_true(r.known && r.span_ns == 1000 * MS);
    uma_guard_history_rates(&h, 2500 * MS, &r);
    assert_false(r.known);
    uma_guard_history_rates_since(&h, 1900 * MS, &r);
    assert_true(r.known && r.span_ns == 100 * MS && r.n == 11);
    uma_guard_history_rates_since(&h, 1995 * MS, &r);
    assert_false(r.known);
}

/* The ring goes round, and the oldest are gone. */
static void round_ring(void **state) {
    (void)state;
    for (int i = 0; i < 3 * UMA_GUARD_HISTORY + 7; i++)
        add(1 + i, (uint64_t)i);
    for (uint32_t i = 0; i < UMA_GUARD_HISTORY; i++)
        assert_int_equal(uma_guard_history_get(&h, i)->available, 3 * UMA_GUARD_HISTORY + 6 - i);
    assert_null(uma_guard_history_get(&h, UMA_GUARD_HISTORY));
}

static void gaps(void **state) {
    (void)state;
    struct uma_guard_rates r;
    add(1000, 40 * GIB);
    add(1100, 30 * GIB);
    add(1050, 20 * GIB); /* the clock jumped back */
    uma_guard_history_rates(&h, 50 * MS, &r);
    assert_false(r.known);
    assert_int_equal(uma_guard_history_get(&h, 0)->gap, 1);
    add(1100, 20 * GIB);
    uma_guard_history_rates(&h, 50 * MS, &r);
    assert_true(r.known && r.available == 0);
    struct uma_guard_reading slept = reading(1150, 10 * GIB);
    slept.boot += 3600 * 1000 * MS;
    uma_guard_history_add(&h, &slept);
    uma_guard_history_rates(&h, 50 * MS, &r);
    assert_false(r.known);
    struct uma_guard_reading marked = slept;
    marked.time += 50 * MS, marked.boot += 50 * MS, marked.gap = 1;
    uma_guard_history_add(&h, &marked);
    uma_guard_history_rates(&h, 50 * MS, &r);
    assert_false(r.known);
    struct uma_guard_reading failed = marked; /* a read that failed is none, and no gap */
    failed.time += 10 * MS, failed.known = 0;
    uma_guard_history_add(&h, &failed);
    marked.time += 50 * MS, marked.boot += 50 * MS, marked.gap = 0;
    uma_guard_history_add(&h, &marked);
    uma_guard_history_rates(&h, 50 * MS, &r);
    assert_true(r.known);
}

/* The lists of the processors are read now and then: a reading without them is no fall. */
static void lists(void **state) {
    (void)state;
    struct uma_guard_rates r;
    struct uma_guard_reading with = reading(1000, 10 * GIB);
    with.known |= UMA_GUARD_KNOWS_LISTS, with.per_cpu = GIB;
    uma_guard_history_add(&h, &with);
    assert_int_equal(uma_guard_history_headroom(&h), 11 * GIB);
    add(1100, 10 * GIB);
    assert_int_equal(uma_guard_history_headroom(&h), 11 * GIB);
    uma_guard_history_rates(&h, 100 * MS, &r);
    assert_true(r.known && r.available == 0);
    with.time = with.boot = 1200 * MS, with.available = 9 * GIB, with.per_cpu = 2 * GIB; /* a program freed a GiB into them */
    uma_guard_history_add(&h, &with);
    uma_guard_history_rates(&h, 200 * MS, &r);
    assert_true(r.known && r.available == 0);
    add(9000, 9 * GIB);
    assert_int_equal(uma_guard_history_headroom(&h), 9 * GIB); /* too long ago */
}

static void counters(void **state) {
    (void)state;
    struct uma_guard_rates r;
    struct uma_guard_reading a = reading(1000, GIB), b = reading(1500, GIB);
    a.known |= UMA_GUARD_KNOWS_VMSTAT | UMA_GUARD_KNOWS_PRESSURE;
    b.known = a.known;
    a.allocstall = 10, b.allocstall = 60;
    b.psi_some = 250 * MS;
    a.pswpin = 7, b.pswpin = 3; /* backwards: no rate */
    uma_guard_history_add(&h, &a);
    uma_guard_history_add(&h, &b);
    uma_guard_history_rates(&h, 500 * MS, &r);
    assert_true(r.known && r.allocstall == 100 && fabs(r.psi_some - 0.5) < 1e-9 && isnan(r.swap_in));
    add(2000, GIB);
    uma_guard_history_rates(&h, 500 * MS, &r);
    assert_true(r.known && isnan(r.allocstall) && isnan(r.psi_full));
}

static uint64_t rough(uint64_t level, int i) { /* 107 MiB to each side */
    return level + (uint64_t)((i * 7919) % 214) * MIB - 107 * MIB;
}

static void steady(void **state) {
    (void)state;
    int t = 0;
    add(0, 60 * GIB); /* it is not thin when the guard begins */
    for (; t < 29; t++)
        add(1000 + t * 1000, rough(1700 * MIB, t));
    assert_int_equal(h.steady, 0);
    for (; t < 3600; t++) { /* an hour, with an excursion each way now and then */
        add(1000 + t * 1000, t % 400 == 77 ? 900 * MIB : t % 400 == 177 ? 2900 * MIB : rough(1700 * MIB, t));
        if (t > 32)
            assert_true(h.steady > 1500 * MIB && h.steady < 1900 * MIB);
    }
    add(1000 + t++ * 1000, 800 * MIB); /* falls out of it */
    assert_int_equal(h.steady, 0);
    assert_true(h.fell_from > 1500 * MIB);
}

/* A guard that begins on a machine that is thin: it was so before. */
static void found(void **state) {
    (void)state;
    add(0, 2 * GIB);
    assert_int_equal(h.steady, 2 * GIB);
    add(1000, 2 * GIB - 5 * MIB);
    assert_int_equal(h.steady, 2 * GIB);
    add(2000, GIB / 2); /* and a collapse falls out of it */
    assert_int_equal(h.steady, 0);
    assert_int_equal(h.fell_from, 2 * GIB);
    memset(&h, 0, sizeof(h));
    add(0, 60 * GIB); /* far from any floor: learned as ever */
    assert_int_equal(h.steady, 0);
}

/* Whoever held the memory has gone: the thin level is no excuse for the next fall. */
static void rises_out(void **state) {
    (void)state;
    for (int t = 1; t < 60; t++)
        add(t * 1000, 1700 * MIB);
    assert_true(h.steady != 0);
    add(61000, 60 * GIB);
    assert_int_equal(h.steady, 0);
    assert_int_equal(h.fell_from, 0);
    begin(NULL);
    for (int t = 1; t < 60; t++)
        add(t * 1000, 1700 * MIB);
    for (int t = 60; t < 80; t++)
        add(t * 1000, 3500 * MIB); /* somewhat higher: until it has come to a level there, it may come back to where it stood */
    assert_in_range(h.steady, 1600 * MIB, 1800 * MIB);
    for (int t = 80; t < 100; t++)
        add(t * 1000, 3500 * MIB); /* and it stays */
    assert_in_range(h.steady, 3400 * MIB, 3600 * MIB);
    assert_int_equal(h.fell_from, 0);
}

/* Higher for a while, and back: that is no fall out of the level. */
static void comes_back(void **state) {
    (void)state;
    for (int t = 1; t < 60; t++)
        add(t * 1000, 1700 * MIB);
    for (int t = 60; t < 80; t++)
        add(t * 1000, 3500 * MIB);
    for (int t = 80; t < 200; t++)
        add(t * 1000, 1700 * MIB);
    assert_in_range(h.steady, 1600 * MIB, 1800 * MIB);
    assert_int_equal(h.fell_from, 0);
}

/* A slow leak is no level for ever: it falls out of the one that was learned. */
static void leak(void **state) {
    (void)state;
    bool fell = false;
    for (int t = 0; t < 4000 && !fell; t++) {
        add(1000 + t * 1000, 3 * GIB - (uint64_t)t * MIB);
        fell = h.fell_from != 0;
    }
    assert_true(fell);
    assert_true(uma_guard_history_get(&h, 0)->available > GIB);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(empty, begin),      cmocka_unit_test_setup(rates, begin), cmocka_unit_test_setup(round_ring, begin),
        cmocka_unit_test_setup(gaps, begin),       cmocka_unit_test_setup(lists, begin), cmocka_unit_test_setup(counters, begin),
        cmocka_unit_test_setup(steady, begin),     cmocka_unit_test_setup(found, begin), cmocka_unit_test_setup(rises_out, begin),
        cmocka_unit_test_setup(comes_back, begin), cmocka_unit_test_setup(leak, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
