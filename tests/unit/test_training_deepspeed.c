/* SPDX-License-Identifier: MIT */
/* ZeRO's buffers and steps, computed by hand from the sizes in deepspeed/runtime/zero. */
#include "test.h"

#include "plan/training_parts.h"
#include "training_shapes.h"

static const uint64_t TRAINED = 7000000000;

/* 7 x 10^9 parameters trained in 16 bits with fp32 masters. */
static struct uma_training_deepspeed of(const struct uma_train *train, uint64_t ranks) {
    struct uma_training_job job = { .train = train, .ranks = ranks, .element = 2 };
    job.states = (struct uma_training_states){ .full_params = TRAINED, .master = 4 * TRAINED, .weights = 2 * TRAINED };
    job.states.class_bytes[UMA_CLASS_EMBEDDING] = 300000000;
    job.states.class_bytes[UMA_CLASS_LM_HEAD] = 200000000;
    uma_training_deepspeed_of(&job);
    return job.deepspeed;
}

static void one_bucket(void **state) {
    (void)state;
    struct uma_train train = { .shard = UMA_SHARD_ZERO2 };
    struct uma_training_deepspeed d = of(&train, 2);
    assert_int_equal(d.backward, 1000000000); /* 5e8 elements of 2 bytes, for each backward */
    assert_int_equal(d.lasting, 0);
    assert_int_equal(d.gathered, 0);
    train.shard = UMA_SHARD_ZERO3;
    d = of(&train, 2);
    assert_int_equal(d.backward, 0);
    assert_int_equal(d.lasting, 1000000000); /* made once */
    train.shard = UMA_SHARD_FSDP;
    d = of(&train, 2);
    assert_int_equal(d.lasting + d.backward + d.gathered + d.step + d.side, 0);
}

static void the_step_on_flat_gradients(void **state) {
    (void)state;
    struct uma_train train = { .shard = UMA_SHARD_ZERO2, .optimizer = UMA_OPTIMIZER_ADAMW_FUSED };
    assert_true(of(&train, 2).step == UINT64_C(3500000000) * 6); /* 2 B flattened, 4 B in fp32; the whole partition */
    train.optimizer = UMA_OPTIMIZER_ADAMW;
    assert_true(of(&train, 2).step == UINT64_C(3500000000) * 8); /* fp32 gradient and square root */
    train.shard = UMA_SHARD_ZERO3;
    assert_true(of(&train, 2).step == UINT64_C(8000000000)); /* sub-groups of 10^9 */
    assert_true(of(&train, 14).step == UINT64_C(500000000) * 8);
    train.torch_release = 2000;
    assert_true(of(&train, 2).step == UINT64_C(12000000000)); /* a second copy before 2.1 */
    train.torch_release = 2001;
    assert_true(of(&train, 2).step == UINT64_C(8000000000));
}

static void the_check_for_infinities(void **state) {
    (void)state;
    struct uma_train train = { .shard = UMA_SHARD_ZERO3, .optimizer = UMA_OPTIMIZER_ADAMW_FUSED, .compute = UMA_FORMAT_BF16 };
    assert_int_equal(of(&train, 2).side, 0);
    train.compute = UMA_FORMAT_F16;
    struct uma_training_deepspeed d = of(&train, 2);
    assert_true(d.side == UINT64_C(10500000000));                            /* 3.5e9 absolute values of 2 bytes, and a byte for each */
    assert_true(d.step == d.side && d.side_at_step == UINT64_C(6000000000)); /* the larger is the peak, the other stays cached */
    d = of(&train, 14);
    assert_true(d.step == UINT64_C(3000000000) && d.side == UINT64_C(1500000000) && d.side_at_step == d.side);
    train.compute = UMA_FORMAT_BF16;
    train.torch_release = 2000; /* bf16 as well, in DeepSpeed of that time */
    assert_true(of(&train, 2).side == UINT64_C(10500000000));
    train.shard = UMA_SHARD_ZERO2;
    assert_int_equal(of(&train, 2).side, 0);
}

static void gathered_weights(void **state) {
    (void)state;
    struct uma_train train = { .shard = UMA_SHARD_ZERO3 };
    assert_true(of(&train, 2).gathered == UINT64_C(2200000000)); /* the output projection and 10^9 parameters */
    assert_int_equal(of(&train, 1).gathered, 0);                 /* its own partition serves */
    struct uma_training_job job = { .train = &train, .ranks = 2, .element = 2, .states.weights = 1000 };
    uma_training_deepspeed_of(&job);
    assert_int_equal(job.deepspeed.gathered, 1000); /* no more than there is */
    assert_int_equal(job.deepspeed.step, 0);        /* nothing is trained with masters */
}

/* Adapters in 16 bits with fp32 masters: 2 + 4 + 8 B; 16 x 8192 x 4 matrices x 32 layers of them. */
static void adapters(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_2_7B);
    struct uma_train train = { .method = UMA_METHOD_LORA,
                               .weights = UMA_FORMAT_BF16,
                               .rank = 16,
                               .targets = QKVO,
                               .batch = 1,
                               .seq = 512,
                               .gpus_per_node = 1,
                               .shard = UMA_SHARD_ZERO2 };
    struct uma_estimate e;
    assert_int_equal(uma_plan_train(model, &train, &e, NULL), 0);
    assert_int_equal(e.between_steps, 2 * uma_model_params(model) + 14 * UINT64_C(16777216) + 18000000);
    assert_true(e.total > e.between_steps + 1000000000); /* the bucket */
    train.gpus_per_node = 4;
    assert_int_equal(uma_plan_train(model, &train, &e, NULL), 0);
    assert_int_equal(e.between_steps, 2 * uma_model_params(model) + (2 + 3) * UINT64_C(16777216) + 18000000);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_bucket), cmocka_unit_test(the_step_on_flat_gradients),
                                        cmocka_unit_test(the_check_for_infinities), cmocka_unit_test(gathered_weights),
                                        cmocka_unit_test(adapters) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
