/* SPDX-License-Identifier: MIT */
/* Models from --params and from a shape. */
#include "plan/model/builtin.h"
#include "test.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static struct uma_model *from(const struct uma_shape *shape) {
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    if (uma_model_from_shape(shape, &model, &err) < 0)
        fail_msg("%s", err.text);
    return model;
}

static uint64_t structural(struct uma_model *model) {
    uma_structure_count(model);
    return uma_model_params(model);
}

/* The count that was given is kept exactly, and the shape beneath it has it within half a percent. */
static void a_count_alone(void **state) {
    (void)state;
    static const uint64_t counts[] = { 20000000,     120000000,     490000000,     1100000000,    2700000000,
                                       7600000000,   9000000000,    27000000000,   34000000000u,  47000000000u,
                                       70000000000u, 110000000000u, 180000000000u, 400000000000u, 1000000000000u };
    for (size_t i = 0; i < ELEMENTS(counts); i++) {
        struct uma_shape shape = { .params = counts[i] };
        _cleanup_model_ struct uma_model *model = from(&shape);
        assert_int_equal(uma_model_params(model), counts[i]);
        assert_int_equal(uma_model_bytes(model), 2 * counts[i]);
        assert_int_equal(model->basis, UMA_BASIS_GUESS);
        assert_true(model->warning_count > 0);
        assert_true(model->layer_count > 0 && model->hidden > 0 && model->vocab > 0);
        double off = fabs((double)structural(model) / (double)counts[i] - 1);
        /* of 20 million the embedding is most, and the feed-forward has no multiple of 64 left to fit */
        if (off > (counts[i] < 100000000 ? 0.05 : 0.005))
            fail_msg("%llu parameters: the shape is off by %.2f %%", (unsigned long long)counts[i], 100 * off);
    }
}

/* A count with three digits or more that a published model has is taken as that model; a plain size never. */
static void a_count_that_is_a_models(void **state) {
    (void)state;
    static const struct {
        uint64_t params;
        const char *name;
    } cases[] = { { 7240000000, "mistralai/Mistral-7B-v0.1" },
                  { 8030000000, "meta-llama/Meta-Llama-3-8B" },
                  { 46700000000, "mistralai/Mixtral-8x7B-v0.1" },
                  { 6740000000, "meta-llama/Llama-2-7b-hf" },
                  { 235000000000, "Qwen/Qwen3-235B-A22B" } };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_shape shape = { .params = cases[i].params };
        _cleanup_model_ struct uma_model *model = from(&shape);
        assert_string_equal(model->name, cases[i].name);
        assert_int_equal(model->basis, UMA_BASIS_GUESS);
        assert_true(model->warning_count > 0);
    }
    struct uma_shape size = { .params = 8000000000 }, more = { .params = 7240000000, .vocab = 64000 };
    _cleanup_model_ struct uma_model *plain = from(&size), *shaped = from(&more);
    assert_int_equal(uma_model_params(plain), 8000000000);
    assert_int_equal(shaped->vocab, 64000);
}

static void a_mixture(void **state) {
    (void)state;
    struct uma_shape shape = { .params = 120000000000, .experts = 128, .experts_per_token = 4 };
    _cleanup_model_ struct uma_model *model = from(&shape);
    assert_int_equal(uma_model_params(model), 120000000000);
    assert_int_equal(model->layers[0].ffn, UMA_FFN_MOE);
    assert_int_equal(model->layers[0].experts, 128);
    assert_int_equal(model->layers[0].experts_per_token, 4);
    assert_true(fabs((double)structural(model) / 120e9 - 1) < 0.005);
}

static void what_is_given_stays(void **state) {
    (void)state;
    struct uma_shape shape = { .params = 8030261248, .hidden = 4096, .layers = 32, .kv_heads = 8, .vocab = 128256 };
    _cleanup_model_ struct uma_model *model = from(&shape);
    assert_int_equal(model->hidden, 4096);
    assert_int_equal(model->layer_count, 32);
    assert_int_equal(model->vocab, 128256);
    assert_int_equal(model->layers[31].kv_heads, 8);
    assert_int_equal(model->layers[31].heads, 32);
    /* the one dimension that was missing is Llama 3.1's */
    assert_int_equal(model->layers[31].ffn_size, 14336);
}

static void an_exact_shape_is_counted(void **state) {
    (void)state;
    struct uma_shape llama = { .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336, .vocab = 128256 };
    _cleanup_model_ struct uma_model *model = from(&llama);
    assert_int_equal(uma_model_params(model), 8030261248);
    assert_int_equal(model->basis, UMA_BASIS_STRUCTURE);
    assert_int_equal(model->warning_count, 0);

    /* GPT-2 small: biases, LayerNorm, learned positions, tied, ungated */
    struct uma_shape gpt2 = { .hidden = 768,
                              .layers = 12,
                              .heads = 12,
                              .ffn = 3072,
                              .vocab = 50257,
                              .tied = UMA_YES,
                              .gated = UMA_NO,
                              .bias = UMA_YES,
                              .positions = 1024 };
    _cleanup_model_ struct uma_model *small = from(&gpt2);
    assert_int_equal(uma_model_params(small), 124439808);

    struct uma_shape mixtral = {
        .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 8, .ffn = 14336, .vocab = 32000, .experts = 8, .experts_per_token = 2
    };
    _cleanup_model_ struct uma_model *experts = from(&mixtral);
    assert_int_equal(uma_model_params(experts), 46702792704);

    struct uma_shape deepseek = { .hidden = 2048,
                                  .layers = 27,
                                  .heads = 16,
                                  .ffn = 10944,
                                  .vocab = 102400,
                                  .experts = 64,
                                  .experts_per_token = 6,
                                  .expert_ffn = 1408,
                                  .shared_ffn = 2816,
                                  .dense_layers = 1,
                                  .kv_lora_rank = 512,
                                  .qk_nope_dim = 128,
                                  .qk_rope_dim = 64,
                                  .v_head_dim = 128 };
    _cleanup_model_ struct uma_model *lite = from(&deepseek);
    assert_int_equal(uma_model_params(lite), 15706484224);
    assert_int_equal(lite->layers[0].ffn, UMA_FFN_DENSE);
    assert_int_equal(lite->layers[1].mixer, UMA_MIXER_MLA);
}

static void a_pattern(void **state) {
    (void)state;
    struct uma_shape shape = {
        .hidden = 1024, .heads = 16, .kv_heads = 8, .head_dim = 128, .ffn = 4096, .vocab = 32000, .pattern = "M-M*|-M-M/*-/*-"
    };
    _cleanup_model_ struct uma_model *model = from(&shape);
    assert_int_equal(model->layer_count, 8);
    assert_int_equal(model->layers[0].mixer, UMA_MIXER_MAMBA2);
    assert_int_equal(model->layers[0].ffn, UMA_FFN_NONE);
    assert_int_equal(model->layers[1].ffn, UMA_FFN_DENSE);
    assert_int_equal(model->layers[3].mixer, UMA_MIXER_ATTENTION);
    assert_int_equal(model->mtp_layers, 2);
    assert_int_equal(model->ssm_heads, 32);

    struct uma_error err = { 0 };
    struct uma_model *none = NULL;
    shape.pattern = "MX";
    assert_int_equal(uma_model_from_shape(&shape, &none, &err), -EINVAL);
    assert_non_null(strstr(err.text, "character 2"));
}

static void a_count_that_the_shape_does_not_have(void **state) {
    (void)state;
    struct uma_shape shape = {
        .params = 9000000000, .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 8, .ffn = 14336, .vocab = 128256
    };
    _cleanup_model_ struct uma_model *model = from(&shape);
    assert_int_equal(uma_model_params(model), 9000000000);
    assert_int_equal(model->warning_count, 1);
}

static void what_cannot_be(void **state) {
    (void)state;
    static const struct uma_shape shapes[] = {
        { 0 },
        { .hidden = 4096 },
        { .params = UINT64_MAX },
        { .params = 7000000000, .layers = 5000 },
        { .params = 7000000000, .heads = 8, .kv_heads = 16 },
        { .params = 7000000000, .experts = 4, .experts_per_token = 8 },
        { .params = 7000000000, .vocab = UINT64_MAX },
    };
    for (size_t i = 0; i < ELEMENTS(shapes); i++) {
        struct uma_model *model = NULL;
        struct uma_error err = { 0 };
        assert_int_equal(uma_model_from_shape(&shapes[i], &model, &err), -EINVAL);
        assert_null(model);
        assert_true(err.text[0] != 0);
    }
}

/* Numbers at their limits stay numbers: nothing wraps, nothing is divided by zero. */
static void extremes(void **state) {
    (void)state;
    static const struct uma_shape shapes[] = {
        { .params = 1 },
        { .params = UINT64_MAX / 64 },
        { .params = 1000000000, .hidden = 1 },
        { .params = 1000000000, .hidden = 1 << 24, .layers = 2048 },
        { .hidden = 1, .layers = 1, .heads = 1, .ffn = 1, .vocab = 1 },
        { .params = 1000000000, .heads = 1 << 20 },
    };
    for (size_t i = 0; i < ELEMENTS(shapes); i++) {
        _cleanup_model_ struct uma_model *model = from(&shapes[i]);
        assert_true(uma_model_params(model) > 0);
        assert_true(model->layer_count > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_count_alone),
        cmocka_unit_test(a_count_that_is_a_models),
        cmocka_unit_test(a_mixture),
        cmocka_unit_test(what_is_given_stays),
        cmocka_unit_test(a_pattern),
        cmocka_unit_test(what_cannot_be),
        cmocka_unit_test(an_exact_shape_is_counted),
        cmocka_unit_test(extremes),
        cmocka_unit_test(a_count_that_the_shape_does_not_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
