/* SPDX-License-Identifier: MIT */
/* Jobs that cannot be, ranks and tokens. */
#include "test.h"

#include "base/error.h"

#include "plan/training.h"

#include <string.h>

static struct uma_model_layer layers[2] = { { .mixer = UMA_MIXER_ATTENTION, .heads = 8, .kv_heads = 2, .head_dim = 64 },
                                            { .mixer = UMA_MIXER_ATTENTION, .heads = 8, .kv_heads = 2, .head_dim = 64 } };

static void ranks_and_tokens(void **state) {
    (void)state;
    struct uma_train train = { 0 };
    assert_int_equal(uma_training_ranks(&train), 1);
    assert_int_equal(uma_training_data_parallel(&train), 1);
    assert_int_equal(uma_training_tokens(&train), 2048);
    train = (struct uma_train){ .nodes = 2, .gpus_per_node = 8, .tp = 2, .pp = 2, .batch = 4, .seq = 4096 };
    assert_int_equal(uma_training_ranks(&train), 16);
    assert_int_equal(uma_training_data_parallel(&train), 4);
    assert_int_equal(uma_training_tokens(&train), 16384);
    train.tokens = 1000; /* padding-free: what the batch really holds */
    assert_int_equal(uma_training_tokens(&train), 1000);
}

static void what_cannot_be(void **state) {
    (void)state;
    struct uma_model model = { .hidden = 512, .layer_count = 2, .layers = layers };
    struct uma_error err = { 0 };
    struct uma_train train = { .gpus_per_node = 4, .tp = 4 };
    assert_int_equal(uma_training_check(&model, &train, &err), 0);
    train.tp = 3;
    assert_int_equal(uma_training_check(&model, &train, &err), -EINVAL);
    assert_non_null(strstr(err.text, "does not divide"));
    train = (struct uma_train){ .gpus_per_node = 16, .tp = 16 };
    assert_int_equal(uma_training_check(&model, &train, &err), -EINVAL);
    assert_non_null(strstr(err.text, "8 attention heads"));
    train = (struct uma_train){ .gpus_per_node = 3, .pp = 3 };
    assert_int_equal(uma_training_check(&model, &train, &err), -EINVAL);
    train = (struct uma_train){ .batch = UINT64_MAX, .seq = 3 };
    assert_int_equal(uma_training_check(&model, &train, &err), -EINVAL);
    train = (struct uma_train){ .rank = 1u << 20 };
    assert_int_equal(uma_training_check(&model, &train, &err), -EINVAL);
    model.hidden = 0;
    train = (struct uma_train){ 0 };
    assert_int_equal(uma_training_check(&model, &train, &err), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(ranks_and_tokens), cmocka_unit_test(what_cannot_be) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
