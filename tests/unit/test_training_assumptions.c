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
    struct uma_train stated = FMS_LORA(.loss = UMA_LOSS_FULL, .checkpointing = UMA_CHECKPOINTING_ON);
    struct uma_train open = { .method = UMA_METHOD_LORA };
    struct uma_estimate narrow, wide;
    assert_int_equal(uma_plan_train(model, &stated, &narrow, NULL), 0);
    assert_int_equal(uma_plan_train(model, &open, &wide, NULL), 0);
    assert_true((double)(narrow.high - narrow.low) < 0.25 * (double)narrow.total);
    assert_true((double)(wide.high - wide.low) > 0.5 * (double)wide.total);
    assert_true(warned(&wide, "no batch given") && warned(&wide, "no length given"));
    assert_false(warned(&narrow, "no batch given"));
}

/* Upwards: the total, 0.02 of it, 0.03 of what comes and goes, the context; 0.027 below. */
static void the_interval_of_a_job_stated_whole(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = FMS_LORA(.loss = UMA_LOSS_FUSED_LINEAR, .checkpointing = UMA_CHECKPOINTING_ON);
    struct uma_estimate e;
    assert_int_equal(uma_plan_train(model, &train, &e, NULL), 0);
    uint64_t moving = 0;
    for (uint32_t i = 0; i < e.term_count; i++)
        moving += e.terms[i].between_steps ? 0 : e.terms[i].bytes;
    assert_near(e.low, 0.973 * (double)e.total, 0.3); /* the terms' own spans in quadrature may reach a little lower */
    assert_true((double)e.low <= 0.973 * (double)e.total + 1);
    assert_near(e.high, 1.02 * (double)e.total + 0.03 * (double)moving + (double)e.context, 0.001);
    uint64_t stated = e.high - e.total;
    train.loss = UMA_LOSS_DEFAULT; /* nominal: 0.28 of what comes and goes; here half of it, but not above 8 GiB */
    assert_int_equal(uma_plan_train(model, &train, &e, NULL), 0);
    assert_true(e.high > e.device && e.high - e.total > 3 * stated);
    assert_near(e.high, 1.10 * (double)e.total + GIB(8) + (double)e.context, 0.001);
    assert_true(e.device_high >= e.high);
}

/* Whoever fills the defaults first, as umactl does to print them, gets the same interval and the same warnings. */
static void defaults_are_remembered(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train open = { .method = UMA_METHOD_LORA }, filled = open;
    uma_train_defaults(model, &filled);
    assert_int_equal(filled.batch, 1);
    assert_int_equal(filled.assumed, UMA_ASSUMED_BATCH | UMA_ASSUMED_SEQ | UMA_ASSUMED_LOSS | UMA_ASSUMED_AUTOCAST |
                                         UMA_ASSUMED_CHECKPOINTING | UMA_ASSUMED_ADAPTER);
    uma_train_defaults(model, &filled);
    struct uma_estimate a, b;
    assert_int_equal(uma_plan_train(model, &open, &a, NULL), 0);
    assert_int_equal(uma_plan_train(model, &filled, &b, NULL), 0);
    assert_int_equal(a.low, b.low);
    assert_int_equal(a.high, b.high);
    assert_true(warned(&b, "no batch given") && warned(&b, "no length given"));
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_open_widens), cmocka_unit_test(the_interval_of_a_job_stated_whole),
                                        cmocka_unit_test(defaults_are_remembered), cmocka_unit_test(what_a_user_must_know) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
