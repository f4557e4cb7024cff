/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "plan/model/formats.h"
#include "plan/model/structure.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static struct uma_model *named(const char *name, const char *type) {
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    if (uma_model_builtin(name, &model, &err) < 0)
        fail_msg("%s", err.text);
    assert_return_code(uma_model_set_file_type(model, type), 0);
    return model;
}

/* Of the text model: a projector is a file of its own, and these files hold no MTP layers. */
static double text_bytes(const struct uma_model *model) {
    return (double)(uma_model_bytes(model) - model->totals[UMA_CLASS_VISION].bytes - model->totals[UMA_CLASS_MTP].bytes);
}

/* llama.cpp, tools/quantize/README.md: bits per weight of Llama-3.1-8B, to the last digit it prints. */
static void test_llama_3_1_8b(void **state) {
    (void)state;
    static const struct {
        const char *type;
        double bits;
    } published[] = {
        { "IQ1_S", 2.0042 },  { "IQ1_M", 2.1460 },   { "IQ2_XXS", 2.3824 }, { "IQ2_XS", 2.5882 }, { "IQ2_S", 2.7403 },
        { "IQ2_M", 2.9294 },  { "IQ3_XXS", 3.2548 }, { "IQ3_XS", 3.4977 },  { "IQ3_S", 3.6606 },  { "IQ3_M", 3.7628 },
        { "IQ4_XS", 4.4597 }, { "IQ4_NL", 4.6818 },  { "Q2_K_S", 2.9697 },  { "Q2_K", 3.1593 },   { "Q3_K_S", 3.6429 },
        { "Q3_K_L", 4.2979 }, { "Q4_K_S", 4.6672 },  { "Q4_K_M", 4.8944 },  { "Q5_K_S", 5.5704 }, { "Q5_K_M", 5.7036 },
        { "Q6_K", 6.5633 },   { "Q8_0", 8.5008 },    { "F16", 16.0005 },
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        _cleanup_model_ struct uma_model *model = named("meta-llama/Llama-3.1-8B", published[i].type);
        double bits = text_bytes(model) * 8 / (double)uma_model_params(model);
        if (fabs(bits - published[i].bits) > 0.0001)
            fail_msg("%s: %.4f bits, published %.4f", published[i].type, bits, published[i].bits);
    }
}

/* Sizes that llama.cpp and ik_llama.cpp print when they load such files ("model size"), in GiB. */
static void test_printed_sizes(void **state) {
    (void)state;
    static const struct {
        const char *model, *type;
        double gib, within;
    } printed[] = {
        { "Qwen/Qwen3-32B", "Q5_K - Medium", 21.603, 0.001 },         { "Qwen/Qwen3-30B-A3B", "Q5_K - Medium", 20.228, 0.0001 },
        { "deepseek-ai/DeepSeek-R1", "Q8_0", 664.295, 0.0001 },       { "deepseek-ai/DeepSeek-R1", "Q4_K - Medium", 376.650, 0.0001 },
        { "Qwen/Qwen3-235B-A22B", "Q4_K - Medium", 132.386, 0.0001 }, { "Qwen/Qwen3-235B-A22B", "Q6_K", 179.754, 0.0001 },
        { "openai/gpt-oss-120b", "MXFP4 MoE", 59.02, 0.0002 },        { "meta-llama/Llama-2-70b-hf", "Q4_K_M", 38.58, 0.001 },
    };
    for (size_t i = 0; i < sizeof printed / sizeof printed[0]; i++) {
        _cleanup_model_ struct uma_model *model = named(printed[i].model, printed[i].type);
        double gib = text_bytes(model) / 0x1p30;
        if (fabs(gib / printed[i].gib - 1) > printed[i].within)
            fail_msg("%s %s: %.3f GiB, printed %.3f", printed[i].model, printed[i].type, gib, printed[i].gib);
    }
}

static void test_classes(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = named("meta-llama/Llama-3.1-8B", "Q4_K_M");
    assert_string_equal(model->quantisation, "Q4_K_M");
    assert_int_equal(model->class_format[UMA_CLASS_EMBEDDING], UMA_FORMAT_Q4_K);
    assert_int_equal(model->class_format[UMA_CLASS_LM_HEAD], UMA_FORMAT_Q6_K);
    assert_int_equal(model->class_format[UMA_CLASS_NORM], UMA_FORMAT_F32);
    assert_int_equal(model->class_format[UMA_CLASS_MLP], UMA_FORMAT_Q4_K);
    assert_int_equal(model->totals[UMA_CLASS_NORM].bytes, 4 * model->totals[UMA_CLASS_NORM].params);
    /* the output's format when the embedding is the output */
    _cleanup_model_ struct uma_model *tied = named("meta-llama/Llama-3.2-1B", "Q4_K_M");
    assert_int_equal(tied->class_format[UMA_CLASS_EMBEDDING], UMA_FORMAT_Q6_K);
    /* 2,880 is not whole blocks of 256: a type with blocks of 32 instead */
    _cleanup_model_ struct uma_model *odd = named("openai/gpt-oss-20b", "Q4_K_M");
    const struct uma_tensor_total *experts = &odd->totals[UMA_CLASS_EXPERTS];
    assert_true((double)experts->bytes * 8 / (double)experts->params >= 5.5);
}

static void test_names(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = named("meta-llama/Llama-3.1-8B", "BF16");
    uint64_t before = uma_model_bytes(model);
    static const char *const others[] = { "gptq-int4", "nf4", "fp8", "nvfp4", "mxfp4", "", "Q4_K_MM" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(uma_model_set_file_type(model, others[i]), -EINVAL);
        assert_int_equal(uma_model_bytes(model), before);
        assert_string_equal(model->quantisation, "BF16");
    }
    static const char *const files[] = { "UD-Q4_K_XL", "q4_k", "Q4_K - Medium", "Q4_K_L" };
    uint64_t same = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        assert_return_code(uma_model_set_file_type(model, files[i]), 0);
        assert_true(same == 0 || same == uma_model_bytes(model));
        same = uma_model_bytes(model);
    }
    /* a type without a recipe: itself, and Q6_K for the output */
    assert_return_code(uma_model_set_file_type(model, "IQ4_KS_R4 - 4.25 bpw"), 0);
    assert_int_equal(model->class_format[UMA_CLASS_MLP], UMA_FORMAT_IQ4_KS);
    assert_int_equal(model->class_format[UMA_CLASS_LM_HEAD], UMA_FORMAT_Q6_K);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_3_1_8b),
        cmocka_unit_test(test_printed_sizes),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
