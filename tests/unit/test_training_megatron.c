/* SPDX-License-Identifier: MIT */
/* Published figures: recorded values of Megatron-LM's functional tests (tests/functional_tests/test_cases/gpt, commit d98e8a64ddf3). */
#include "plan/training.h"
#include "test.h"
#include "training_models.h"

#include <errno.h>
#include <string.h>

#define MiB UINT64_C(1048576)

/* What the functional tests have in common: eight A100, 4 x 1024 tokens, deterministic kernels. */
static struct uma_train job(void) {
    return (struct uma_train){ .framework = UMA_FRAMEWORK_MEGATRON,
                               .objective = UMA_OBJECTIVE_PRETRAIN,
                               .compute = UMA_FORMAT_BF16,
                               .attention = UMA_ATTENTION_EAGER,
                               .loss = UMA_LOSS_FULL,
                               .batch = 4,
                               .seq = 1024,
                               .accumulation = 8,
                               .nodes = 1,
                               .gpus_per_node = 8,
                               .dropout = UMA_YES,
                               .deterministic = UMA_YES,
                               .compute_capability = 80 };
}

static struct uma_estimate plan(const struct uma_model *model, const struct uma_train *train) {
    struct uma_estimate e = { 0 };
    struct uma_error err = { 0 };
    assert_int_equal(uma_plan_train_megatron(model, train, &e, &err), 0);
    assert_true(e.low <= e.total && e.total <= e.high);
    assert_true(e.device >= e.total && e.device_high >= e.high);
    return e;
}

static void a_distributed_optimizer_is_exact_between_steps(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(12, 512, 8, 1024);
    struct uma_train train = job();
    train.distributed_optimizer = true;
    struct uma_estimate e = plan(m, &train);
    /* parameters: tables, positions, 12 layers of 12 h^2 + 13 h, the last norm; 2 + 4 + 12 / 8 bytes each; 2 x 32 MiB cuBLAS + 4 MiB TE */
    uint64_t params = (50304 + 1024) * 512 + 12 * (12 * 512 * 512 + 13 * 512) + 2 * 512;
    assert_true(apart(e.between_steps, params * 15 / 2 + 68 * MiB) == 0);
    assert_true(apart(e.between_steps, 552128512) == 0);
    /* 12 layers of 34 s b h + 5 a s^2 b, 6 B of logits, 5 B h of head */
    uint64_t layer = UINT64_C(34) * 4096 * 512 + UINT64_C(5) * 8 * 1024 * 4096;
    assert_true(apart(e.total, e.between_steps + 12 * layer + UINT64_C(6) * 4096 * 50304 + UINT64_C(5) * 4096 * 512) == 0);
    assert_true(apart(e.total, 4673069568) < 20);
    train.attention = UMA_ATTENTION_FLASH; /* no scores */
    assert_true(apart(plan(m, &train).total, 2691792384 - 28 * MiB) < 30);
}

static void hopper_has_larger_workspaces(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(12, 512, 8, 1024);
    struct uma_train train = job();
    uint64_t ampere = plan(m, &train).between_steps;
    train.compute_capability = 90;
    assert_int_equal(plan(m, &train).between_steps, ampere + 28 * MiB); /* TransformerEngine's 32 for 4 */
    train.deterministic = UMA_NO;
    assert_int_equal(plan(m, &train).between_steps, ampere + 28 * MiB); /* cuBLAS as before */
    train.compute_capability = 80;
    assert_int_equal(plan(m, &train).between_steps, ampere - 2 * (32 * MiB - 8320 * 1024));
}

static void checkpointing_keeps_inputs_only(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(12, 512, 8, 1024);
    struct uma_train train = job();
    train.checkpointing = UMA_CHECKPOINTING_ON;
    struct uma_estimate e = plan(m, &train);
    assert_true(apart(e.between_steps, 1234585088) < 100);
    assert_true(apart(e.total, 2536167424) < 100);
    train.recompute_layers = 4; /* a third of the inputs fewer, four layers at once: 4 x 228 MiB are still below the logits */
    assert_int_equal(e.total - plan(m, &train).total, 9 * UINT64_C(4096) * 512 * 2);
}

static void tensor_parallelism_divides(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(12, 512, 8, 1024);
    struct uma_train train = job();
    train.tp = 4;
    train.distributed_optimizer = true;
    struct uma_estimate e = plan(m, &train);
    assert_true(apart(e.between_steps, 269842944) < 40);
    assert_true(apart(e.total, 1515676672) < 150);
    uint64_t whole = e.total;
    train.sequence_parallel = true; /* 10 s b h of each layer, and more, by four as well */
    e = plan(m, &train);
    assert_true(e.total < whole - 12 * UINT64_C(7) * 4096 * 512);
}

static void pipelines_have_a_stage_to_look_at(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(12, 512, 8, 1024);
    m->qkv_bias = m->o_bias = m->mlp_bias = false;
    struct uma_train train = job();
    train.pp = 4;
    train.pipeline_stage = 4;
    struct uma_estimate last = plan(m, &train);
    assert_true(apart(last.between_steps, 714736640) < 100);
    assert_true(apart(last.total, 2681315328) < 100);
    train.pipeline_stage = 1;
    struct uma_estimate first = plan(m, &train);
    train.pipeline_stage = 0;
    struct uma_estimate largest = plan(m, &train);
    assert_int_equal(largest.total, first.total > last.total ? first.total : last.total);
    train.pipeline_stage = 5;
    struct uma_error err = { 0 };
    struct uma_estimate untouched = { .total = 7 };
    assert_int_equal(uma_plan_train_megatron(m, &train, &untouched, &err), -EINVAL);
    assert_int_equal(untouched.total, 7);
    assert_non_null(strstr(err.text, "stage 5"));
}

static void interleaving_has_more_in_flight(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(12, 512, 8, 1024);
    struct uma_train train = job();
    train.pp = 4;
    train.virtual_stages = 3;
    train.pipeline_stage = 4;
    train.accumulation = 4;
    struct uma_estimate e = plan(m, &train);
    assert_true(apart(e.between_steps, 730321408) < 100);
    assert_true(apart(e.total, 4119165440) < 100);
    train.microbatch_group = 5;
    train.accumulation = 5;
    assert_true(apart(plan(m, &train).total, 4593254400) < 100);
}

static void half_precision_casts_its_gradients(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(12, 512, 8, 1024);
    struct uma_train train = job();
    train.pp = 4;
    train.pipeline_stage = 4;
    train.compute = UMA_FORMAT_F16;
    train.transformer_engine = UMA_NO;
    struct uma_estimate e = plan(m, &train);
    assert_true(apart(e.between_steps, 852351488) < 200);
    assert_true(apart(e.total, 2675191296) < 200);
}

static void muon_keeps_tables_whole_on_one_rank(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(12, 512, 8, 1024);
    struct uma_train train = job();
    uint64_t tables = (50304 + 1024) * 512 + 2 * 512, matrices = 12 * (12 * 512 * 512 + 13 * 512);
    train.optimizer = UMA_OPTIMIZER_MUON;
    train.distributed_optimizer = true;
    assert_int_equal(plan(m, &train).groups[UMA_TERM_OPTIMIZER], tables * 12 + matrices);
    train.distributed_optimizer = false;
    assert_int_equal(plan(m, &train).groups[UMA_TERM_OPTIMIZER], tables * 12 + matrices * 8);
}

static void a_frozen_model_has_no_states(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(12, 512, 8, 1024);
    struct uma_train train = job();
    uint64_t params = (50304 + 1024) * 512 + 12 * (12 * 512 * 512 + 13 * 512) + 2 * 512;
    train.method = UMA_METHOD_LORA;
    train.rank = 8;
    struct uma_estimate e = plan(m, &train);
    assert_int_equal(e.groups[UMA_TERM_WEIGHTS], params * 2);
    assert_int_equal(e.groups[UMA_TERM_OPTIMIZER], 0);
    assert_int_equal(e.groups[UMA_TERM_ADAPTER], 12 * 8 * (4 * 1024 + 2 * 2560) * 18);
    train.method = UMA_METHOD_QLORA;
    train.weights = UMA_FORMAT_NF4; /* 36 bytes for 64; tables stay */
    uint64_t tables = (50304 + 1024) * 512 + 2 * 512;
    assert_int_equal(plan(m, &train).groups[UMA_TERM_WEIGHTS], (params - tables) / 64 * 36 + tables * 2);
    train.weights = UMA_FORMAT_UNKNOWN;
    train.method = UMA_METHOD_FULL;
    train.objective = UMA_OBJECTIVE_DPO; /* a second copy, and twice the tokens */
    uint64_t logits = UINT64_C(6) * 8192 * 50304;
    e = plan(m, &train);
    assert_int_equal(e.groups[UMA_TERM_WEIGHTS], params * 4);
    assert_true(e.groups[UMA_TERM_ACTIVATIONS] > logits);
}

static void experts_bring_workspaces_and_sent_tokens(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(12, 512, 8, 1024);
    m->qkv_bias = m->o_bias = m->mlp_bias = false;
    for (uint32_t i = 0; i < 12; i++) {
        m->layers[i].ffn = UMA_FFN_MOE;
        m->layers[i].experts = 8;
        m->layers[i].experts_per_token = 1;
    }
    struct uma_train train = job();
    train.tp = train.ep = 2;
    train.sequence_parallel = train.distributed_optimizer = true;
    struct uma_estimate e = plan(m, &train);
    assert_true(apart(e.between_steps, 880440320) < 150);
    assert_true(apart(e.total, 3110486016) < 400);
    train.grouped_gemm = UMA_NO;
    assert_int_equal(e.between_steps - plan(m, &train).between_steps, 4 * 4 * MiB);
}

static void numbers_beyond_all_machines_saturate(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = gpt_model(2, 512, 8, 1024);
    m->hidden = UINT32_MAX;
    m->vocab = UINT64_MAX;
    m->layers[0].ffn_size = m->layers[1].ffn_size = UINT64_MAX;
    m->mtp_layers = UINT32_MAX;
    struct uma_train train = job();
    train.batch = UINT64_MAX;
    train.seq = UINT64_MAX;
    train.pp = 2;
    train.virtual_stages = UINT32_MAX;
    train.microbatch_group = UINT32_MAX;
    train.vocab_multiple = UINT32_MAX;
    struct uma_estimate e = { 0 };
    assert_int_equal(uma_plan_train_megatron(m, &train, &e, NULL), 0);
    assert_true(e.total == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_distributed_optimizer_is_exact_between_steps),
        cmocka_unit_test(hopper_has_larger_workspaces),
        cmocka_unit_test(checkpointing_keeps_inputs_only),
        cmocka_unit_test(tensor_parallelism_divides),
        cmocka_unit_test(pipelines_have_a_stage_to_look_at),
        cmocka_unit_test(interleaving_has_more_in_flight),
        cmocka_unit_test(half_precision_casts_its_gradients),
        cmocka_unit_test(muon_keeps_tables_whole_on_one_rank),
        cmocka_unit_test(a_frozen_model_has_no_states),
        cmocka_unit_test(experts_bring_workspaces_and_sent_tokens),
        cmocka_unit_test(numbers_beyond_all_machines_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
