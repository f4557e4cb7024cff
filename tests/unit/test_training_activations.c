/* SPDX-License-Identifier: MIT */
/* Bytes per token of one layer's backward, in units of the hidden size; measured: slopes of fms-acceleration's rows over batch size. */
#include "test.h"

#include "plan/training_parts.h"
#include "training_shapes.h"

static struct uma_training_activations of(const struct dense_shape *shape, const struct uma_train *train, bool fused, bool quantised) {
    _cleanup_model_ struct uma_model *model = dense_model(shape);
    struct uma_training_job job = {
        .model = model, .train = train, .element = 2, .residual = 2, .ranks = 2, .sequence = 4096, .autocast = true, .fused_kernels = fused
    };
    job.states.quantised = quantised;
    uma_training_activations_of(&job);
    return job.activations;
}

static void a_layer_of_lora(void **state) {
    (void)state;
    struct uma_train train = { .method = UMA_METHOD_QLORA, .rank = 16, .targets = QKVO };
    struct uma_training_activations a = of(&LLAMA_3_8B, &train, true, true);
    assert_near(a.working, 63.05 * 4096, 0.2);
    assert_int_equal(a.checkpoints, 32 * 2 * 4096);
    assert_near(of(&LLAMA_2_70B, &train, true, true).working, 62.55 * 8192, 0.2);
    assert_near(of(&LLAMA_2_70B, &train, false, true).working, 70.57 * 8192, 0.2); /* fp32 copies of two norms */
    assert_near(of(&MISTRAL_7B, &train, true, true).working, 66.05 * 4096, 0.2);   /* k and v repeated to 32 heads */
    assert_near(of(&LLAMA_3_8B, &train, true, false).working, 65.07 * 4096, 0.2);
}

static void fsdp_holds_gradients_of_frozen_layers(void **state) {
    (void)state;
    struct uma_train train = { .method = UMA_METHOD_LORA, .rank = 16, .targets = QKVO, .shard = UMA_SHARD_FSDP };
    assert_int_equal(of(&LLAMA_3_8B, &train, true, false).retained, 30 * 2 * 4096);
    train.method = UMA_METHOD_FULL;
    assert_int_equal(of(&LLAMA_3_8B, &train, true, false).retained, 0);
    train = (struct uma_train){ .method = UMA_METHOD_LORA, .targets = QKVO };
    assert_int_equal(of(&LLAMA_3_8B, &train, true, false).retained, 0);
}

/* Without checkpoints Llama-2-7B keeps, per token and layer and in units of h = 4096 with 11008 = 2.6875 h: input, residual 4; q, k, v, output 8
 * (and 128 B); gate, up, silu 16.125; norms in fp32 8; adapters' inputs on q and v 4. */
static void everything_kept(void **state) {
    (void)state;
    struct uma_train train = { .method = UMA_METHOD_LORA, .rank = 8, .targets = 1 << UMA_LINEAR_Q | 1 << UMA_LINEAR_V };
    struct uma_training_activations a = of(&LLAMA_2_7B, &train, false, false);
    assert_int_equal(a.saved / 32, (4 + 8 + 8 + 4) * 4096 + 128 + 6 * 11008);
    /* eager attention: 8 B for every pair and head beside */
    train.attention = UMA_ATTENTION_EAGER;
    assert_int_equal(of(&LLAMA_2_7B, &train, false, false).saved / 32 - a.saved / 32, 8 * 32 * 4096);
}

static void experts_keep_what_their_tokens_need(void **state) {
    (void)state;
    struct uma_train train = { .method = UMA_METHOD_QLORA, .rank = 16, .targets = QKVO };
    /* 135.3 h on FSDP less 60 h of held gradients */
    assert_near(of(&MIXTRAL, &train, true, true).working, 75.3 * 4096, 9);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_layer_of_lora), cmocka_unit_test(fsdp_holds_gradients_of_frozen_layers),
                                        cmocka_unit_test(everything_kept), cmocka_unit_test(experts_keep_what_their_tokens_need) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
