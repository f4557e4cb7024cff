/* SPDX-License-Identifier: MIT */
#include "plan/sharding.h"
#include "test.h"
#include "training_models.h"

static void ranks_are_what_the_dimensions_leave(void **state) {
    (void)state;
    struct uma_train train = { .nodes = 2, .gpus_per_node = 8, .tp = 2, .pp = 2, .cp = 2, .ep = 4 };
    struct uma_sharding s = uma_sharding_of(&train);
    assert_int_equal(s.ranks, 16);
    assert_int_equal(s.dp, 2);
    assert_int_equal(s.expert_tp, 2); /* as tp */
    assert_int_equal(s.expert_dp, 1); /* 16 / (ep 4 x tp 2 x pp 2) */
    train = (struct uma_train){ .tp = 8, .pp = 4 };
    s = uma_sharding_of(&train);
    assert_int_equal(s.ranks, 32); /* never fewer than asked for */
    assert_int_equal(s.dp, 1);
    train = (struct uma_train){ .gpus_per_node = 8, .tp = 4, .pp = 2, .ep = 4 }; /* experts are not cut where ranks do not suffice */
    s = uma_sharding_of(&train);
    assert_int_equal(s.expert_tp, 1);
    assert_int_equal(s.ranks, 8);
    train = (struct uma_train){ .gpus_per_node = 8, .ep = 16, .expert_tp = 1 };
    assert_int_equal(uma_sharding_of(&train).ranks, 16);
}

static void zero_stages_share_out_more_and_more(void **state) {
    (void)state;
    struct uma_train train = { .shard = UMA_SHARD_ZERO1 };
    struct uma_sharing s = uma_sharing_of(&train, 8);
    assert_true(s.parameters == 1 && s.gradients == 1 && s.optimizer == 8);
    train.shard = UMA_SHARD_ZERO2;
    s = uma_sharing_of(&train, 8);
    assert_true(s.parameters == 1 && s.gradients == 8 && s.optimizer == 8);
    train.shard = UMA_SHARD_FSDP;
    s = uma_sharing_of(&train, 8);
    assert_true(s.parameters == 8 && s.gradients == 8 && s.optimizer == 8);
    train = (struct uma_train){ .distributed_optimizer = true };
    s = uma_sharing_of(&train, 4);
    assert_true(s.parameters == 1 && s.gradients == 1 && s.optimizer == 4);
    train = (struct uma_train){ .shard = UMA_SHARD_DDP };
    assert_int_equal(uma_sharing_of(&train, 4).optimizer, 1);
}

static void layers_are_dealt_out_chunk_after_chunk(void **state) {
    (void)state;
    struct uma_sharding s = { .pp = 4, .stages = 3 };
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(uma_sharding_has_layer(&s, 12, i, 4), i % 4 == 3);
    s.stages = 1;
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(uma_sharding_has_layer(&s, 12, i, 2), i >= 3 && i < 6);
    /* 7 layers over 4: 2, 2, 2, 1, and none is lost */
    uint32_t total = 0, last = 0;
    for (uint32_t stage = 1; stage <= 4; stage++)
        for (uint32_t i = 0; i < 7; i++) {
            total += uma_sharding_has_layer(&s, 7, i, stage);
            last += stage == 4 && uma_sharding_has_layer(&s, 7, i, stage);
        }
    assert_int_equal(total, 7);
    assert_int_equal(last, 1);
    /* fewer layers than stages */
    assert_true(uma_sharding_has_layer(&s, 2, 1, 2));
    assert_false(uma_sharding_has_layer(&s, 2, 1, 4));
}

static void a_gpt_layer_has_twelve_h_squared(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(1, 512, 8, 1024);
    struct uma_train train = { 0 };
    struct uma_sharding s = uma_sharding_of(&train);
    assert_int_equal(uma_sharding_layer_params(&s, m, 0).dense, 12 * 512 * 512 + 13 * 512);
    train.tp = 4; /* matrices and column-parallel biases by four; row-parallel biases and norms whole */
    s = uma_sharding_of(&train);
    assert_int_equal(uma_sharding_layer_params(&s, m, 0).dense, 12 * 512 * 512 / 4 + (3 + 4) * 512 / 4 + 2 * 512 + 4 * 512);
}

static void groups_fewer_than_ranks_are_repeated(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = llama_model();
    struct uma_train train = { .tp = 16 };
    struct uma_sharding s = uma_sharding_of(&train);
    uint64_t q_and_o = 2 * 4096 * 4096 / 16, k_and_v = 2 * 4096 * 128, mlp = 3 * 4096 * 14336 / 16, norms = 2 * 4096;
    assert_int_equal(uma_sharding_layer_params(&s, m, 0).dense, q_and_o + k_and_v + mlp + norms);
}

static void experts_are_divided_by_their_own_dimensions(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(1, 512, 8, 0);
    m->mlp_bias = m->qkv_bias = m->o_bias = false;
    m->layers[0].ffn = UMA_FFN_MOE;
    m->layers[0].experts = 8;
    m->layers[0].experts_per_token = 2;
    struct uma_train train = { .tp = 2, .ep = 2, .sequence_parallel = true };
    struct uma_sharding s = uma_sharding_of(&train);
    struct uma_rank_params p = uma_sharding_layer_params(&s, m, 0);
    assert_int_equal(p.experts, 4 * 2 * 512 * 2048 / 2);
    assert_int_equal(p.dense, 4 * 512 * 512 / 2 + 8 * 512 /* router */ + 4 * 512);
    train.expert_tp = 1;
    s = uma_sharding_of(&train);
    assert_int_equal(uma_sharding_layer_params(&s, m, 0).experts, 4 * 2 * 512 * 2048);
}

static void adapters_are_cut_where_their_matrix_is(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(1, 512, 8, 0);
    struct uma_train train = { .tp = 2 };
    struct uma_sharding s = uma_sharding_of(&train);
    assert_int_equal(uma_sharding_layer_adapter(&s, m, 0, 8, 0), 8 * (4 * (512 + 256) + 2 * (512 + 1024)));
    uint64_t q_and_v = UMA_LINEAR_BIT(UMA_LINEAR_Q) | UMA_LINEAR_BIT(UMA_LINEAR_V);
    assert_int_equal(uma_sharding_layer_adapter(&s, m, 0, 8, q_and_v), 8 * 2 * (512 + 256));
    m->layers[0].ffn = UMA_FFN_MOE; /* four experts go by the names of the dense matrices */
    m->layers[0].experts = 4;
    assert_int_equal(uma_sharding_layer_adapter(&s, m, 0, 8, UMA_LINEAR_BIT(UMA_LINEAR_UP)), 4 * 8 * (512 + 1024));
}

static void vocabularies_are_padded(void **state) {
    (void)state;
    assert_int_equal(uma_sharding_vocab(50257, 128, 1), 50304);
    assert_int_equal(uma_sharding_vocab(50257, 128, 4), 50688);
    assert_int_equal(uma_sharding_vocab(131072, 128, 8), 131072);
    assert_int_equal(uma_sharding_vocab(7, 0, 0), 7);
    assert_true(uma_sharding_vocab(UINT64_MAX, 128, 8) >= UINT64_MAX - 1024);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_what_the_dimensions_leave),    cmocka_unit_test(zero_stages_share_out_more_and_more),
        cmocka_unit_test(layers_are_dealt_out_chunk_after_chunk), cmocka_unit_test(a_gpt_layer_has_twelve_h_squared),
        cmocka_unit_test(groups_fewer_than_ranks_are_repeated),   cmocka_unit_test(experts_are_divided_by_their_own_dimensions),
        cmocka_unit_test(adapters_are_cut_where_their_matrix_is), cmocka_unit_test(vocabularies_are_padded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
