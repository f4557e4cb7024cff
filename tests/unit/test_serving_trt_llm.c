/* SPDX-License-Identifier: MIT */
#include "serving_models.h"

#include <errno.h>

/* Maximum sequences of Llama-3.1-8B in bf16 as published with AIConfigurator (tests/integration/test_trtllm_kv_cache_capacity.py). */
static void published_capacities(void **state) {
    (void)state;
    static const struct {
        double pool_gib, fraction;
        uint32_t tp;
        uint64_t max_seq_len, tokens, sequences;
    } rows[] = {
        { 79.11, 0.8, 1, 5096, 4096, 78 },  { 79.11, 0.8, 2, 5096, 4096, 173 },  { 79.11, 0.8, 4, 9192, 8192, 201 },
        { 276.5, 0.8, 1, 7144, 8192, 235 }, { 276.5, 0.9, 4, 5096, 4096, 1542 }, { 276.5, 0.9, 2, 9192, 8192, 423 },
    };
    _cleanup_model_ struct uma_model *model = llama_8b();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct uma_serve serve = {
            .engine = UMA_ENGINE_TRT_LLM, .tp = rows[i].tp, .fraction = rows[i].fraction, .batched_tokens = rows[i].tokens
        };
        uint64_t kv = 0, tokens = 0, sequences = 0;
        struct uma_error err = { 0 };
        assert_int_equal(uma_serve_capacity(model, &serve, (uint64_t)(rows[i].pool_gib * (double)GIB), rows[i].max_seq_len, &kv, &tokens,
                                            &sequences, &err),
                         0);
        assert_within(sequences, rows[i].sequences, 0.02);
        assert_true(tokens >= sequences * rows[i].max_seq_len);
        assert_true(kv >= sequences * rows[i].max_seq_len * 131072 / rows[i].tp);
    }
}

/* The fraction is of what is free AFTER the weights: halving it halves the cache and nothing else. */
static void the_fraction_is_of_what_is_free(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_serve serve = { .engine = UMA_ENGINE_TRT_LLM, .context = 4096, .fraction = 0.8, .pool = 120 * GIB };
    struct uma_estimate whole = { 0 }, half = { 0 };
    struct uma_error err = { 0 };
    assert_int_equal(uma_plan_serve(model, &serve, &whole, &err), 0);
    serve.fraction = 0.4;
    assert_int_equal(uma_plan_serve(model, &serve, &half, &err), 0);
    assert_within(half.groups[UMA_TERM_KV_CACHE], (double)whole.groups[UMA_TERM_KV_CACHE] / 2, 0.0001);
    assert_int_equal(half.groups[UMA_TERM_WEIGHTS], whole.groups[UMA_TERM_WEIGHTS]);
    assert_true(has_flag(&half, "--max_seq_len 4096"));
    assert_true(has_flag(&half, "--kv_cache_free_gpu_memory_fraction 0.40"));
    assert_true(has_warning(&half, "AFTER the weights"));
}

static void nothing_left_is_no_sequences(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_serve serve = { .engine = UMA_ENGINE_TRT_LLM, .fraction = 0.9 };
    uint64_t kv = 1, tokens = 1, sequences = 1;
    struct uma_error err = { 0 };
    assert_int_equal(uma_serve_capacity(model, &serve, 8 * GIB, 4096, &kv, &tokens, &sequences, &err), 0);
    assert_int_equal(kv + tokens + sequences, 0);
    serve.fraction = 2;
    assert_int_equal(uma_serve_capacity(model, &serve, 80 * GIB, 4096, &kv, &tokens, &sequences, &err), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_capacities),
        cmocka_unit_test(the_fraction_is_of_what_is_free),
        cmocka_unit_test(nothing_left_is_no_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
