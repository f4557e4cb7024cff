/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "plan/training_parts.h"
#include "training_shapes.h"

static void by_framework(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = { 0 };
    uma_train_defaults(model, &train);
    assert_int_equal(train.batch, 1);
    assert_int_equal(train.seq, 2048);
    assert_int_equal(train.rank, 16);
    assert_int_equal(train.checkpointing, UMA_CHECKPOINTING_ON);
    assert_int_equal(train.autocast, UMA_YES);
    assert_int_equal(train.master, UMA_NO);
    assert_int_equal(train.shard, UMA_SHARD_NONE);
    train = (struct uma_train){ .framework = UMA_FRAMEWORK_LITGPT };
    uma_train_defaults(model, &train);
    assert_int_equal(train.checkpointing, UMA_CHECKPOINTING_OFF);
    assert_int_equal(train.targets, UMA_LINEAR_BIT(UMA_LINEAR_Q) | UMA_LINEAR_BIT(UMA_LINEAR_V));
    assert_int_equal(train.autocast, UMA_NO);
    train = (struct uma_train){ .framework = UMA_FRAMEWORK_UNSLOTH };
    uma_train_defaults(model, &train);
    assert_int_equal(train.checkpointing, UMA_CHECKPOINTING_OFFLOAD);
    assert_int_equal(train.loss, UMA_LOSS_FUSED_LINEAR);
}

static void sharding_brings_masters(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = { .gpus_per_node = 2 };
    uma_train_defaults(model, &train);
    assert_int_equal(train.shard, UMA_SHARD_DDP); /* several ranks, nothing said */
    train = (struct uma_train){ .gpus_per_node = 2, .shard = UMA_SHARD_FSDP };
    uma_train_defaults(model, &train);
    assert_int_equal(train.master, UMA_YES); /* accelerate turns trained weights into fp32 */
    train = (struct uma_train){ .gpus_per_node = 2, .shard = UMA_SHARD_FSDP, .autocast = UMA_NO };
    uma_train_defaults(model, &train);
    assert_int_equal(train.master, UMA_NO);
    train = (struct uma_train){ .gpus_per_node = 2, .shard = UMA_SHARD_FSDP, .method = UMA_METHOD_LORA };
    uma_train_defaults(model, &train);
    assert_int_equal(train.master, UMA_NO);
    train = (struct uma_train){ .gpus_per_node = 2, .shard = UMA_SHARD_ZERO3 };
    uma_train_defaults(model, &train);
    assert_int_equal(train.master, UMA_YES);
}

static void preferences(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = { .objective = UMA_OBJECTIVE_DPO };
    uma_train_defaults(model, &train);
    assert_int_equal(train.reference_model, UMA_YES);
    train = (struct uma_train){ .objective = UMA_OBJECTIVE_DPO, .method = UMA_METHOD_LORA }; /* the adapter is switched off instead */
    uma_train_defaults(model, &train);
    assert_int_equal(train.reference_model, UMA_NO);
    struct uma_estimate sft, dpo;
    struct uma_train one = { .method = UMA_METHOD_LORA, .batch = 2, .seq = 1024 }, two = one;
    two.objective = UMA_OBJECTIVE_DPO; /* chosen and rejected */
    assert_int_equal(uma_plan_train(model, &one, &sft, NULL), 0);
    assert_int_equal(uma_plan_train(model, &two, &dpo, NULL), 0);
    assert_near(dpo.groups[UMA_TERM_ACTIVATIONS], 2.0 * (double)sft.groups[UMA_TERM_ACTIVATIONS], 0.1);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(by_framework), cmocka_unit_test(sharding_brings_masters),
                                        cmocka_unit_test(preferences) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
