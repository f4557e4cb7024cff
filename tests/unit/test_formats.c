/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "uma_plan.h"

#include <math.h>
#include <string.h>

/* Bits per weight as published: ggml's block structs, the OCP MX paper, QLoRA, DeepSeek-V3, and the arithmetic of group sizes. */
static const struct {
    const char *name;
    double bits;
} published[] = {
    { "F32", 32 },
    { "F16", 16 },
    { "BF16", 16 },
    { "Q4_0", 4.5 },
    { "Q4_1", 5 },
    { "Q5_0", 5.5 },
    { "Q5_1", 6 },
    { "Q8_0", 8.5 },
    { "Q8_1", 9 },
    { "Q2_K", 2.625 },
    { "Q3_K", 3.4375 },
    { "Q4_K", 4.5 },
    { "Q5_K", 5.5 },
    { "Q6_K", 6.5625 },
    { "Q8_K", 9.125 },
    { "IQ2_XXS", 2.0625 },
    { "IQ2_XS", 2.3125 },
    { "IQ2_S", 2.5625 },
    { "IQ3_XXS", 3.0625 },
    { "IQ3_S", 3.4375 },
    { "IQ1_S", 1.5625 },
    { "IQ1_M", 1.75 },
    { "IQ4_NL", 4.5 },
    { "IQ4_XS", 4.25 },
    { "TQ1_0", 1.6875 },
    { "TQ2_0", 2.0625 },
    { "MXFP4", 4.25 },
    { "IQ4_KS (ik)", 4.25 },
    { "IQ2_K (ik)", 2.375 },
    { "IQ3_K (ik)", 3.4375 },
    { "IQ4_K (ik)", 4.5 },
    { "IQ5_K (ik)", 5.5 },
    { "IQ6_K (ik)", 6.625 },
    { "IQ4_KT (ik)", 4 },
    { "IQ2_KS", 2.1875 },
    { "IQ2_KL", 2.6875 },
    { "IQ3_KS", 3.1875 },
    { "IQ4_KSS - 4.0 bpw", 4 },
    { "IQ5_KS", 5.25 },
    { "IQ1_KT", 1.75 },
    { "IQ2_KT", 2.125 },
    { "IQ3_KT", 3.125 },
    { "IQ2_BN - 2.00 bpw Bitnet", 2 },
    { "IQ1_BN", 1.625 },
    { "Q6_0", 6.5 },
    { "Q1_0", 1.125 },
    { "Q2_0", 2.25 },
    { "NF4 (no double quant)", 4.5 },
    { "NF4 + double quant", 4.127 },
    { "INT8 (LLM.int8)", 8 },
    { "GPTQ int4 g128 (sym, 4-bit zero)", 4.15625 },
    { "GPTQ int4 no groups", 4.004 },
    { "AWQ int4 g128", 4.15625 },
    { "AWQ/GPTQ int4 g64", 4.3125 },
    { "AWQ/GPTQ int4 g32", 4.625 },
    { "compressed-tensors W4A16 g128 symmetric", 4.125 },
    { "FP8 block 128x128", 8.002 },
    { "FP8 per-channel/per-tensor", 8 },
    { "MXFP8", 8.25 },
    { "MXFP6", 6.25 },
    { "NVFP4", 4.5 },
    { "HQQ int4 g64", 4.5 },
    { "KV f16/bf16", 16 },
    { "KV q8_0", 8.5 },
    { "KV q4_0/iq4_nl", 4.5 },
    { "KV fp8_e4m3/e5m2", 8 },
};

static void test_bits(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        enum uma_format format = uma_format_from_name(published[i].name);
        if (fabs(uma_format_bits(format) - published[i].bits) > 0.0006)
            fail_msg("%s: %s of %g bits, published %g", published[i].name, uma_format_name(format), uma_format_bits(format),
                     published[i].bits);
    }
}

static void test_spellings(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum uma_format format;
    } spellings[] = {
        { "bfloat16", UMA_FORMAT_BF16 },
        { "torch.bfloat16", UMA_FORMAT_BF16 },
        { "BF16", UMA_FORMAT_BF16 },
        { "float16", UMA_FORMAT_F16 },
        { "half", UMA_FORMAT_F16 },
        { "fp16", UMA_FORMAT_F16 },
        { "float32", UMA_FORMAT_F32 },
        { "FP32", UMA_FORMAT_F32 },
        { "fp8", UMA_FORMAT_FP8 },
        { "fp8_e4m3", UMA_FORMAT_FP8 },
        { "e5m2", UMA_FORMAT_FP8 },
        { "F8_E4M3", UMA_FORMAT_FP8 },
        { "float8_e4m3fn", UMA_FORMAT_FP8 },
        { "int8", UMA_FORMAT_INT8 },
        { "I8", UMA_FORMAT_I8 },
        { "U8", UMA_FORMAT_I8 },
        { "BOOL", UMA_FORMAT_BOOL },
        { "bnb-nf4", UMA_FORMAT_NF4 },
        { "bnb.nf4", UMA_FORMAT_NF4 },
        { "bnb.fp4", UMA_FORMAT_NF4 },
        { "nf4", UMA_FORMAT_NF4 },
        { "nf4-dq", UMA_FORMAT_NF4_DQ },
        { "bnb.nf4-dq", UMA_FORMAT_NF4_DQ },
        { "gptq-int4", UMA_FORMAT_GPTQ4_G128 },
        { "GPTQ-Int8", UMA_FORMAT_GPTQ8_G128 },
        { "int4(gptq)", UMA_FORMAT_GPTQ4_G128 },
        { "int4", UMA_FORMAT_GPTQ4_G128 },
        { "awq-int4", UMA_FORMAT_AWQ4_G128 },
        { "AWQ-INT4", UMA_FORMAT_AWQ4_G128 },
        { "w4a16", UMA_FORMAT_W4A16_G128 },
        { "hqq4", UMA_FORMAT_HQQ4_G64 },
        { "int4wo-64", UMA_FORMAT_HQQ4_G64 },
        { "mxfp4_moe", UMA_FORMAT_MXFP4 },
        { "Q4_K_M", UMA_FORMAT_Q4_K },
        { "Q4_K - Medium", UMA_FORMAT_Q4_K },
        { "Q5_K - Small", UMA_FORMAT_Q5_K },
        { "UD-Q4_K_XL", UMA_FORMAT_Q4_K },
        { "UD-IQ2_XXS", UMA_FORMAT_IQ2_XXS },
        { "IQ4_K_R4 - 4.5 bpw", UMA_FORMAT_IQ4_K },
        { "IQ4_KS_R4", UMA_FORMAT_IQ4_KS },
        { "Q8_0_R8 - 8.5 bpw", UMA_FORMAT_Q8_0 },
        { "IQ3_S - 3.4375 bpw", UMA_FORMAT_IQ3_S },
        { "BF16_R16", UMA_FORMAT_BF16 },
        { "q8_KV", UMA_FORMAT_Q8_KV },
        { "Q4_0_4_8", UMA_FORMAT_Q4_0 },
        { "q8_0+mxfp4", UMA_FORMAT_Q8_0 },
        { "", UMA_FORMAT_UNKNOWN },
        { "()", UMA_FORMAT_UNKNOWN },
        { "exl3", UMA_FORMAT_UNKNOWN },
        { "Q4_K_MM", UMA_FORMAT_UNKNOWN },
        { "r4", UMA_FORMAT_UNKNOWN },
        { "bf16 and then much more text than the name of any format has ever been given by anyone", UMA_FORMAT_UNKNOWN },
    };
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
        if (uma_format_from_name(spellings[i].name) != spellings[i].format)
            fail_msg("\"%s\" is read as %s", spellings[i].name, uma_format_name(uma_format_from_name(spellings[i].name)));
    assert_int_equal(uma_format_from_name(NULL), UMA_FORMAT_UNKNOWN);
}

static void test_own_names(void **state) {
    (void)state;
    for (unsigned i = 1; i < UMA_FORMAT_COUNT; i++) {
        enum uma_format format = (enum uma_format)i;
        assert_int_equal(uma_format_from_name(uma_format_name(format)), format);
    }
    assert_string_equal(uma_format_name(UMA_FORMAT_UNKNOWN), "?");
    assert_string_equal(uma_format_name((enum uma_format)9999), "?");
}

static void test_bytes(void **state) {
    (void)state;
    assert_int_equal(uma_format_bytes(UMA_FORMAT_BF16, 7), 14);
    assert_int_equal(uma_format_bytes(UMA_FORMAT_Q4_K, 4096), 2304);
    assert_int_equal(uma_format_bytes(UMA_FORMAT_Q4_K, 1), 144); /* a whole block */
    assert_int_equal(uma_format_bytes(UMA_FORMAT_Q4_K, 257), 288);
    assert_int_equal(uma_format_bytes(UMA_FORMAT_Q4_K, 0), 0);
    assert_true(uma_format_bytes(UMA_FORMAT_F32, UINT64_MAX) == UINT64_MAX);
    assert_true(uma_format_bytes(UMA_FORMAT_Q8_0, UINT64_MAX) == UINT64_MAX);
    assert_int_equal(uma_format_bytes(UMA_FORMAT_UNKNOWN, 100), 0);
    assert_int_equal(uma_format_bytes((enum uma_format)9999, 100), 0);
}

static void near(const char *name, double low, double high) {
    double bits = uma_file_type_bits(name);
    if (!(bits >= low && bits <= high))
        fail_msg("%s: %g bits, seen %g to %g", name, bits, low, high);
}

/* Whole files as llama.cpp and ik_llama.cpp print them when they load one. */
static void test_file_types(void **state) {
    (void)state;
    near("Q4_K_M", 4.84, 4.91);
    near("UD-Q4_K_M", 4.64, 4.91);
    near("Q4_K - Medium", 4.84, 4.91);
    near("Q5_K_M", 5.66, 5.7);
    near("Q5_K_S", 5.52, 5.58);
    near("Q6_K", 6.56, 6.57);
    near("Q8_0", 8.5, 8.51);
    near("IQ4_XS", 4.32, 4.46);
    near("Q4_0", 4.57, 4.7);
    near("Q3_K_M", 3.92, 4);
    near("MXFP4_MOE", 4.3, 4.4);
    near("IQ4_KS", 4.25, 4.25); /* no recipe: the format's own */
    near("gptq-int4", 4.15, 4.16);
    near("what", 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),  cmocka_unit_test(test_spellings),  cmocka_unit_test(test_own_names),
        cmocka_unit_test(test_bytes), cmocka_unit_test(test_file_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
