/* SPDX-License-Identifier: MIT */
#include "valve/held.h"

#include <pthread.h>
#include <stdlib.h>

#include "test.h"

static struct uma_valve_held *held;

static int begin(void **state) {
    (void)state;
    held = calloc(1, uma_valve_held_size());
    return held ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    free(held); /* its tables stay: a process has one for as long as it lives */
    return 0;
}

static uint64_t put(enum uma_valve_kind kind, uint64_t key, uint64_t size, uint32_t context) {
    struct uma_valve_holding h = { .key = key, .size = size, .context = context, .kind = (uint16_t)kind, .users = 1 };
    uint64_t before;
    assert_true(uma_valve_held_put(held, &h, &before));
    return before;
}

static void puts_and_takes(void **state) {
    (void)state;
    struct uma_valve_holding h;
    assert_false(uma_valve_held_find(held, UMA_VALVE_DEVICE, 0x1000, &h));
    assert_int_equal(put(UMA_VALVE_DEVICE, 0x1000, 7, 0), 0);
    assert_int_equal(put(UMA_VALVE_HOST, 0x1000, 8, 0), 0); /* the same address, of another kind */
    assert_int_equal(put(UMA_VALVE_DEVICE, 0x1000, 9, 0), 7);
    assert_true(uma_valve_held_take(held, UMA_VALVE_DEVICE, 0x1000, &h));
    assert_int_equal(h.size, 9);
    assert_false(uma_valve_held_take(held, UMA_VALVE_DEVICE, 0x1000, &h));
    assert_true(uma_valve_held_find(held, UMA_VALVE_HOST, 0x1000, &h));
    assert_int_equal(h.size, 8);
    assert_false(uma_valve_held_find(held, UMA_VALVE_HOST, 0, &h));
}

/* Against a plain list, by a fixed sequence of numbers: what is put in is found until it is taken out, whatever lies between. */
static void as_a_list(void **state) {
    (void)state;
    enum { KEYS = 5000, STEPS = 200000 };
    uint64_t *sizes = calloc(KEYS, sizeof(*sizes));
    uint32_t x = 12345;
    assert_non_null(sizes);
    for (int i = 0; i < STEPS; i++) {
        x = x * 1664525 + 1013904223;
        unsigned key = x >> 8 & 8191;
        if (key >= KEYS)
            continue;
        struct uma_valve_holding h = { 0 };
        if (x >> 31) {
            sizes[key] = (x >> 4 & 0xffff) + 1;
            (void)put(UMA_VALVE_DEVICE, (key + 1) * UINT64_C(0x200000), sizes[key], 0);
        } else {
            bool there = uma_valve_held_take(held, UMA_VALVE_DEVICE, (key + 1) * UINT64_C(0x200000), &h);
            assert_int_equal(there, sizes[key] != 0);
            assert_int_equal(h.size, sizes[key]);
            sizes[key] = 0;
        }
    }
    for (unsigned key = 0; key < KEYS; key++) {
        struct uma_valve_holding h = { 0 };
        assert_int_equal(uma_valve_held_find(held, UMA_VALVE_DEVICE, (key + 1) * UINT64_C(0x200000), &h), sizes[key] != 0);
        assert_int_equal(h.size, sizes[key]);
    }
    free(sizes);
}

static void handles(void **state) {
    (void)state;
    uint64_t size;
    (void)put(UMA_VALVE_HANDLE, 42, 100, 0);
    assert_true(uma_valve_held_use(held, 42, 1, &size)); /* mapped */
    assert_int_equal(size, 0);
    assert_true(uma_valve_held_use(held, 42, -1, &size)); /* released: the mapping keeps it */
    assert_int_equal(size, 0);
    assert_true(uma_valve_held_use(held, 42, -1, &size));
    assert_int_equal(size, 100);
    assert_false(uma_valve_held_use(held, 42, -1, &size));
}

static void resizes(void **state) {
    (void)state;
    uint64_t before;
    assert_false(uma_valve_held_resize(held, UMA_VALVE_POOL, 5, 1, &before));
    (void)put(UMA_VALVE_POOL, 5, 10, 0);
    assert_true(uma_valve_held_resize(held, UMA_VALVE_POOL, 5, 30, &before));
    assert_int_equal(before, 10);
}

static void contexts(void **state) {
    (void)state;
    struct uma_valve_holding h;
    for (uint64_t i = 1; i <= 3000; i++)
        (void)put(UMA_VALVE_DEVICE, i << 21, 1, 1 + (uint32_t)(i % 3));
    (void)put(UMA_VALVE_MAPPING, 7, 1000, 2); /* has no bytes of its own */
    struct uma_valve_holding module = { .key = 77, .size = 5, .context = 2, .kind = UMA_VALVE_MODULE };
    struct uma_valve_dropped d;
    assert_true(uma_valve_held_put(held, &module, &(uint64_t){ 0 }));
    d = uma_valve_held_drop_context(held, 0);
    assert_int_equal(d.bytes, 0);
    assert_int_equal(d.overhead, 0);
    /* one that may be ending, and does not; and what comes into another of the same number meanwhile stays when it does */
    uma_valve_held_move_context(held, 2, 9);
    d = uma_valve_held_drop_context(held, 2);
    assert_int_equal(d.bytes, 0);
    uma_valve_held_move_context(held, 9, 2);
    uma_valve_held_move_context(held, 2, 9);
    (void)put(UMA_VALVE_HOST, 5, 3, 2);
    struct uma_valve_holding managed = { .key = 99, .size = 7, .context = 9, .kind = UMA_VALVE_DEVICE, .other = true };
    assert_true(uma_valve_held_put(held, &managed, &(uint64_t){ 0 }));
    d = uma_valve_held_drop_context(held, 9);
    assert_int_equal(d.bytes, 1007);
    assert_int_equal(d.managed, 7);
    assert_int_equal(d.overhead, 5);
    d = uma_valve_held_drop_context(held, 2);
    assert_int_equal(d.bytes, 3);
    (void)put(UMA_VALVE_HOST, 5, 1000, 2);
    uma_valve_held_move_context(held, 0, 9);
    assert_true(uma_valve_held_put(held, &module, &(uint64_t){ 0 }));
    d = uma_valve_held_drop_context(held, 2);
    assert_int_equal(d.bytes, 1000);
    assert_int_equal(d.overhead, 5);
    d = uma_valve_held_drop_context(held, 2);
    assert_int_equal(d.bytes, 0);
    assert_int_equal(d.overhead, 0);
    for (uint64_t i = 1; i <= 3000; i++)
        assert_int_equal(uma_valve_held_find(held, UMA_VALVE_DEVICE, i << 21, &h), i % 3 != 1);
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *work(void *userdata) {
    uint64_t base = *(uint64_t *)userdata, wrong = 0;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        struct uma_valve_holding h = { .key = base + i, .size = i, .kind = UMA_VALVE_DEVICE };
        uint64_t before;
        wrong += !uma_valve_held_put(held, &h, &before) || before;
        if (i > 50)
            wrong += !uma_valve_held_take(held, UMA_VALVE_DEVICE, base + i - 50, &h) || h.size != i - 50;
    }
    *(uint64_t *)userdata = wrong;
    return NULL;
}

static void threads(void **state) {
    (void)state;
    pthread_t ids[THREADS];
    uint64_t bases[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        bases[i] = (uint64_t)(i + 1) << 32;
        assert_int_equal(pthread_create(&ids[i], NULL, work, &bases[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        assert_int_equal(bases[i], 0);
    }
    assert_int_equal(uma_valve_held_lost(held), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(puts_and_takes, begin, end), cmocka_unit_test_setup_teardown(as_a_list, begin, end),
        cmocka_unit_test_setup_teardown(handles, begin, end),        cmocka_unit_test_setup_teardown(resizes, begin, end),
        cmocka_unit_test_setup_teardown(contexts, begin, end),       cmocka_unit_test_setup_teardown(threads, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
