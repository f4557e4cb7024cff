/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "plan/training_parts.h"
#include "training_shapes.h"

static struct uma_training_loss of(const struct dense_shape *shape, const struct uma_train *train, bool older) {
    _cleanup_model_ struct uma_model *model = dense_model(shape);
    struct uma_training_job job = {
        .model = model, .train = train, .element = 2, .residual = 2, .older = older, .tokens = 8192, .sequence = 2048
    };
    uma_training_loss_of(&job);
    return job.loss;
}

static void by_kernel(void **state) {
    (void)state;
    struct uma_train train = { .loss = UMA_LOSS_FULL };
    /* PowerLM-3b, batch 8 x 4096: 608,204 B a token beside the checkpoints */
    assert_near(of(&POWERLM_3B, &train, false).per_token, 608204, 0.1);
    assert_near(of(&MISTRAL_7B, &train, true).per_token, 472716, 0.1); /* 16-bit logits beside them */
    train.loss = UMA_LOSS_FUSED;
    assert_near(of(&POWERLM_3B, &train, false).per_token, 407059, 0.7);
    assert_near(of(&MISTRAL_7B, &train, true).per_token, 336536, 0.1);
    train.loss = UMA_LOSS_FUSED_LINEAR;
    struct uma_training_loss linear = of(&LLAMA_3_8B, &train, false);
    assert_true(linear.per_token < 10 * 4096 + 1);
    assert_int_equal(linear.fixed, 2 * (uint64_t)128256 * 4096); /* lm_head's gradient, made in forward */
    train.method = UMA_METHOD_LORA;
    assert_int_equal(of(&LLAMA_3_8B, &train, false).fixed, 0);
    train.loss = UMA_LOSS_CHUNKED;
    assert_near(of(&LLAMA_3_8B, &train, false).per_token, 3.5 * 128256 + 4 * 4096, 0.1);
}

/* Unsloth: 8192 tokens x 128256 x 4 B are 3.9 GiB, under 8 GiB: one chunk. 8192 x 262144 x 4 B are 8 GiB, half of 16: four chunks. Compiled,
 * torchtune's chunks have no fp32 copies but one. */
static void chunks_by_budget(void **state) {
    (void)state;
    struct uma_train train = { .method = UMA_METHOD_LORA, .loss = UMA_LOSS_FUSED_LINEAR, .framework = UMA_FRAMEWORK_UNSLOTH };
    assert_int_equal(of(&LLAMA_3_8B, &train, false).per_token, 8 * 128256 + 4 * 4096);
    struct dense_shape wide = LLAMA_3_8B;
    wide.vocab = 262144;
    assert_int_equal(of(&wide, &train, false).per_token, 2 * 262144 + 4 * 4096);
    train = (struct uma_train){ .loss = UMA_LOSS_CHUNKED, .compile = UMA_YES, .framework = UMA_FRAMEWORK_TORCHTUNE };
    assert_int_equal(of(&LLAMA_3_8B, &train, false).per_token, 128256 * 5 / 2 + 4 * 4096);
}

static void logits_in_their_own_format(void **state) {
    (void)state;
    struct dense_shape shape = LLAMA_2_7B;
    shape.architecture = "gpt_bigcode";
    struct uma_train train = { .loss = UMA_LOSS_FULL };
    assert_int_equal(of(&shape, &train, true).per_token, 8 * 32000 + 8 * 4096);
    train.loss = UMA_LOSS_FUSED;
    assert_int_equal(of(&shape, &train, true).per_token, 6 * 32000 + 8 * 4096);
    assert_int_equal(of(&shape, &train, false).per_token, 8 * 32000 + 5 * 4096); /* today's transformers casts */
}

/* Of a batch of one the logits without the last position need no copy to be contiguous. */
static void one_sequence(void **state) {
    (void)state;
    struct dense_shape shape = LLAMA_2_7B;
    shape.architecture = "qwen";
    _cleanup_model_ struct uma_model *model = dense_model(&shape);
    struct uma_train train = { .loss = UMA_LOSS_FULL };
    struct uma_training_job job = {
        .model = model, .train = &train, .element = 2, .residual = 2, .older = true, .tokens = 2048, .sequence = 2048
    };
    uma_training_loss_of(&job);
    assert_int_equal(job.loss.per_token, 6 * 32000 + 8 * 4096); /* log-softmax, its gradient, the logits' */
    job.tokens = 4096;
    uma_training_loss_of(&job);
    assert_int_equal(job.loss.per_token, 8 * 32000 + 8 * 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(by_kernel), cmocka_unit_test(logits_in_their_own_format),
                                        cmocka_unit_test(chunks_by_budget), cmocka_unit_test(one_sequence) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
