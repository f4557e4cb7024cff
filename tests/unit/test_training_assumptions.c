/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <string.h>

#include "plan/training_parts.h"
#include "training_shapes.h"

static bool warned(const struct uma_estimate *estimate, const char *words) {
    for (uint32_t i = 0; i < estimate->warning_count; i++)
        if (strstr(estimate->warnings[i], words))
            return true;
    return false;
}

static void what_is_open_widens(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train stated = { .method = UMA_METHOD_LORA,
                                .weights = UMA_FORMAT_BF16,
                                .rank = 16,
                                .targets = QKVO,
                                .batch = 8,
                                .seq = 4096,
                                .autocast = UMA_YES,
                                .loss = UMA_LOSS_FULL,
                                .checkpointing = UMA_CHECKPOINTING_ON };
    struct uma_train open = { .method = UMA_METHOD_LORA };
    struct uma_estimate narrow, wide;
    assert_int_equal(uma_plan_train(model, &stated, &narrow, NULL), 0);
    assert_int_equal(uma_plan_train(model, &open, &wide, NULL), 0);
    assert_true((double)(narrow.high - narrow.low) < 0.25 * (double)narrow.total);
    assert_true((double)(wide.high - wide.low) > 0.5 * (double)wide.total);
    assert_true(warned(&wide, "no batch given") && warned(&wide, "no length given"));
    assert_false(warned(&narrow, "no batch given"));
}

static void what_a_user_must_know(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&MIXTRAL);
    struct uma_train train = { .method = UMA_METHOD_QLORA, .batch = 1, .seq = 2048, .framework = UMA_FRAMEWORK_UNSLOTH };
    struct uma_estimate e;
    assert_int_equal(uma_plan_train(model, &train, &e, NULL), 0);
    assert_true(warned(&e, "free nothing"));           /* its checkpoints go to the host */
    assert_true(warned(&e, "bitsandbytes quantises")); /* experts as one tensor */
    train.weights = UMA_FORMAT_NVFP4;                  /* not bitsandbytes' */
    assert_int_equal(uma_plan_train(model, &train, &e, NULL), 0);
    assert_false(warned(&e, "bitsandbytes quantises"));
    train = (struct uma_train){ .batch = 1, .seq = 2048, .optimizer = UMA_OPTIMIZER_PAGED_ADAMW_8BIT, .attention = UMA_ATTENTION_EAGER };
    assert_int_equal(uma_plan_train(model, &train, &e, NULL), 0);
    assert_true(warned(&e, "paged optimizer"));
    assert_true(warned(&e, "eager attention"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_open_widens), cmocka_unit_test(what_a_user_must_know) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
