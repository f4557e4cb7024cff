/* SPDX-License-Identifier: MIT */
/* What loading the model takes before a training job runs. */
#include "test.h"

#include <string.h>

#include "plan/fit.h"
#include "plan/training.h"
#include "training_shapes.h"

/* The built-in shape's checkpoint: 8,030,261,248 parameters in 16 bits. */
#define LLAMA_FILES UINT64_C(16060522496)

static struct uma_load load_of(const struct uma_model *model, const struct uma_train *train, struct uma_estimate *ret_estimate) {
    assert_int_equal(uma_plan_train(model, train, ret_estimate, NULL), 0);
    return ret_estimate->load;
}

/* The files' own pages are the host's copy: nothing but the weights and the process leaves the pool. */
static void mapped_in_its_own_format(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = { .method = UMA_METHOD_LORA, .weights = UMA_FORMAT_BF16, .batch = 1, .seq = 2048 };
    struct uma_estimate e;
    struct uma_load load = load_of(model, &train, &e);
    assert_string_equal(load.loader, "mmap");
    assert_int_equal(load.page_cache, LLAMA_FILES);
    assert_int_equal(load.staging, 0);
    assert_int_equal(load.growth, 0);
    assert_int_equal(load.peak, e.groups[UMA_TERM_WEIGHTS] + e.context);
    assert_int_equal(load.needs_free, load.peak + LLAMA_FILES);
    assert_true(load.peak < e.device);
    assert_false(uma_usable(load.seconds.validity));
    train.read_bytes_per_second = 2e9;
    load = load_of(model, &train, &e);
    assert_true(load.seconds.value > 8.02 && load.seconds.value < 8.04); /* 16.06 GB at 2 GB/s */
}

/* NeMo Automodel issue 3532: a 62 GB model, read whole and then copied, took the 120 GB of a Spark. */
static void read_whole_it_is_there_twice(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = { .method = UMA_METHOD_LORA, .batch = 1, .seq = 512, .loader = UMA_LOADER_EAGER };
    struct uma_estimate e;
    struct uma_load load = load_of(model, &train, &e);
    assert_int_equal(load.staging, LLAMA_FILES);
    assert_int_equal(load.peak, 2 * LLAMA_FILES + e.context);
    struct uma_fit fit;
    uma_fit_judge(&e, (struct uma_u64){ UINT64_C(30) << 30, UMA_KNOWN }, &fit);
    assert_true(fit.load_decides);
    assert_int_equal(fit.need, load.peak);
    assert_int_equal(fit.fits, UMA_NO);
    bool told = false;
    for (uint32_t i = 0; i < e.warning_count; i++)
        told |= strstr(e.warnings[i], "loading peaks at") != NULL;
    assert_true(told);
}

/* A layer of Llama 3 8B: q 4096 x 4096, k and v 4096 x 1024, o 4096 x 4096, three matrices of 4096 x 14336: 218,103,808 parameters. */
static void quantising_on_load_holds_a_layer(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = { .method = UMA_METHOD_QLORA, .batch = 1, .seq = 2048 };
    struct uma_estimate e;
    struct uma_load load = load_of(model, &train, &e);
    assert_int_equal(load.growth, 2 * 218103808);
    assert_int_equal(load.peak, e.groups[UMA_TERM_WEIGHTS] + e.context + load.growth);
    assert_int_equal(load.page_cache, LLAMA_FILES); /* the files are still in 16 bits */
}

static void fp32_moves_tensor_by_tensor(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = { .weights = UMA_FORMAT_F32, .batch = 1, .seq = 2048 };
    struct uma_estimate e;
    struct uma_load load = load_of(model, &train, &e);
    assert_int_equal(e.groups[UMA_TERM_WEIGHTS], 2 * LLAMA_FILES);
    assert_int_equal(load.growth, UINT64_C(128256) * 4096 * 4); /* the embedding in fp32 */
}

/* FSDP's first rank has the whole model before it is divided; fsdp_qlora: more than 128 GB of host memory for 70B, most of it the files. */
static void fsdp_begins_with_the_whole_on_one_rank(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_2_70B);
    struct uma_train train = {
        .method = UMA_METHOD_QLORA, .weights = UMA_FORMAT_NF4_DQ, .batch = 1, .seq = 2048, .shard = UMA_SHARD_FSDP, .nodes = 2
    };
    struct uma_estimate e;
    struct uma_load load = load_of(model, &train, &e);
    assert_true(load.growth > (uint64_t)GIB(32) && load.growth < (uint64_t)GIB(34)); /* 68.5 G x 4.127 bits and 0.5 G x 2 B */
    assert_true(load.peak + load.page_cache > (uint64_t)GIB(128));
    train.loader = UMA_LOADER_STREAMED; /* each rank reads its own part */
    struct uma_load streamed = load_of(model, &train, &e);
    assert_true(streamed.peak + (uint64_t)GIB(25) < load.peak);
    train.loader = UMA_LOADER_DEFAULT;
    train.method = UMA_METHOD_LORA; /* in the files' own format the whole model is their pages */
    train.weights = UMA_FORMAT_BF16;
    assert_int_equal(load_of(model, &train, &e).growth, 0);
}

static void what_starts_at_random_reads_nothing(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = dense_model(&LLAMA_3_8B);
    struct uma_train train = { .objective = UMA_OBJECTIVE_PRETRAIN, .batch = 1, .seq = 2048 };
    struct uma_estimate e;
    struct uma_load load = load_of(model, &train, &e);
    assert_null(load.loader);
    assert_int_equal(load.peak, 0);
    train.objective = UMA_OBJECTIVE_SFT;
    train.framework = UMA_FRAMEWORK_MEGATRON; /* a distributed checkpoint */
    assert_string_equal(load_of(model, &train, &e).loader, "streamed");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapped_in_its_own_format),
        cmocka_unit_test(read_whole_it_is_there_twice),
        cmocka_unit_test(quantising_on_load_holds_a_layer),
        cmocka_unit_test(fp32_moves_tensor_by_tensor),
        cmocka_unit_test(fsdp_begins_with_the_whole_on_one_rank),
        cmocka_unit_test(what_starts_at_random_reads_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
