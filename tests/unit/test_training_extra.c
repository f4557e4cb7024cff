/* SPDX-License-Identifier: MIT */
/* GRPO's completions, images, optimizers that keep no whole gradient. */
#include "test.h"

#include <string.h>

#include "plan/training_parts.h"
#include "training_shapes.h"

static const struct uma_plan_term *term(const struct uma_estimate *estimate, const char *what) {
    for (uint32_t i = 0; i < estimate->term_count; i++)
        if (strstr(estimate->terms[i].what, what))
            return &estimate->terms[i];
    return NULL;
}

static void a_batch_of_completions_holds_whole_groups(void **state) {
    (void)state;
    struct uma_train train = { .batch = 2, .accumulation = 8, .group_size = 8, .gpus_per_node = 1, .nodes = 1 };
    assert_int_equal(uma_training_completions(&train), 16);
    train.accumulation = 1;
    assert_int_equal(uma_training_completions(&train), 8);
    train.gpus_per_node = 2; /* the group is divided */
    assert_int_equal(uma_training_completions(&train), 4);
    assert_int_equal(uma_training_completions(&(struct uma_train){ 0 }), 8);
}

/* Llama 3 8B: 131,072 B of KV a token (32 layers x 2 x 8 heads x 128 x 2 B). 64 completions of 8192
 * tokens are 64 GiB, more than the step. */
static void generation_can_be_the_peak(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = { .method = UMA_METHOD_LORA,
                               .objective = UMA_OBJECTIVE_GRPO,
                               .rank = 16,
                               .targets = QKVO,
                               .batch = 1,
                               .accumulation = 64,
                               .seq = 8192,
                               .loss = UMA_LOSS_FUSED_LINEAR };
    struct uma_estimate e;
    assert_int_equal(uma_plan_train(model, &train, &e, NULL), 0);
    const struct uma_plan_term *cache = term(&e, "completions");
    assert_non_null(cache);
    assert_int_equal(cache->bytes, 64 * UINT64_C(8192) * 131072 + 64 * UINT64_C(128256) * 10);
    assert_null(term(&e, "checkpoints"));
    assert_null(term(&e, "gradients"));
    /* beside an engine of its own the trainer generates nothing */
    train.generation_bytes = (uint64_t)GIB(10);
    assert_int_equal(uma_plan_train(model, &train, &e, NULL), 0);
    assert_null(term(&e, "completions"));
    assert_int_equal(term(&e, "generation engine")->bytes, train.generation_bytes);
    /* few short completions need less than the step */
    train.generation_bytes = 0;
    train.accumulation = 8;
    train.seq = 512;
    train.loss = UMA_LOSS_FULL;
    assert_int_equal(uma_plan_train(model, &train, &e, NULL), 0);
    assert_null(term(&e, "completions"));
}

static void sharded_weights_are_gathered_for_it(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = { .objective = UMA_OBJECTIVE_GRPO, .batch = 2, .seq = 1024, .gpus_per_node = 2, .nodes = 1, .group_size = 8 };
    struct uma_training_job job = { .model = model, .train = &train, .sequence = 1024, .ranks = 2, .shard_weights = true };
    job.states.weights = 1000;
    struct uma_training_rollout rollout;
    uma_training_rollout_of(&job, &rollout);
    assert_int_equal(rollout.completions, 4);
    assert_int_equal(rollout.gathered, 1000);
    train.objective = UMA_OBJECTIVE_SFT;
    uma_training_rollout_of(&job, &rollout);
    assert_int_equal(rollout.bytes, 0);
}

/* 3 images of 256 tokens, 1152 wide, 27 layers, 2 samples: 1,769,472 hidden units. */
static void images_by_what_is_trained(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    model->has_vision = true;
    model->vision_hidden = 1152;
    model->vision_layers = 27;
    model->vision_tokens = 256;
    struct uma_train train = { .batch = 2, .images = 3, .checkpointing = UMA_CHECKPOINTING_OFF };
    struct uma_training_job job = { .model = model, .train = &train };
    assert_int_equal(uma_training_images_kept(&job), 1769472 * UINT64_C(34) * 27);
    train.checkpointing = UMA_CHECKPOINTING_ON;
    assert_int_equal(uma_training_images_kept(&job), UINT64_C(1769472) * (2 * 27 + 34));
    train.freeze_vision = true;
    assert_int_equal(uma_training_images_kept(&job), 1769472 * UINT64_C(34));
    train.images = 0;
    assert_int_equal(uma_training_images_kept(&job), 0);
}

static void images_are_a_term(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    model->has_vision = true;
    model->vision_hidden = 1152;
    model->vision_layers = 27;
    model->vision_tokens = 256;
    struct uma_train train = { .method = UMA_METHOD_LORA, .batch = 1, .seq = 4096 };
    struct uma_estimate without, with;
    assert_int_equal(uma_plan_train(model, &train, &without, NULL), 0);
    train.images = 4;
    assert_int_equal(uma_plan_train(model, &train, &with, NULL), 0);
    assert_int_equal(with.total - without.total, UINT64_C(4) * 256 * 1152 * 34);
    assert_true(term(&with, "vision tower")->high > 3 * term(&with, "vision tower")->bytes);
}

/* LOMO (arXiv:2306.09782): no states, one gradient at a time: weights and the embedding's, 128256 x 4096 in 16 bits, in the last moment. */
static void lomo_keeps_one_gradient(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = { .optimizer = UMA_OPTIMIZER_LOMO, .batch = 1, .seq = 128 };
    struct uma_estimate e;
    assert_int_equal(uma_plan_train(model, &train, &e, NULL), 0);
    assert_int_equal(e.groups[UMA_TERM_OPTIMIZER], 0);
    assert_int_equal(e.groups[UMA_TERM_GRADIENTS], UINT64_C(128256) * 4096 * 2);
    assert_true(e.total < (uint64_t)GIB(17)); /* 15.0 of weights */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_of_completions_holds_whole_groups),
        cmocka_unit_test(generation_can_be_the_peak),
        cmocka_unit_test(sharded_weights_are_gathered_for_it),
        cmocka_unit_test(images_by_what_is_trained),
        cmocka_unit_test(images_are_a_term),
        cmocka_unit_test(lomo_keeps_one_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
