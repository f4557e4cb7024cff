/* SPDX-License-Identifier: MIT */
#include "plan/fit.h"
#include "plan_configs.h"

#include "base/cleanup.h"

#define GIB (UINT64_C(1) << 30)

static struct uma_u64 known(uint64_t v) {
    return (struct uma_u64){ v, UMA_KNOWN };
}

static void the_larger_of_steady_and_load_decides(void **state) {
    (void)state;
    struct uma_estimate e = { .total = 50 * GIB, .low = 45 * GIB, .device = 60 * GIB, .device_high = 66 * GIB, .load.peak = 55 * GIB };
    struct uma_fit fit;
    uma_fit_judge(&e, known(70 * GIB), &fit);
    assert_int_equal(fit.fits, UMA_YES);
    assert_true(fit.need == 60 * GIB && !fit.load_decides && !fit.close && fit.margin == (int64_t)(10 * GIB));
    uma_fit_judge(&e, known(62 * GIB), &fit);
    assert_true(fit.fits == UMA_YES && fit.close);
    uma_fit_judge(&e, known(57 * GIB), &fit);
    assert_true(fit.fits == UMA_NO && fit.close && fit.margin == -(int64_t)(3 * GIB));
    uma_fit_judge(&e, known(50 * GIB), &fit);
    assert_true(fit.fits == UMA_NO && !fit.close);
    e.load.peak = 90 * GIB;
    uma_fit_judge(&e, known(70 * GIB), &fit);
    assert_true(fit.fits == UMA_NO && fit.load_decides && fit.need == 90 * GIB);
}

static void exactly_the_budget_fits_and_an_unknown_one_is_no_answer(void **state) {
    (void)state;
    struct uma_estimate e = { .device = GIB, .device_high = GIB };
    struct uma_fit fit;
    uma_fit_judge(&e, known(GIB), &fit);
    assert_true(fit.fits == UMA_YES && fit.margin == 0);
    uma_fit_judge(&e, known(GIB - 1), &fit);
    assert_true(fit.fits == UMA_NO && fit.margin == -1);
    uma_fit_judge(&e, (struct uma_u64){ 5 * GIB, UMA_FAILED }, &fit);
    assert_true(fit.fits == UMA_MAYBE && fit.margin == 0);
    e.device = e.device_high = UINT64_MAX;
    uma_fit_judge(&e, known(0), &fit);
    assert_true(fit.fits == UMA_NO && fit.margin == -INT64_MAX);
}

/* The limit fits and one step more does not. */
static void limits_are_the_edge(void **state) {
    (void)state;
    struct uma_model *model = config_model(LLAMA_8B);
    struct uma_plan_job job = { .train = { .method = UMA_METHOD_LORA, .batch = 2, .seq = 1024 } };
    uma_train_defaults(model, &job.train);
    struct uma_limits limits;
    uma_plan_limits(model, &job, known(60 * GIB), &limits);
    assert_true(uma_usable(limits.max_seq.validity) && uma_usable(limits.max_batch.validity));
    assert_int_equal(limits.max_seq.value % 128, 0);
    assert_false(uma_usable(limits.max_context.validity));
    for (int more = 0; more < 2; more++) {
        struct uma_plan_job changed = job;
        struct uma_estimate e;
        struct uma_fit fit;
        changed.train.seq = limits.max_seq.value + (more ? 128u : 0u);
        assert_int_equal(uma_plan_job_estimate(model, &changed, &e, NULL), 0);
        uma_fit_judge(&e, known(60 * GIB), &fit);
        assert_int_equal(fit.fits, more ? UMA_NO : UMA_YES);
        changed = job;
        changed.train.batch = limits.max_batch.value + (more ? 1u : 0u);
        assert_int_equal(uma_plan_job_estimate(model, &changed, &e, NULL), 0);
        uma_fit_judge(&e, known(60 * GIB), &fit);
        assert_int_equal(fit.fits, more ? UMA_NO : UMA_YES);
    }
    (void)uma_model_free(model);
}

static void limits_of_engines_are_the_edge(void **state) {
    (void)state;
    static const enum uma_engine engines[] = { UMA_ENGINE_VLLM, UMA_ENGINE_SGLANG, UMA_ENGINE_TRT_LLM, UMA_ENGINE_LLAMA_CPP };
    struct uma_model *model = config_model(LLAMA_8B);
    for (size_t i = 0; i < ELEMENTS(engines); i++) {
        struct uma_plan_job job = { .serving = true, .serve = { .engine = engines[i], .context = 4096, .sequences = 2, .gpu_layers = -1 } };
        struct uma_limits limits;
        uma_serve_defaults(model, &job.serve);
        uma_plan_limits(model, &job, known(32 * GIB), &limits);
        assert_true(limits.max_context.value > 4096 && limits.max_context.value < 131072 && limits.max_sequences.value > 2);
        for (unsigned more = 0; more < 2; more++) {
            struct uma_plan_job longer = job, wider = job;
            struct uma_estimate e;
            struct uma_fit fit;
            uma_plan_job_set_length(&longer, limits.max_context.value + 128 * more);
            uma_plan_job_set_sequences(&wider, limits.max_sequences.value + more);
            assert_int_equal(uma_plan_job_estimate(model, &longer, &e, NULL), 0);
            uma_fit_judge(&e, known(32 * GIB), &fit);
            assert_int_equal(fit.fits, more ? UMA_NO : UMA_YES);
            assert_int_equal(uma_plan_job_estimate(model, &wider, &e, NULL), 0);
            uma_fit_judge(&e, known(32 * GIB), &fit);
            assert_int_equal(fit.fits, more ? UMA_NO : UMA_YES);
        }
    }
    (void)uma_model_free(model);
}

static void no_limit_where_nothing_fits_or_nothing_is_known(void **state) {
    (void)state;
    struct uma_model *model = config_model(LLAMA_8B);
    struct uma_plan_job job = { .serving = true, .serve = { .engine = UMA_ENGINE_LLAMA_CPP, .gpu_layers = -1 } };
    uma_serve_defaults(model, &job.serve);
    struct uma_limits limits;
    uma_plan_limits(model, &job, known(GIB), &limits);
    assert_false(uma_usable(limits.max_context.validity) || uma_usable(limits.max_sequences.validity));
    uma_plan_limits(model, &job, (struct uma_u64){ 0 }, &limits);
    assert_false(uma_usable(limits.max_context.validity));
    uma_plan_limits(model, &job, known(1000 * GIB), &limits);
    assert_int_equal(limits.max_context.value, 131072); /* the model's own length ends it, not the memory */
    (void)uma_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_larger_of_steady_and_load_decides),
        cmocka_unit_test(exactly_the_budget_fits_and_an_unknown_one_is_no_answer),
        cmocka_unit_test(limits_are_the_edge),
        cmocka_unit_test(limits_of_engines_are_the_edge),
        cmocka_unit_test(no_limit_where_nothing_fits_or_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
