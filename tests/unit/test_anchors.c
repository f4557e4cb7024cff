/* SPDX-License-Identifier: MIT */
#include "plan/anchors.h"
#include "plan/names.h"
#include "plan/worksheet.h"
#include "plan_configs.h"

static void the_nearest_of_the_same_class(void **state) {
    (void)state;
    struct uma_model *large = config_model(LLAMA_70B), *small = config_model(LLAMA_8B);
    struct uma_plan_job job = { .train.method = UMA_METHOD_QLORA };
    const struct uma_anchor *anchor = uma_anchor_nearest(large, &job);
    assert_non_null(anchor);
    assert_string_equal(anchor->name, "70B QLoRA");
    assert_null(uma_anchor_nearest(small, &job)); /* eight billion are no seventy */
    job.train.method = UMA_METHOD_FULL;
    anchor = uma_anchor_nearest(small, &job);
    assert_non_null(anchor);
    assert_string_equal(anchor->name, "9B full fine-tune");
    job.serving = true;
    assert_null(uma_anchor_nearest(small, &job));
    size_t n;
    const struct uma_anchor *all = uma_anchors(&n);
    assert_true(n >= 5);
    for (size_t i = 0; i < n; i++)
        assert_true(all[i].bytes > 0 && all[i].condition && all[i].source);
    (void)uma_model_free(large);
    (void)uma_model_free(small);
}

/* The sheet's own example: 70B in bf16 is about 140 GB, in four bits about 35. */
static void the_sheet_multiplies(void **state) {
    (void)state;
    struct uma_model *model = config_model(LLAMA_70B);
    struct uma_worksheet sheet;
    uma_worksheet_build(model, &(struct uma_train){ .method = UMA_METHOD_LORA }, &sheet);
    assert_true(sheet.weights > UINT64_C(137000000000) && sheet.weights < UINT64_C(139000000000));
    assert_int_equal(sheet.optimizer, 0);
    uma_worksheet_build(model, &(struct uma_train){ .method = UMA_METHOD_QLORA }, &sheet);
    assert_true(sheet.total > UINT64_C(34000000000) && sheet.total < UINT64_C(35000000000));
    uma_worksheet_build(model, &(struct uma_train){ .method = UMA_METHOD_FULL, .optimizer = UMA_OPTIMIZER_ADAMW_8BIT }, &sheet);
    assert_true(sheet.trainable == sheet.params && sheet.total == sheet.params * 6);
    (void)uma_model_free(model);
}

static void names_go_both_ways(void **state) {
    (void)state;
    assert_int_equal(uma_name_find(uma_optimizer_names, UMA_OPTIMIZER_COUNT, "Paged_AdamW_8bit"), UMA_OPTIMIZER_PAGED_ADAMW_8BIT);
    assert_int_equal(uma_name_find(uma_optimizer_names, UMA_OPTIMIZER_COUNT, "adagrad"), -1);
    assert_int_equal(uma_name_find(uma_optimizer_names, UMA_OPTIMIZER_COUNT, "adamw_torch"), UMA_OPTIMIZER_ADAMW);
    assert_int_equal(uma_name_find(uma_engine_names, UMA_ENGINE_COUNT, "llamacpp"), UMA_ENGINE_LLAMA_CPP);
    assert_int_equal(uma_name_find(uma_engine_names, UMA_ENGINE_COUNT, "adamw_torch"), -1);
    assert_int_equal(uma_name_find(uma_engine_names, UMA_ENGINE_COUNT, ""), -1);
    assert_string_equal(uma_name_of(uma_engine_names, UMA_ENGINE_COUNT, UMA_ENGINE_TRT_LLM), "trt-llm");
    assert_string_equal(uma_name_of(uma_engine_names, UMA_ENGINE_COUNT, UMA_ENGINE_UNKNOWN), "default");
    assert_string_equal(uma_name_of(uma_engine_names, UMA_ENGINE_COUNT, 99), "default");
    for (unsigned i = 0; i < UMA_OPTIMIZER_COUNT; i++)
        assert_int_equal(uma_name_find(uma_optimizer_names, UMA_OPTIMIZER_COUNT, uma_optimizer_names[i]), i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_of_the_same_class),
        cmocka_unit_test(the_sheet_multiplies),
        cmocka_unit_test(names_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
