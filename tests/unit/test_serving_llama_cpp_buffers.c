/* SPDX-License-Identifier: MIT */
#include "plan/serving_llama_cpp.h"
#include "plan_models.h"
#include "test.h"

#include "base/units.h"

static double mib(uint64_t bytes) {
    return (double)bytes / (double)UMA_MIB;
}
#define assert_mib(bytes, expected, tolerance)                                                                                             \
    do {                                                                                                                                   \
        double is_ = mib(bytes), want_ = (expected);                                                                                       \
        if (is_ < want_ * (1 - (tolerance)) || is_ > want_ * (1 + (tolerance)))                                                            \
            fail_msg("%.2f MiB is not %.2f MiB within %g", is_, want_, (double)(tolerance));                                               \
    } while (0)

static struct uma_serve job(uint64_t context, uint32_t ubatch, enum uma_truth flash) {
    return (struct uma_serve){ .engine = UMA_ENGINE_LLAMA_CPP,
                               .context = context,
                               .sequences = 1,
                               .tp = 1,
                               .pp = 1,
                               .batch = 4096,
                               .ubatch = ubatch,
                               .gpu_layers = -1,
                               .flash_attention = flash,
                               .key_format = UMA_FORMAT_F16,
                               .value_format = UMA_FORMAT_F16 };
}

/* Logs of ik_llama.cpp: "CUDA0 compute buffer size" and "CUDA_Host compute buffer size". */
static void logits_are_the_largest_stage_of_most_models(void **state) {
    (void)state;
    struct test_model t;
    struct uma_llama_buffers b;

    /* issue 103: Llama 3.1 8B, n_ctx 1024, no flash attention: 266.50 and 10.01 MiB = 512 x 4 x (128256 + 2 x 4096), 512 x 4 x (1024 + 4096) */
    test_model_make(&t, "llama", SHAPE_LLAMA31_8B, UMA_FORMAT_Q5_K);
    struct uma_serve serve = job(1024, 512, UMA_NO);
    uma_llama_buffers(&t.model, &serve, &b);
    assert_int_equal(b.largest, UMA_LLAMA_OUTPUT);
    assert_mib(b.device, 266.50, 0.0001);
    assert_mib(b.host, 10.01, 0.002);

    /* discussion 397: Qwen3-32B, n_ctx 8192, n_ubatch 1024: 633.50 and 52.01 MiB */
    test_model_make(&t, "qwen3", SHAPE_QWEN3_32B, UMA_FORMAT_Q5_K);
    serve = job(8192, 1024, UMA_YES);
    uma_llama_buffers(&t.model, &serve, &b);
    assert_mib(b.device, 633.50, 0.0001);
    assert_mib(b.host, 52.01, 0.001);

    /* discussion 357 and issue 514: Qwen3-235B-A22B, ubatch 512: 312.75 MiB at n_ctx 16384 and 32768; ubatch 4096 at 40960: 2502.00 MiB */
    test_model_make(&t, "qwen3moe", SHAPE_QWEN3_235B, UMA_FORMAT_IQ3_K);
    serve = job(32768, 512, UMA_YES);
    uma_llama_buffers(&t.model, &serve, &b);
    assert_mib(b.device, 312.75, 0.0001);
    serve = job(40960, 4096, UMA_YES);
    uma_llama_buffers(&t.model, &serve, &b);
    assert_mib(b.device, 2502.00, 0.0001);
    assert_mib(b.host, 704.05, 0.0002);
}

static void long_masks_and_experts_outgrow_the_logits(void **state) {
    (void)state;
    struct test_model t;
    struct uma_llama_buffers b;
    test_model_make(&t, "qwen3moe", SHAPE_QWEN3_235B, UMA_FORMAT_IQ3_K);
    /* issue 437: the device without the output matrix, n_ctx 65536, ubatch 4096: 2432.02 MiB; issue 629: n_ctx 32768, ubatch 2048: 832.01 */
    struct uma_serve serve = job(65536, 4096, UMA_YES);
    uma_llama_buffers(&t.model, &serve, &b);
    assert_mib(b.stages[UMA_LLAMA_EXPERTS], 2432.02, 0.0001);
    serve = job(32768, 2048, UMA_YES);
    uma_llama_buffers(&t.model, &serve, &b);
    assert_mib(b.stages[UMA_LLAMA_EXPERTS], 832.01, 0.0001);
}

static void scores_without_flash_attention(void **state) {
    (void)state;
    /* ik_llama.cpp issue 539: Gemma 3 27B, n_ctx 131072, ubatch 512, no flash attention, on the CPU: 8743.51 MiB */
    const struct test_shape gemma = { 62, 5376, 32, 16, 128, 21504, 262208, 0, 0, true };
    struct test_model t;
    test_model_make(&t, "gemma3", &gemma, UMA_FORMAT_IQ4_XS);
    for (uint32_t i = 0; i < t.model.layer_count; i++)
        t.layers[i].window = (i + 1) % 6 ? 1024 : 0;
    struct uma_serve serve = job(131072, 512, UMA_NO);
    struct uma_llama_buffers b;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_int_equal(b.largest, UMA_LLAMA_ATTENTION);
    assert_mib(b.device, 8743.51, 0.0001);
}

static void an_expanded_latent_is_bounded_by_amb(void **state) {
    (void)state;
    const struct test_shape deepseek = { 61, 7168, 128, 128, 192, 2048, 129280, 256, 8, false };
    struct test_model t;
    test_model_make(&t, "deepseek2", &deepseek, UMA_FORMAT_Q4_K);
    t.model.kv_lora_rank = 512, t.model.qk_nope_dim = 128, t.model.qk_rope_dim = 64;
    for (uint32_t i = 0; i < t.model.layer_count; i++)
        t.layers[i].mixer = UMA_MIXER_MLA, t.layers[i].v_head_dim = 128;
    /* issue 485: n_ctx 131072, ubatch 1024, -mla 3 -amb 512: 11718.25 MiB; issue 450: n_ctx 32768: 3650.00 MiB */
    struct uma_serve serve = job(131072, 1024, UMA_YES);
    serve.mla_batch = 512 * UMA_MIB;
    struct uma_llama_buffers b;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_int_equal(b.largest, UMA_LLAMA_LATENT);
    assert_mib(b.device, 11718.25, 0.03);
    serve = job(32768, 1024, UMA_YES);
    serve.mla_batch = 512 * UMA_MIB;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_mib(b.device, 3650.00, 0.04);
    /* issue 455 and discussion 258, the same with ubatches of 512 and 4096: 3425.00 and 4104.00 MiB */
    serve.ubatch = 512;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_mib(b.device, 3425.00, 0.002);
    assert_int_equal(b.holes, 256 * UMA_MIB);
    serve.ubatch = 4096;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_mib(b.device, 4104.00, 0.01);
    /* products of 5 GiB are halved to 320 MiB, not cut at 512 */
    serve = job(40960, 512, UMA_YES);
    serve.mla_batch = 512 * UMA_MIB;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_int_equal(b.holes, 160 * UMA_MIB);
    serve = job(32768, 1024, UMA_YES);
    serve.mla_batch = 512 * UMA_MIB;
    uma_llama_buffers(&t.model, &serve, &b);
    serve.mla_batch = UINT64_MAX; /* all heads at once: 32768 x 128 x 256 x 4 B = 4096 MiB of products instead of 512 */
    uint64_t bounded = b.device;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_int_equal(b.device - bounded, (3584 - 256) * UMA_MIB); /* no holes between groups */
    assert_int_equal(b.holes, 0);
    /* pull request 239: 40.26 MiB for ubatches of 32, for which nothing is multiplied out, without flash attention */
    serve = job(2048, 32, UMA_NO);
    serve.mla_batch = 64 * UMA_MIB;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_int_equal(b.stages[UMA_LLAMA_LATENT], 0);
    assert_mib(b.stages[UMA_LLAMA_ATTENTION], 40.26, 0.1);
    /* 80 GiB of scores in steps of two heads: 1280 MiB, beside the mask of 640, queries, results and a transposed latent */
    serve = job(163840, 1024, UMA_NO);
    serve.mla_batch = 1024 * UMA_MIB;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_mib(b.device, 2964, 0.001);
    serve.mla_batch = UINT64_MAX;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_true(b.device > 80 * UMA_GIB);
}

static void devices_share_by_copies(void **state) {
    (void)state;
    /* ik_llama.cpp pull request 237: 15 devices, n_ctx 163840, ubatch 1024: host 2588.05 MiB = four masks of 640 and embeddings of 28 */
    const struct test_shape deepseek = { 61, 7168, 128, 128, 192, 2048, 129280, 256, 8, false };
    struct test_model t;
    test_model_make(&t, "deepseek2", &deepseek, UMA_FORMAT_Q2_K);
    struct uma_serve serve = job(163840, 1024, UMA_NO);
    serve.pp = 15;
    struct uma_llama_buffers b;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_mib(b.host, 2588.05, 0.0001);
}

static void quantised_caches_are_copied_and_host_layers_too(void **state) {
    (void)state;
    struct test_model t;
    struct uma_llama_buffers b;
    test_model_make(&t, "llama", SHAPE_LLAMA31_8B, UMA_FORMAT_Q4_K);
    struct uma_serve serve = job(8192, 512, UMA_YES);
    uma_llama_buffers(&t.model, &serve, &b);
    assert_int_equal(b.dequantised, 0);
    assert_int_equal(b.copied_layer, 0);
    uint64_t whole = b.device;
    serve.key_format = serve.value_format = UMA_FORMAT_Q8_0;
    serve.gpu_layers = 10;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_int_equal(b.dequantised, 8192ull * 8 * 256 * 2);
    assert_int_equal(b.device - whole, b.copied_layer);
    assert_int_equal(b.copied_layer, 128256ull * 4096 * 2); /* the output matrix, as stored */
}

static void hostile_numbers_saturate(void **state) {
    (void)state;
    struct test_model t;
    struct uma_llama_buffers b;
    test_model_make(&t, "llama", SHAPE_LLAMA31_8B, UMA_FORMAT_Q4_K);
    t.model.vocab = UINT64_MAX;
    t.layers[0].ffn_size = UINT64_MAX;
    struct uma_serve serve = job(UINT64_MAX, UINT32_MAX, UMA_NO);
    serve.sequences = UINT64_MAX;
    uma_llama_buffers(&t.model, &serve, &b);
    assert_true(b.device == UINT64_MAX);
    assert_true(b.host == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_the_largest_stage_of_most_models),
        cmocka_unit_test(long_masks_and_experts_outgrow_the_logits),
        cmocka_unit_test(scores_without_flash_attention),
        cmocka_unit_test(an_expanded_latent_is_bounded_by_amb),
        cmocka_unit_test(devices_share_by_copies),
        cmocka_unit_test(quantised_caches_are_copied_and_host_layers_too),
        cmocka_unit_test(hostile_numbers_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
