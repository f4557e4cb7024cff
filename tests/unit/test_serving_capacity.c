/* SPDX-License-Identifier: MIT */
#include "serving_models.h"

#include <errno.h>

static uint64_t device(const struct uma_model *model, const struct uma_serve *serve) {
    struct uma_estimate estimate = { 0 };
    struct uma_error err = { 0 };
    assert_int_equal(uma_plan_serve(model, serve, &estimate, &err), 0);
    return estimate.device;
}

/* The same numbers as the plan of that job. */
static void capacity_of_vllm(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_serve serve = { .engine = UMA_ENGINE_VLLM, .fraction = 0.9, .batched_tokens = 8192 };
    struct uma_error err = { 0 };
    uint64_t kv = 0, tokens = 0, sequences = 0;
    assert_int_equal(uma_serve_capacity(model, &serve, (uint64_t)(79.22 * (double)GIB), 8192, &kv, &tokens, &sequences, &err), 0);
    assert_within(kv, 53.29 * (double)GIB, 0.05);
    assert_int_equal(sequences, kv / GIB); /* 8192 tokens are 1 GiB */
    assert_within(tokens, (double)kv / 131072, 0.001);
    serve = (struct uma_serve){ .engine = UMA_ENGINE_LLAMA_CPP };
    assert_int_equal(uma_serve_capacity(model, &serve, 40 * GIB, 8192, &kv, &tokens, &sequences, &err), 0);
    assert_true(sequences > 15 && sequences < 25);
}

/* Numbers of a hostile file: sums end at the top and nothing wraps to a small one. */
static void absurd_models_do_not_wrap(void **state) {
    (void)state;
    static const enum uma_engine engines[] = { UMA_ENGINE_VLLM, UMA_ENGINE_SGLANG, UMA_ENGINE_TRT_LLM };
    _cleanup_model_ struct uma_model *model = llama_8b();
    model->vocab = UINT64_MAX;
    model->hidden = UINT32_MAX;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        model->layers[i].ffn = UMA_FFN_MOE;
        model->layers[i].ffn_size = model->layers[i].shared_ffn_size = UINT64_MAX;
        model->layers[i].experts = model->layers[i].experts_per_token = model->layers[i].heads = model->layers[i].head_dim = UINT32_MAX;
    }
    model->class_format[UMA_CLASS_EXPERTS] = UMA_FORMAT_MXFP4;
    for (unsigned c = 0; c < UMA_CLASS_COUNT; c++)
        model->totals[c] = (struct uma_tensor_total){ .params = UINT64_MAX, .bytes = UINT64_MAX };
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        struct uma_serve serve = {
            .engine = engines[i], .context = 4096, .tp = 4096, .pp = 32, .fraction = 0.9, .pool = UINT64_MAX, .mtp = true
        };
        assert_true(device(model, &serve) > UINT64_MAX / 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capacity_of_vllm),
        cmocka_unit_test(absurd_models_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
