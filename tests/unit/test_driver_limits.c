/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "observe/driver_limits.h"
#include "observe/gpu_probe_protocol.h"
#include "observe/nvml_abi.h"

#include <string.h>

#define GPUS 3

static uint8_t message[sizeof(struct probe_answer) + GPUS * sizeof(struct probe_limits)];

static size_t answer(uint32_t state, int32_t code, unsigned n, const int32_t *statuses) {
    struct probe_answer a = { .state = state, .code = code, .n_gpus = n };
    (void)strcpy(a.detail, "why");
    (void)strcpy(a.driver, "615.10");
    (void)memcpy(message, &a, sizeof(a));
    for (unsigned i = 0; i < n; i++) {
        struct probe_limits one = { .status = statuses[i], .soft = i, .hard = 100 + i, .used = 10 + i };
        (void)memcpy(message + sizeof(a) + i * sizeof(one), &one, sizeof(one));
    }
    return sizeof(a) + n * sizeof(struct probe_limits);
}

static void one_state_for_all_gpus_is_the_worst(void **state) {
    (void)state;
    static const struct {
        int32_t statuses[GPUS];
        enum uma_driver_limits_state expected;
    } cases[] = { { { NVML_OK, NVML_OK, NVML_OK }, UMA_DRIVER_LIMITS_DONE },
                  { { NVML_OK, NVML_NOT_FOUND, NVML_OK }, UMA_DRIVER_LIMITS_UNSET },
                  { { NVML_NOT_SUPPORTED, NVML_NOT_FOUND, NVML_OK }, UMA_DRIVER_LIMITS_UNSUPPORTED },
                  { { NVML_FUNCTION_NOT_FOUND, NVML_OK, NVML_OK }, UMA_DRIVER_LIMITS_UNSUPPORTED },
                  { { NVML_NOT_SUPPORTED, NVML_NO_PERMISSION, NVML_OK }, UMA_DRIVER_LIMITS_DENIED },
                  { { NVML_OK, NVML_OK, NVML_GPU_IS_LOST }, UMA_DRIVER_LIMITS_FAILED },
                  { { NVML_OK, -7, NVML_OK }, UMA_DRIVER_LIMITS_FAILED } };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_driver_limits limits;
        assert_int_equal(uma_driver_limits_parse(message, answer(PROBE_READ, 0, GPUS, cases[i].statuses), &limits), 0);
        assert_int_equal(limits.state, cases[i].expected);
        assert_int_equal(limits.n, GPUS);
        assert_int_equal(limits.gpus[2].hard, 102);
        assert_int_equal(limits.gpus[1].soft, 1);
        assert_int_equal(limits.gpus[1].used, 11);
        assert_string_equal(limits.driver, "615.10");
        assert_string_equal(limits.detail, cases[i].expected == UMA_DRIVER_LIMITS_DONE ? "" : "why");
    }
}

static void how_far_the_probe_came(void **state) {
    (void)state;
    static const struct {
        uint32_t state;
        int32_t code;
        enum uma_driver_limits_state expected;
        const char *word;
    } cases[] = { { PROBE_NO_LIBRARY, 0, UMA_DRIVER_LIMITS_NO_LIBRARY, "no-library" },
                  { PROBE_NOT_NVML, 0, UMA_DRIVER_LIMITS_FAILED, "failed" },
                  { PROBE_INIT_FAILED, NVML_DRIVER_NOT_LOADED, UMA_DRIVER_LIMITS_NO_DRIVER, "no-driver" },
                  { PROBE_INIT_FAILED, NVML_NO_PERMISSION, UMA_DRIVER_LIMITS_DENIED, "no-permission" },
                  { PROBE_COUNT_FAILED, 1, UMA_DRIVER_LIMITS_FAILED, "failed" },
                  { PROBE_NO_SYMBOLS, NVML_FUNCTION_NOT_FOUND, UMA_DRIVER_LIMITS_NO_SYMBOLS, "no-symbols" },
                  { PROBE_READ, 0, UMA_DRIVER_LIMITS_NO_GPU, "no-gpu" } };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_driver_limits limits;
        assert_int_equal(uma_driver_limits_parse(message, answer(cases[i].state, cases[i].code, 0, NULL), &limits), 0);
        assert_int_equal(limits.state, cases[i].expected);
        assert_string_equal(uma_driver_limits_word(limits.state), cases[i].word);
        assert_true(limits.detail[0]);
    }
}

static void what_is_no_answer(void **state) {
    (void)state;
    static const int32_t ok[GPUS] = { 0 };
    struct uma_driver_limits limits = { .n = 77 };
    size_t n = answer(PROBE_READ, 0, 2, ok);
    assert_int_equal(uma_driver_limits_parse(message, n - 1, &limits), -EPROTO);
    assert_int_equal(uma_driver_limits_parse(message, n + 1, &limits), -EPROTO);
    assert_int_equal(uma_driver_limits_parse(message, 0, &limits), -EPROTO);
    assert_int_equal(uma_driver_limits_parse(message, answer(PROBE_NO_SYMBOLS + 1, 0, 0, NULL), &limits), -EPROTO);
    assert_int_equal(uma_driver_limits_parse(message, answer(PROBE_NO_SYMBOLS, 0, 1, ok), &limits), -EPROTO);
    n = answer(PROBE_READ, 0, 2, ok);
    struct probe_answer a;
    (void)memcpy(&a, message, sizeof(a));
    a.n_gpus = UMA_GPUS_MAX + 1;
    (void)memcpy(message, &a, sizeof(a));
    assert_int_equal(uma_driver_limits_parse(message, n, &limits), -EPROTO);
    assert_int_equal(limits.n, 77);
    /* text without an end */
    n = answer(PROBE_INIT_FAILED, 9, 0, NULL);
    (void)memset(message + offsetof(struct probe_answer, detail), 'x', 256 + 80);
    assert_int_equal(uma_driver_limits_parse(message, n, &limits), 0);
    assert_int_equal(strlen(limits.detail), sizeof(limits.detail) - 1);
    assert_int_equal(strlen(limits.driver), sizeof(limits.driver) - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_state_for_all_gpus_is_the_worst), cmocka_unit_test(how_far_the_probe_came),
                                        cmocka_unit_test(what_is_no_answer) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
