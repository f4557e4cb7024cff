/* SPDX-License-Identifier: MIT */
/* Published figures: github.com/pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md, most memory reserved. */
#include "plan/training.h"
#include "test.h"
#include "training_models.h"

#include <errno.h>
#include <string.h>

#define GiB (UINT64_C(1) << 30)

static struct uma_train job(uint32_t gpus) {
    return (struct uma_train){ .framework = UMA_FRAMEWORK_TORCHTITAN,
                               .objective = UMA_OBJECTIVE_PRETRAIN,
                               .shard = UMA_SHARD_FSDP,
                               .batch = 2,
                               .seq = 8192,
                               .nodes = 1,
                               .gpus_per_node = gpus };
}

static struct uma_estimate plan(const struct uma_model *model, const struct uma_train *train) {
    struct uma_estimate e = { 0 };
    struct uma_error err = { 0 };
    assert_int_equal(uma_plan_train_titan(model, train, &e, &err), 0);
    assert_true(e.low <= e.total && e.total <= e.high);
    return e;
}

static void states_are_shared_out_over_all_ranks(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = llama_model();
    struct uma_train train = job(8);
    struct uma_estimate e = plan(m, &train);
    uint64_t layer = 4096 * (4096 + 1024 + 1024 + 4096) + 3 * 4096 * 14336 + 2 * 4096;
    uint64_t params = 32 * layer + 2 * UINT64_C(128256) * 4096;
    assert_int_equal(e.groups[UMA_TERM_WEIGHTS], params * 4 / 8);
    assert_int_equal(e.groups[UMA_TERM_GRADIENTS], params * 4 / 8);
    assert_int_equal(e.groups[UMA_TERM_OPTIMIZER], params * 8 / 8);
    assert_int_equal(e.between_steps, params * 12 / 8);
}

static void published_runs_of_8b(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = llama_model();
    struct uma_train train = job(8);
    assert_true(apart(plan(m, &train).total, 824 * GiB / 10) < 400);
    train.compile = UMA_YES;
    train.loss = UMA_LOSS_FULL;
    assert_true(apart(plan(m, &train).total, 77 * GiB) < 400);
    train = job(128);
    assert_true(apart(plan(m, &train).total, 67 * GiB) < 400);
    /* full checkpointing of 32k tokens; the same over four context-parallel ranks */
    train = job(8);
    train.batch = 1;
    train.seq = 32768;
    train.compile = UMA_YES;
    train.loss = UMA_LOSS_FULL;
    train.checkpointing = UMA_CHECKPOINTING_ON;
    uint64_t one = plan(m, &train).total;
    assert_true(apart(one, 839 * GiB / 10) < 400);
    train.seq = 131072;
    train.cp = 4;
    assert_int_equal(plan(m, &train).total, one);
}

static void a_compiled_loss_makes_fp32_on_the_fly(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = llama_model();
    struct uma_train train = job(8);
    train.compile = UMA_YES;
    uint64_t compiled = plan(m, &train).groups[UMA_TERM_ACTIVATIONS];
    train.loss = UMA_LOSS_FULL;
    assert_int_equal(plan(m, &train).groups[UMA_TERM_ACTIVATIONS] - compiled, UINT64_C(16384) * 128256 * 8);
}

static void pipelines(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = llama_model();
    struct uma_train train = job(8);
    train.pp = 4;
    train.pipeline_stage = 1;
    uint64_t first = plan(m, &train).total;
    train.pipeline_stage = 4;
    uint64_t last = plan(m, &train).total;
    train.pipeline_stage = 0;
    assert_int_equal(plan(m, &train).total, first > last ? first : last);
    train.pipeline_stage = 5;
    struct uma_estimate e = { 0 };
    assert_int_equal(uma_plan_train_titan(m, &train, &e, NULL), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_shared_out_over_all_ranks),
        cmocka_unit_test(published_runs_of_8b),
        cmocka_unit_test(a_compiled_loss_makes_fp32_on_the_fly),
        cmocka_unit_test(pipelines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
