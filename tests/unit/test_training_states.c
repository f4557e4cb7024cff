/* SPDX-License-Identifier: MIT */
/* What stands between two steps: weights, adapters, states, against fms-acceleration's allocated figures (scripts/benchmarks/refs). */
#include "test.h"

#include "plan/training_parts.h"
#include "training_shapes.h"

static uint64_t between(const struct dense_shape *shape, const struct uma_train *train) {
    _cleanup_model_ struct uma_model *model = dense_model(shape);
    assert_non_null(model);
    struct uma_estimate estimate;
    assert_int_equal(uma_plan_train(model, train, &estimate, NULL), 0);
    return estimate.between_steps;
}

static void lora_in_16_bits_and_quantised(void **state) {
    (void)state;
    struct uma_train train = FMS_LORA(.loss = UMA_LOSS_FUSED_LINEAR);
    assert_near(between(&LLAMA_3_8B, &train), GIB(15.1265), 0.1);
    assert_near(between(&MISTRAL_7B, &train), GIB(13.6574), 0.1);
    train.method = UMA_METHOD_QLORA;
    train.weights = UMA_FORMAT_NF4_DQ;
    assert_near(between(&LLAMA_3_8B, &train), GIB(5.4804), 0.1);
    assert_near(between(&MISTRAL_7B, &train), GIB(4.0111), 0.1);
    train.weights = UMA_FORMAT_UNKNOWN; /* of an unquantised checkpoint: the same */
    assert_near(between(&MISTRAL_7B, &train), GIB(4.0111), 0.1);
    train.weights = UMA_FORMAT_GPTQ4_G128;
    assert_near(between(&MISTRAL_7B, &train), GIB(4.039), 0.2);
    train.weights = UMA_FORMAT_GPTQ4_CHANNEL;
    assert_near(between(&LLAMA_2_70B, &train), GIB(33.6415), 0.1);
}

static void full_in_pure_16_bits(void **state) {
    (void)state;
    struct uma_train train = { .weights = UMA_FORMAT_BF16, .batch = 4, .seq = 4096, .autocast = UMA_NO, .loss = UMA_LOSS_FULL };
    assert_near(between(&MISTRAL_7B, &train), GIB(40.4826), 0.1); /* 2 of weights, 4 of moments */
    assert_near(between(&POWERLM_3B, &train), GIB(19.6415), 0.1);
}

/* FSDP keeps gradients between steps; with mixed precision its weights are fp32: 8 and 16 bytes a parameter over the ranks. */
static void sharded_over_ranks(void **state) {
    (void)state;
    struct uma_train train = {
        .weights = UMA_FORMAT_BF16, .batch = 2, .seq = 4096, .autocast = UMA_NO, .gpus_per_node = 2, .shard = UMA_SHARD_FSDP
    };
    assert_near(between(&MISTRAL_7B, &train), GIB(26.9936), 0.1);
    train.autocast = UMA_YES;
    assert_near(between(&LLAMA_3_8B, &train), GIB(59.8468), 0.1);
    train.gpus_per_node = 4;
    assert_near(between(&LLAMA_3_8B, &train), GIB(29.9317), 0.1);
    train.method = UMA_METHOD_LORA;
    train.rank = 16;
    train.targets = QKVO;
    assert_near(between(&LLAMA_3_8B, &train), GIB(3.8074), 0.1);
    train.method = UMA_METHOD_QLORA; /* scales and adapters on every rank */
    train.weights = UMA_FORMAT_NF4_DQ;
    assert_near(between(&LLAMA_3_8B, &train), GIB(1.524), 0.5);
    train.gpus_per_node = 2;
    assert_near(between(&LLAMA_3_8B, &train), GIB(2.825), 0.3);
    assert_near(between(&MIXTRAL, &train), GIB(11.862), 0.1);
    train.weights = UMA_FORMAT_GPTQ4_CHANNEL; /* no scales to speak of */
    assert_near(between(&MIXTRAL, &train), GIB(11.2174), 0.5);
}

/* 16 x (in + out) on q, k, v, o of Llama-2-7B: 16,777,216 parameters of 2 B, their gradients, two moments. */
static void adapters_under_fsdp(void **state) {
    (void)state;
    struct uma_train train = { .method = UMA_METHOD_QLORA,
                               .weights = UMA_FORMAT_NF4_DQ,
                               .rank = 16,
                               .targets = QKVO,
                               .batch = 2,
                               .seq = 4096,
                               .gpus_per_node = 2,
                               .shard = UMA_SHARD_FSDP };
    struct dense_shape other = LLAMA_2_7B;
    other.architecture = "gpt_bigcode";
    assert_int_equal(between(&LLAMA_2_7B, &train) - between(&other, &train), 8 * 16777216 / 2);
}

static void temporary_copies_of_the_step(void **state) {
    (void)state;
    struct uma_train train = { .optimizer = UMA_OPTIMIZER_ADAMW, .weights = UMA_FORMAT_BF16, .method = UMA_METHOD_FULL };
    assert_int_equal(uma_training_step_copies(&train), 1);
    train.torch_release = 2010;
    assert_int_equal(uma_training_step_copies(&train), 1);
    train.torch_release = 2000;
    assert_int_equal(uma_training_step_copies(&train), 2);
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_2_7B);
    struct uma_training_job job = { .model = model, .train = &train, .ranks = 1, .element = 2 };
    uma_training_states_of(&job);
    assert_int_equal(job.states.step_temporary, 2 * 2 * uma_model_params(model));
    train.optimizer = UMA_OPTIMIZER_ADAMW_FUSED;
    assert_int_equal(uma_training_step_copies(&train), 0);
}

static void optimizers(void **state) {
    (void)state;
    assert_true(uma_training_optimizer_bytes(UMA_OPTIMIZER_ADAMW, 2) == 4);
    assert_true(uma_training_optimizer_bytes(UMA_OPTIMIZER_ADAMW_FUSED, 4) == 8);
    assert_true(uma_training_optimizer_bytes(UMA_OPTIMIZER_LION, 2) == 2);
    assert_true(uma_training_optimizer_bytes(UMA_OPTIMIZER_SGD, 4) == 0);
    assert_near(uma_training_optimizer_bytes(UMA_OPTIMIZER_ADAMW_8BIT, 4), 2.03, 0.1);
    assert_true(uma_training_optimizer_bytes(UMA_OPTIMIZER_ADAFACTOR, 4) < 0.1);
    /* arXiv:2403.03507: GaLore's states are a fraction of Adam's */
    struct uma_train train = { .weights = UMA_FORMAT_BF16, .batch = 1, .seq = 256 };
    uint64_t adam = between(&LLAMA_2_7B, &train);
    train.optimizer = UMA_OPTIMIZER_GALORE;
    assert_true(between(&LLAMA_2_7B, &train) < adam * 5 / 10);
}

/* rank x (in + out) over q, k, v, o of Mistral: 16 x (8192 + 5120 + 5120 + 8192) x 32 layers. */
static void adapter_parameters(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&MISTRAL_7B);
    struct uma_train train = { .method = UMA_METHOD_LORA, .rank = 16, .targets = QKVO };
    struct uma_training_job job = { .model = model, .train = &train, .ranks = 1, .element = 2 };
    uma_training_states_of(&job);
    assert_int_equal(job.states.adapter_params, 13631488);
    assert_int_equal(job.states.full_params, 0);
    train.dora = true; /* and a magnitude per output */
    uma_training_states_of(&job);
    assert_int_equal(job.states.adapter_params, 13631488 + 32 * (4096 + 1024 + 1024 + 4096));
    train.train_embeddings = true; /* a trained copy, the original stays (peft ModulesToSaveWrapper) */
    uma_training_states_of(&job);
    assert_int_equal(job.states.full_params, 2 * 32000 * 4096);
    assert_int_equal(job.states.copied, 2 * 2 * 32000 * 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(lora_in_16_bits_and_quantised),
                                        cmocka_unit_test(full_in_pure_16_bits),
                                        cmocka_unit_test(sharded_over_ranks),
                                        cmocka_unit_test(optimizers),
                                        cmocka_unit_test(adapter_parameters),
                                        cmocka_unit_test(adapters_under_fsdp),
                                        cmocka_unit_test(temporary_copies_of_the_step) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
