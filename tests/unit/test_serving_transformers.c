/* SPDX-License-Identifier: MIT */
#include "plan/serving.h"
#include "plan_models.h"
#include "test.h"

#include "base/units.h"

/* Qwen's tables of transformers, batch 1, 2048 tokens generated (qwen.readthedocs.io, "Speed Benchmark"): figures in MiB and GiB. */
static struct uma_estimate plan(const struct test_shape *shape, enum uma_format format, uint64_t prompt, enum uma_logits logits) {
    struct test_model t;
    test_model_make(&t, "qwen", shape, format);
    struct uma_serve serve = {
        .engine = UMA_ENGINE_TRANSFORMERS, .context = prompt + 2048, .prompt_tokens = prompt, .logits = logits, .gpu_layers = -1
    };
    struct uma_estimate e;
    struct uma_error err;
    assert_int_equal(uma_plan_serve(&t.model, &serve, &e, &err), 0);
    return e;
}

static void assert_near(uint64_t bytes, double mib, double tolerance) {
    double is = (double)bytes / (double)UMA_MIB;
    if (is < mib * (1 - tolerance) || is > mib * (1 + tolerance))
        fail_msg("%.0f MiB is not %.0f MiB within %g", is, mib, tolerance);
}

static void weights_cache_and_a_workspace_when_nothing_is_prefilled(void **state) {
    (void)state;
    /* v3, transformers 4.51: Qwen3-0.6B 1394, GPTQ-Int8 986; Qwen3-8B 15947 MiB at an input of 1 */
    struct uma_estimate e = plan(SHAPE_QWEN3_06B, UMA_FORMAT_BF16, 1, UMA_LOGITS_LAST);
    assert_near(e.total, 1394, 0.005);
    assert_int_equal(e.groups[UMA_TERM_KV_CACHE], 2049 * 28 * 2 * 8 * 128 * 2);
    e = plan(SHAPE_QWEN3_06B, UMA_FORMAT_GPTQ8_G128, 1, UMA_LOGITS_LAST);
    assert_near(e.total, 986, 0.01);
    e = plan(SHAPE_QWEN3_8B, UMA_FORMAT_BF16, 1, UMA_LOGITS_LAST);
    assert_near(e.total, 15947, 0.002);
    assert_true(e.low <= 15947 * UMA_MIB && 15947 * UMA_MIB <= e.high);
}

static void a_tied_fp8_checkpoint_loads_untied(void **state) {
    (void)state;
    /* v3: Qwen3-0.6B FP8 at 6144 + 2048: 1943 MiB without the prefill, 297 of which are the second embedding; Qwen3-8B, not tied: 9323 */
    struct uma_estimate e = plan(SHAPE_QWEN3_06B, UMA_FORMAT_FP8, 1, UMA_LOGITS_LAST);
    assert_near(e.total, 1943 - 896 + 224, 0.01);
    e = plan(SHAPE_QWEN3_8B, UMA_FORMAT_FP8, 1, UMA_LOGITS_LAST);
    assert_near(e.total, 9323, 0.005);
}

static void the_prompt_is_computed_in_one_piece(void **state) {
    (void)state;
    /* v2.5, transformers 4.46: Qwen2.5-0.5B at 30720 + 2048: 2.34 GiB; Qwen2.5-3B GPTQ-Int8 at 14336 + 2048: 4.89, at 30720 + 2048: 6.72 */
    assert_near(plan(SHAPE_QWEN25_05B, UMA_FORMAT_BF16, 30720, UMA_LOGITS_LAST).total, 2.34 * 1024, 0.02);
    struct uma_estimate e = plan(SHAPE_QWEN25_3B, UMA_FORMAT_GPTQ8_G128, 14336, UMA_LOGITS_LAST);
    assert_near(e.total, 4.89 * 1024, 0.02);
    e = plan(SHAPE_QWEN25_3B, UMA_FORMAT_GPTQ8_G128, 30720, UMA_LOGITS_LAST);
    assert_near(e.total, 6.72 * 1024, 0.02);
    assert_true(e.low < e.total && e.total < e.high);
}

static void old_versions_have_logits_of_every_prompt_token(void **state) {
    (void)state;
    /* v2.0, transformers 4.38: Qwen2-0.5B at 30720 + 2048: 27.61 GiB, of which 26708 MiB are 30720 x 151936 x 6 B; at 14336: 13.48 */
    struct uma_estimate e = plan(SHAPE_QWEN25_05B, UMA_FORMAT_BF16, 30720, UMA_LOGITS_ALL_FP32);
    assert_near(e.total, 27.61 * 1024, 0.01);
    assert_near(plan(SHAPE_QWEN25_05B, UMA_FORMAT_BF16, 14336, UMA_LOGITS_ALL_FP32).total, 13.48 * 1024, 0.01);
    assert_int_equal(e.warning_count > 0, 1);
    uint64_t half = plan(SHAPE_QWEN25_05B, UMA_FORMAT_BF16, 30720, UMA_LOGITS_ALL).groups[UMA_TERM_ACTIVATIONS];
    assert_int_equal(e.groups[UMA_TERM_ACTIVATIONS] - half, 30720ull * 151936 * 4);
}

static void a_chunked_prefill_holds_a_chunk(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen", SHAPE_QWEN3_32B, UMA_FORMAT_BF16);
    struct uma_serve serve = { .engine = UMA_ENGINE_TRANSFORMERS, .context = 32768, .prompt_tokens = 32768, .batched_tokens = 2048 };
    struct uma_estimate e;
    assert_int_equal(uma_plan_serve(&t.model, &serve, &e, NULL), 0);
    assert_int_equal(e.groups[UMA_TERM_ACTIVATIONS], 2048ull * (6 * 25600 + 8 * 5120));
    /* eager attention writes the scores of all heads: 2048 x 32768 x 64 x 6 B more */
    serve.flash_attention = UMA_NO;
    assert_int_equal(uma_plan_serve(&t.model, &serve, &e, NULL), 0);
    assert_int_equal(e.groups[UMA_TERM_ACTIVATIONS], 2048ull * (6 * 25600 + 8 * 5120) + 2048ull * 32768 * 64 * 6);
}

static void a_tuple_cache_is_there_twice(void **state) {
    (void)state;
    /* QwenLM/Qwen README: Qwen-72B-Chat, 2048 tokens generated, bf16, over two devices: 144.69 GiB; 80 layers, 64 heads of 128, untied */
    const struct test_shape qwen = { 80, 8192, 64, 64, 128, 24576, 152064, 0, 0, false };
    struct test_model t;
    test_model_make(&t, "qwen", &qwen, UMA_FORMAT_BF16);
    struct uma_serve serve = { .engine = UMA_ENGINE_TRANSFORMERS, .context = 2048, .prompt_tokens = 1, .tuple_cache = true };
    struct uma_estimate e;
    assert_int_equal(uma_plan_serve(&t.model, &serve, &e, NULL), 0);
    assert_near(e.total, 144.69 * 1024, 0.005);
    assert_int_equal(e.groups[UMA_TERM_KV_CACHE], 2 * 2048ull * 80 * 2 * 64 * 128 * 2);
}

static void what_leaves_the_pool_is_more_than_what_is_allocated(void **state) {
    (void)state;
    struct uma_estimate e = plan(SHAPE_QWEN3_8B, UMA_FORMAT_BF16, 6144, UMA_LOGITS_LAST);
    assert_true(e.reserved > e.total);
    assert_int_equal(e.device, e.reserved + e.context + e.host);
    assert_true(e.device_high > e.device);
    assert_int_equal(e.context, 741326848);
    assert_true(e.load.peak >= e.groups[UMA_TERM_WEIGHTS]);
    assert_int_equal(e.flag_count, 2); /* device_map="cuda", and what is generated */
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_BF16);
    struct uma_serve all_prompt = { .engine = UMA_ENGINE_TRANSFORMERS, .context = 2048 };
    assert_int_equal(uma_plan_serve(&t.model, &all_prompt, &e, NULL), 0);
    assert_int_equal(e.flag_count, 1);
    assert_string_equal(e.flags[0], "device_map=\"cuda\"");
}

static uint64_t litgpt(const char *name, enum uma_format format, uint64_t context, uint32_t tp, uint32_t pp) {
    struct uma_error err = { 0 };
    struct uma_model *model = NULL;
    assert_int_equal(uma_model_open(name, &model, &err), 0);
    uma_model_set_format(model, format);
    struct uma_serve serve = { .engine = UMA_ENGINE_LITGPT, .context = context, .prompt_tokens = 1, .tp = tp, .pp = pp, .gpu_layers = -1 };
    struct uma_estimate e;
    assert_int_equal(uma_plan_serve(model, &serve, &e, &err), 0);
    (void)uma_model_free(model);
    return e.total;
}

static void assert_gb(uint64_t bytes, double gb) {
    if ((double)bytes < gb * 0.993e9 || (double)bytes > gb * 1.007e9)
        fail_msg("%.3f GB is not %.2f GB", (double)bytes / 1e9, gb);
}

static void litgpt_quantises_lm_head_and_keeps_all_heads(void **state) {
    (void)state;
    /* Lightning-AI/litgpt, tutorials: `litgpt generate` of 50 tokens, and 256 tokens on several A100; decimal GB */
    assert_gb(litgpt("meta-llama/Llama-2-7b-hf", UMA_FORMAT_BF16, 58, 1, 1), 13.52);
    assert_gb(litgpt("meta-llama/Llama-2-7b-hf", UMA_FORMAT_NF4, 58, 1, 1), 4.57);
    assert_gb(litgpt("meta-llama/Llama-2-7b-hf", UMA_FORMAT_NF4_DQ, 58, 1, 1), 4.26);
    assert_gb(litgpt("meta-llama/Llama-2-70b-hf", UMA_FORMAT_NF4_DQ, 58, 1, 1), 37.21);
    assert_gb(litgpt("meta-llama/Llama-2-70b-hf", UMA_FORMAT_BF16, 256, 1, 5), 28.72);
    assert_gb(litgpt("meta-llama/Llama-2-70b-hf", UMA_FORMAT_BF16, 256, 8, 1), 18.19);
    assert_gb(litgpt("meta-llama/Llama-2-70b-hf", UMA_FORMAT_NF4_DQ, 256, 2, 1), 19.79);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_cache_and_a_workspace_when_nothing_is_prefilled),
        cmocka_unit_test(a_tied_fp8_checkpoint_loads_untied),
        cmocka_unit_test(the_prompt_is_computed_in_one_piece),
        cmocka_unit_test(old_versions_have_logits_of_every_prompt_token),
        cmocka_unit_test(a_chunked_prefill_holds_a_chunk),
        cmocka_unit_test(a_tuple_cache_is_there_twice),
        cmocka_unit_test(litgpt_quantises_lm_head_and_keeps_all_heads),
        cmocka_unit_test(what_leaves_the_pool_is_more_than_what_is_allocated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
