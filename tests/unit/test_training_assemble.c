/* SPDX-License-Identifier: MIT */
/* Peaks against published ones: the moment that decides, and that terms add up to it. */
#include "test.h"

#include <string.h>

#include "plan/estimate.h"
#include "plan/training_parts.h"
#include "training_shapes.h"

static struct uma_estimate plan(const struct dense_shape *shape, const struct uma_train *train) {
    _cleanup_model_ struct uma_model *model = dense_model(shape);
    struct uma_estimate estimate;
    assert_int_equal(uma_plan_train(model, train, &estimate, NULL), 0);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < estimate.term_count; i++)
        sum += estimate.terms[i].bytes;
    assert_int_equal(sum, estimate.total);
    assert_true(estimate.low <= estimate.total && estimate.total <= estimate.high);
    assert_true(estimate.total <= estimate.reserved && estimate.reserved <= estimate.device && estimate.device <= estimate.device_high);
    return estimate;
}

static bool has_term(const struct uma_estimate *estimate, const char *what) {
    for (uint32_t i = 0; i < estimate->term_count; i++)
        if (strcmp(estimate->terms[i].what, what) == 0)
            return true;
    return false;
}

/* fms-acceleration, A100-80GB, packed 4096, LoRA r 16 on q, k, v, o (scripts/benchmarks/refs/a100_80gb*.csv). */
static void adapters_on_one_gpu(void **state) {
    (void)state;
    struct uma_train train = FMS_LORA(.loss = UMA_LOSS_FUSED, .checkpointing = UMA_CHECKPOINTING_ON);
    struct uma_estimate e = plan(&LLAMA_3_8B, &train);
    assert_near(e.total, GIB(54.9643), 0.5);
    assert_true(has_term(&e, "logits and their gradient"));
    train.loss = UMA_LOSS_FUSED_LINEAR;
    e = plan(&LLAMA_3_8B, &train);
    assert_near(e.total, GIB(31.2624), 0.2);
    assert_true(has_term(&e, "layer in backward"));
    train.method = UMA_METHOD_QLORA;
    train.weights = UMA_FORMAT_NF4_DQ;
    train.batch = 32;
    assert_near(plan(&LLAMA_3_8B, &train).total, GIB(69.0012), 0.2);
    train.autocast = UMA_NO;
    train.residual = UMA_FORMAT_F32; /* peft's prepare_model_for_kbit_training */
    train.loss = UMA_LOSS_FULL;
    train.batch = 8;
    assert_near(plan(&MISTRAL_7B, &train).total, GIB(34.4614), 0.3);
}

static void sharded_adapters(void **state) {
    (void)state;
    struct uma_train train = FMS_LORA(.loss = UMA_LOSS_FUSED_LINEAR, .gpus_per_node = 4, .shard = UMA_SHARD_FSDP);
    struct uma_estimate e = plan(&LLAMA_3_8B, &train);
    assert_near(e.total, GIB(29.8059), 0.2);
    assert_true(has_term(&e, "gradients held by FSDP"));
    assert_true(has_term(&e, "gathered embedding and lm_head"));
    train.batch = 16;
    assert_near(plan(&MISTRAL_7B, &(struct uma_train){ .method = UMA_METHOD_LORA,
                                                       .weights = UMA_FORMAT_BF16,
                                                       .rank = 16,
                                                       .targets = QKVO,
                                                       .batch = 16,
                                                       .seq = 4096,
                                                       .autocast = UMA_YES,
                                                       .loss = UMA_LOSS_FUSED,
                                                       .gpus_per_node = 2,
                                                       .shard = UMA_SHARD_FSDP })
                    .total,
                GIB(55.7753), 0.3);
    assert_near(plan(&LLAMA_3_8B, &train).total, GIB(53.4396), 0.2);
}

static void full_fine_tuning(void **state) {
    (void)state;
    struct uma_train train = { .weights = UMA_FORMAT_BF16, .batch = 4, .seq = 4096, .autocast = UMA_NO, .loss = UMA_LOSS_FULL };
    struct uma_estimate e = plan(&MISTRAL_7B, &train); /* 10 bytes a parameter: the optimizer's step */
    assert_near(e.total, GIB(67.4602), 0.1);
    assert_true(has_term(&e, "optimizer step"));
    train.optimizer = UMA_OPTIMIZER_ADAMW_FUSED; /* 8, and the last layer's backward */
    train.batch = 1;
    train.seq = 256;
    assert_near(plan(&MISTRAL_7B, &train).total, GIB(67.4602) * 0.8, 0.5);
    train.optimizer = UMA_OPTIMIZER_ADAMW;
    train.seq = 4096;
    train.batch = 8; /* the loss */
    assert_near(plan(&POWERLM_3B, &train).total, GIB(43.8275), 0.2);
    train = (struct uma_train){ .weights = UMA_FORMAT_BF16,
                                .batch = 8,
                                .seq = 4096,
                                .autocast = UMA_YES,
                                .loss = UMA_LOSS_FUSED,
                                .gpus_per_node = 4,
                                .shard = UMA_SHARD_FSDP };
    assert_near(plan(&LLAMA_3_8B, &train).total, GIB(64.2224), 0.5);
    /* torchtune README, Llama-3.2-3B on one A100, packed 2 x 4096, nothing recomputed: 60, compiled 51, chunked 42.9 GiB */
    train = (struct uma_train){
        .weights = UMA_FORMAT_BF16, .batch = 2, .seq = 4096, .checkpointing = UMA_CHECKPOINTING_OFF, .framework = UMA_FRAMEWORK_TORCHTUNE
    };
    assert_near(plan(&LLAMA_3_2_3B, &train).total, GIB(60), 5);
    train.compile = UMA_YES;
    assert_near(plan(&LLAMA_3_2_3B, &train).total, GIB(51), 5);
    train.loss = UMA_LOSS_CHUNKED;
    assert_near(plan(&LLAMA_3_2_3B, &train).total, GIB(42.9), 6);
}

/* litgpt config_hub and tutorials/resource-tables.md: nothing recomputed. */
static void litgpt(void **state) {
    (void)state;
    struct uma_train train = {
        .method = UMA_METHOD_LORA, .weights = UMA_FORMAT_BF16, .rank = 32, .batch = 2, .seq = 512, .framework = UMA_FRAMEWORK_LITGPT
    };
    assert_near(plan(&MISTRAL_7B, &train).total, 20.66e9, 1);
    assert_near(plan(&LLAMA_2_7B, &train).total, 19.77e9, 3);
    train.method = UMA_METHOD_QLORA;
    train.weights = UMA_FORMAT_NF4;
    assert_near(plan(&LLAMA_2_7B, &train).total, 13.68e9, 9);
}

static void what_lies_outside_the_allocator(void **state) {
    (void)state;
    struct uma_train train = { .weights = UMA_FORMAT_BF16, .batch = 1, .seq = 1024, .optimizer = UMA_OPTIMIZER_PAGED_ADAMW };
    struct uma_estimate e = plan(&LLAMA_2_7B, &train);
    assert_near(e.host - UMA_PYTHON_HOST, 4.0 * 6738415616, 0.1);
    train = (struct uma_train){
        .method = UMA_METHOD_LORA, .weights = UMA_FORMAT_BF16, .batch = 1, .seq = 4096, .checkpointing = UMA_CHECKPOINTING_OFFLOAD
    };
    e = plan(&LLAMA_2_7B, &train);
    assert_int_equal(e.host - UMA_PYTHON_HOST, 4096 * 32 * 2 * 4096); /* still of the same pool */
}

/* device_map: half of the layers on each of two devices, the loss on one. */
static void layers_on_two_devices(void **state) {
    (void)state;
    struct uma_train train = { .method = UMA_METHOD_LORA, .weights = UMA_FORMAT_BF16, .batch = 1, .seq = 1024, .loss = UMA_LOSS_FULL };
    struct uma_estimate one = plan(&LLAMA_2_7B, &train);
    train.gpus_per_node = 2;
    train.pp = 2;
    struct uma_estimate half = plan(&LLAMA_2_7B, &train);
    assert_near(half.groups[UMA_TERM_WEIGHTS], (double)one.groups[UMA_TERM_WEIGHTS] / 2, 0.1);
    assert_true(half.total > one.total / 2 && half.total < one.total);
}

/* Layers for multi-token prediction stay in the file. */
static void no_mtp_in_training(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_2_7B);
    struct uma_train train = { .weights = UMA_FORMAT_BF16, .batch = 1, .seq = 128 };
    struct uma_estimate without, with;
    assert_int_equal(uma_plan_train(model, &train, &without, NULL), 0);
    model->totals[UMA_CLASS_MTP] = (struct uma_tensor_total){ .tensors = 1, .params = 1000000, .bytes = 2000000 };
    assert_int_equal(uma_plan_train(model, &train, &with, NULL), 0);
    assert_int_equal(with.total, without.total);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(adapters_on_one_gpu),
                                        cmocka_unit_test(sharded_adapters),
                                        cmocka_unit_test(full_fine_tuning),
                                        cmocka_unit_test(litgpt),
                                        cmocka_unit_test(what_lies_outside_the_allocator),
                                        cmocka_unit_test(layers_on_two_devices),
                                        cmocka_unit_test(no_mtp_in_training) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
