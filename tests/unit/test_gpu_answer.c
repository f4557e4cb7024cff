/* SPDX-License-Identifier: MIT */
/* The probe's answer as bytes: what is well formed is taken, anything else refused as a whole. */
#include "test.h"

#include "base/units.h"
#include "observe/gpu_probe.h"
#include "observe/gpu_probe_protocol.h"

#include <stdio.h>
#include <string.h>

struct message {
    struct probe_answer answer;
    struct probe_gpu gpus[2];
    struct probe_process processes[3];
};

static struct message good(void) {
    struct message m = { .answer = { .n_gpus = 2, .n_processes = 3, .driver = "580.95.05" } };
    for (int i = 0; i < 2; i++) {
        (void)strcpy(m.gpus[i].name, "NVIDIA GB10");
        m.gpus[i].numa_node = -1;
        m.gpus[i].processes_validity = UMA_KNOWN;
        m.gpus[i].n_processes = i ? 1 : 2;
        m.gpus[i].numbers[PROBE_CELSIUS] = (struct probe_value){ .bits = (uint64_t)-5, .validity = UMA_KNOWN };
        m.gpus[i].numbers[PROBE_UTILIZATION] = (struct probe_value){ .bits = 100, .validity = UMA_KNOWN };
    }
    for (int i = 0; i < 3; i++)
        m.processes[i] = (struct probe_process){ .pid = 30 - i, .bytes = { .bits = 4096, .validity = UMA_KNOWN } };
    return m;
}

static struct uma_arena *arena;

static int parse(const void *data, size_t length, struct uma_gpus *ret) {
    struct uma_error err = { 0 };
    /* in a block of its very size, so that the sanitizer sees a read past its end */
    uint8_t *copy = malloc(length ? length : 1);
    assert_non_null(copy);
    (void)memcpy(copy, data, length);
    uma_arena_reset(arena);
    int r = uma_probe_answer_parse(copy, length, arena, ret, &err);
    free(copy);
    assert_true(r == 0 || err.text[0]);
    return r;
}

static void whole(void **state) {
    (void)state;
    struct message m = good();
    struct uma_gpus gpus;
    assert_int_equal(parse(&m, sizeof(m), &gpus), 0);
    assert_int_equal(gpus.n, 2);
    assert_int_equal(gpus.source.validity, UMA_KNOWN);
    assert_string_equal(gpus.driver, "580.95.05");
    assert_int_equal(gpus.list[0].n_processes, 2);
    assert_int_equal(gpus.list[0].processes[0].pid, 29); /* sorted */
    assert_int_equal(gpus.list[1].processes[0].pid, 28);
    assert_true(gpus.list[0].celsius.value == -5);
    assert_true(gpus.list[1].utilization.value == 1);
    assert_null(gpus.list[0].uuid);
}

static void cut(void **state) {
    (void)state;
    struct message m = good();
    struct uma_gpus gpus = { .n = 77 };
    for (size_t n = 0; n < sizeof(m); n++)
        assert_int_equal(parse(&m, n, &gpus), -EPROTO);
    uint8_t longer[sizeof(m) + 1] = { 0 };
    (void)memcpy(longer, &m, sizeof(m));
    assert_int_equal(parse(longer, sizeof(longer), &gpus), -EPROTO);
    assert_int_equal(gpus.n, 77); /* untouched */
}

static void counts(void **state) {
    (void)state;
    struct uma_gpus gpus;
    struct message m = good();
    m.answer.n_gpus = UINT32_MAX;
    assert_int_equal(parse(&m, sizeof(m), &gpus), -EPROTO);
    m = good();
    m.answer.n_processes = UINT32_MAX;
    assert_int_equal(parse(&m, sizeof(m), &gpus), -EPROTO);
    m = good();
    m.answer.state = 99;
    assert_int_equal(parse(&m, sizeof(m), &gpus), -EPROTO);
    m = good();
    m.gpus[0].n_processes = 4; /* more than there are */
    assert_int_equal(parse(&m, sizeof(m), &gpus), -EPROTO);
    m.gpus[0].n_processes = UINT32_MAX;
    assert_int_equal(parse(&m, sizeof(m), &gpus), -EPROTO);
    m = good();
    m.gpus[1].n_processes = 0; /* one of no GPU is left */
    assert_int_equal(parse(&m, sizeof(m), &gpus), -EPROTO);
}

static void values(void **state) {
    (void)state;
    struct uma_gpus gpus;
    struct message m = good();
    (void)memset(m.gpus[0].name, 'x', sizeof(m.gpus[0].name)); /* no terminator */
    m.gpus[0].numbers[PROBE_CELSIUS].validity = 12345;
    m.gpus[0].numbers[PROBE_PSTATE] = (struct probe_value){ .bits = 3, .validity = UMA_STALE }; /* not the probe's to say */
    m.gpus[0].numa_node = -2000000000;
    m.gpus[0].unified = 17;
    m.gpus[0].processes_validity = 400;
    m.processes[0].pid = -1;
    m.gpus[1].numbers[PROBE_CONTAINER_LIMIT].validity = UMA_UNLIMITED;
    assert_int_equal(parse(&m, sizeof(m), &gpus), 0);
    assert_int_equal(strlen(gpus.list[0].name), sizeof(m.gpus[0].name));
    assert_int_equal(gpus.list[0].celsius.validity, UMA_MALFORMED);
    assert_int_equal(gpus.list[0].pstate.validity, UMA_MALFORMED);
    assert_int_equal(gpus.list[0].numa_node, -1);
    assert_int_equal(gpus.list[0].unified, UMA_MAYBE);
    assert_int_equal(gpus.list[0].processes_validity, UMA_MALFORMED);
    assert_int_equal(gpus.list[0].n_processes, 1);
    assert_int_equal(gpus.list[1].container_limit.validity, UMA_UNLIMITED);
    m.processes[0].pid = UMA_PID_MAX + 1; /* no kernel gives it: a process of that number is nobody's */
    assert_int_equal(parse(&m, sizeof(m), &gpus), 0);
    assert_int_equal(gpus.list[0].n_processes, 1);
    m.processes[0].pid = UMA_PID_MAX;
    assert_int_equal(parse(&m, sizeof(m), &gpus), 0);
    assert_int_equal(gpus.list[0].n_processes, 2);
}

static void states(void **state) {
    (void)state;
    static const struct {
        uint32_t state;
        int32_t code;
        enum uma_validity validity;
    } cases[] = {
        { PROBE_NO_LIBRARY, 0, UMA_ABSENT },   { PROBE_NOT_NVML, 0, UMA_FAILED },     { PROBE_INIT_FAILED, 9, UMA_ABSENT },
        { PROBE_INIT_FAILED, 18, UMA_FAILED }, { PROBE_INIT_FAILED, 4, UMA_DENIED },  { PROBE_INIT_FAILED, 28, UMA_ABSENT },
        { PROBE_COUNT_FAILED, 1, UMA_FAILED }, { PROBE_INIT_FAILED, 17, UMA_DENIED },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct probe_answer answer = { .state = cases[i].state, .code = cases[i].code };
        (void)memset(answer.detail, '\xff', sizeof(answer.detail));
        struct uma_gpus gpus;
        assert_int_equal(parse(&answer, sizeof(answer), &gpus), 0);
        assert_int_equal(gpus.source.validity, cases[i].validity);
        assert_non_null(strstr(gpus.source.detail, "\\xff\\xff"));
        assert_int_equal(gpus.n, 0);
    }
}

/* Every known number becomes stale; compared against the JSON names would miss a field that is added later, so count the bytes that
 * change. */
static void stale(void **state) {
    (void)state;
    struct message m = good();
    for (int i = 0; i < PROBE_NUMBERS; i++)
        m.gpus[0].numbers[i] = (struct probe_value){ .bits = 1, .validity = UMA_KNOWN };
    struct uma_gpus gpus;
    assert_int_equal(parse(&m, sizeof(m), &gpus), 0);
    const struct uma_gpu *gpu = &gpus.list[0];
    struct uma_gpu before = *gpu;
    uma_gpus_make_stale(&gpus);
    size_t changed = 0;
    for (size_t i = 0; i < sizeof(before); i++)
        changed += ((const uint8_t *)&before)[i] != ((const uint8_t *)gpu)[i];
    assert_int_equal(changed, PROBE_NUMBERS + 1); /* each number's validity, and the list's */
    assert_int_equal(gpu->processes[0].bytes.validity, UMA_STALE);
    assert_int_equal(gpu->vram_used.validity, UMA_ABSENT);
}

static int make_arena(void **state) {
    (void)state;
    arena = uma_arena_new(64 * UMA_MIB);
    return arena ? 0 : -1;
}

static int drop_arena(void **state) {
    (void)state;
    arena = uma_arena_free(arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(whole),  cmocka_unit_test(cut),    cmocka_unit_test(counts),
                                        cmocka_unit_test(values), cmocka_unit_test(states), cmocka_unit_test(stale) };
    return cmocka_run_group_tests_name("gpu_answer", tests, make_arena, drop_arena);
}
