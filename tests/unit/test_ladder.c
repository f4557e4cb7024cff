/* SPDX-License-Identifier: MIT */
#include "plan/ladder.h"
#include "plan_configs.h"

#define GIB (UINT64_C(1) << 30)

static struct uma_u64 known(uint64_t v) {
    return (struct uma_u64){ v, UMA_KNOWN };
}

static void rungs_come_in_order_and_each_saves(void **state) {
    (void)state;
    struct uma_model *model = config_model(LLAMA_70B);
    struct uma_plan_job job = { .train = { .method = UMA_METHOD_LORA, .batch = 8, .seq = 4096, .loss = UMA_LOSS_FULL } };
    struct uma_ladder ladder;
    uma_ladder_climb(model, &job, known(36 * GIB), known(4 * GIB), known(98 * GIB), &ladder);
    assert_true(ladder.count >= 5);
    assert_int_equal(ladder.advice[0].rung, UMA_RUNG_FLUSH);
    assert_true(ladder.advice[0].saves == 98 * GIB);
    unsigned seen = 0;
    for (uint32_t i = 1; i < ladder.count; i++) {
        assert_true(ladder.advice[i].rung >= ladder.advice[i - 1].rung);
        assert_true(ladder.advice[i].saves > 0);
        assert_true(ladder.advice[i].rung == UMA_RUNG_MODEL ||
                    ladder.advice[i].then_need + ladder.advice[i].saves == ladder.advice[i - 1].then_need);
        seen |= 1u << ladder.advice[i].rung;
    }
    assert_true(seen & 1u << UMA_RUNG_LENGTH && seen & 1u << UMA_RUNG_BATCH && seen & 1u << UMA_RUNG_METHOD);
    (void)uma_model_free(model);
}

/* bf16 LoRA is advised before QLoRA, and the packing length before the batch. */
static void lora_before_qlora(void **state) {
    (void)state;
    struct uma_model *model = config_model(LLAMA_8B);
    struct uma_plan_job job = { .train = { .method = UMA_METHOD_FULL, .batch = 32, .seq = 4096, .loss = UMA_LOSS_FULL } };
    struct uma_ladder ladder;
    uma_ladder_climb(model, &job, known(8 * GIB), (struct uma_u64){ 0 }, (struct uma_u64){ 0 }, &ladder);
    int lora = -1, qlora = -1, length = -1, batch = -1;
    for (int i = 0; i < (int)ladder.count; i++) {
        const char *action = ladder.advice[i].action;
        if (strstr(action, "--method lora"))
            lora = i;
        if (strstr(action, "--method qlora"))
            qlora = i;
        if (ladder.advice[i].rung == UMA_RUNG_LENGTH)
            length = i;
        if (ladder.advice[i].rung == UMA_RUNG_BATCH)
            batch = i;
    }
    assert_true(length == 0); /* no machine was read, so nothing to flush; the batch is never the first step */
    assert_true(lora > length && qlora > lora && (batch < 0 || batch > length));
    (void)uma_model_free(model);
}

static void what_fits_needs_no_advice(void **state) {
    (void)state;
    struct uma_model *model = config_model(LLAMA_8B);
    struct uma_plan_job job = { .train = { .method = UMA_METHOD_QLORA, .batch = 1, .seq = 1024 } };
    struct uma_ladder ladder;
    uma_ladder_climb(model, &job, known(110 * GIB), known(100 * GIB), known(10 * GIB), &ladder);
    assert_int_equal(ladder.count, 0);
    /* but free memory that is all page cache is worth a flush even then: CUDA allocates from MemFree */
    uma_ladder_climb(model, &job, known(110 * GIB), known(2 * GIB), known(105 * GIB), &ladder);
    assert_int_equal(ladder.count, 1);
    assert_int_equal(ladder.advice[0].rung, UMA_RUNG_FLUSH);
    uma_ladder_climb(model, &job, (struct uma_u64){ 0 }, known(2 * GIB), known(105 * GIB), &ladder);
    assert_int_equal(ladder.count, 0);
    (void)uma_model_free(model);
}

/* 2 x 16 GB while loading, 17 GB afterwards: sizes cannot help. */
static void a_training_job_that_loads_twice_changes_its_loader(void **state) {
    (void)state;
    struct uma_model *model = config_model(LLAMA_8B);
    struct uma_plan_job job = { .train = { .method = UMA_METHOD_LORA, .batch = 1, .seq = 1024, .loader = UMA_LOADER_EAGER } };
    struct uma_ladder ladder;
    uma_ladder_climb(model, &job, known(28 * GIB), (struct uma_u64){ 0 }, (struct uma_u64){ 0 }, &ladder);
    assert_true(ladder.count >= 1);
    assert_int_equal(ladder.advice[0].rung, UMA_RUNG_LOADER);
    assert_non_null(strstr(ladder.advice[0].action, "--load streamed"));
    assert_true(ladder.advice[0].then_fits);
    (void)uma_model_free(model);
}

static void a_server_shortens_its_context_first(void **state) {
    (void)state;
    struct uma_model *model = config_model(LLAMA_8B);
    struct uma_plan_job job = { .serving = true,
                                .serve = { .engine = UMA_ENGINE_LLAMA_CPP, .context = 131072, .sequences = 4, .gpu_layers = -1 } };
    struct uma_ladder ladder;
    uma_ladder_climb(model, &job, known(24 * GIB), (struct uma_u64){ 0 }, (struct uma_u64){ 0 }, &ladder);
    assert_true(ladder.count > 0);
    assert_int_equal(ladder.advice[0].rung, UMA_RUNG_LENGTH);
    assert_true(ladder.advice[ladder.count - 1].then_fits);
    (void)uma_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rungs_come_in_order_and_each_saves),  cmocka_unit_test(lora_before_qlora),
        cmocka_unit_test(what_fits_needs_no_advice),           cmocka_unit_test(a_training_job_that_loads_twice_changes_its_loader),
        cmocka_unit_test(a_server_shortens_its_context_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
