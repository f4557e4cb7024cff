/* SPDX-License-Identifier: MIT */
/* Caches against what engines printed; each row names where. */
#include "base/units.h"
#include "config_text.h"

#define DEEPSEEK                                                                                                                           \
    "'num_attention_heads': 128, 'kv_lora_rank': 512, 'q_lora_rank': 1536, 'qk_rope_head_dim': 64, 'qk_nope_head_dim': 128, 'v_head_dim':" \
    "128, 'hidden_size': 7168, 'num_hidden_layers': 61, 'vocab_size': 129280, 'intermediate_size': 18432"
static const char deepseek_v3[] = "{'model_type': 'deepseek_v3', " DEEPSEEK "}";
static const char deepseek_v32[] = "{'model_type': 'deepseek_v32', 'index_head_dim': 128, 'index_n_heads': 64, " DEEPSEEK "}";
static const char qwen3_235b[] = "{'model_type': 'qwen3_moe', 'hidden_size': 4096, 'num_hidden_layers': 94, 'num_attention_heads': 64,"
                                 "'num_key_value_heads': 4, 'head_dim': 128, 'vocab_size': 151936, 'intermediate_size': 12288}";
static const char llama_8b[] = "{'model_type': 'llama', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32,"
                               "'num_key_value_heads': 8, 'vocab_size': 128256, 'intermediate_size': 14336}";
static const char gemma3_27b[] = "{'model_type': 'gemma3_text', 'hidden_size': 5376, 'num_hidden_layers': 62, 'num_attention_heads': 32,"
                                 "'num_key_value_heads': 16, 'head_dim': 128, 'vocab_size': 262144, 'intermediate_size': 21504,"
                                 "'sliding_window': 1024}";
static const char qwen36_27b[] =
    "{'model_type': 'qwen3_5', 'hidden_size': 5120, 'num_hidden_layers': 64, 'num_attention_heads': 24, 'num_key_value_heads': 4, 'head_dim': 256,"
    "'vocab_size': 248320, 'intermediate_size': 17408, 'full_attention_interval': 4, 'linear_num_key_heads': 16, 'linear_num_value_heads': 48,"
    "'linear_key_head_dim': 128, 'linear_value_head_dim': 128, 'linear_conv_kernel_dim': 4, 'mamba_ssm_dtype': 'float32'}";
static const char gpt_oss_120b[] =
    "{'model_type': 'gpt_oss', 'hidden_size': 2880, 'num_hidden_layers': 36, 'num_attention_heads': 64, 'num_key_value_heads': 8, 'head_dim': 64,"
    "'vocab_size': 201088, 'intermediate_size': 2880, 'num_local_experts': 128, 'sliding_window': 128}";
static const char minimax_m2[] = "{'model_type': 'minimax_m2', 'hidden_size': 3072, 'num_hidden_layers': 62, 'num_attention_heads': 48,"
                                 "'num_key_value_heads': 8, 'head_dim': 128, 'vocab_size': 200064, 'intermediate_size': 1536}";

struct row {
    const char *source;
    double mib;
    const char *config;
    struct uma_kv_options options;
};
#define IK .engine = UMA_ENGINE_LLAMA_CPP, .full_window = true
#define F16 .key_format = UMA_FORMAT_F16, .value_format = UMA_FORMAT_F16
#define Q8 .key_format = UMA_FORMAT_Q8_0, .value_format = UMA_FORMAT_Q8_0
#define F8 .key_format = UMA_FORMAT_FP8, .value_format = UMA_FORMAT_FP8
static const struct row rows[] = {
    { "ik_llama.cpp discussion 242", 2440, deepseek_v3, { IK, F16, .context = 512, .mla_expanded = true } },
    { "ik_llama.cpp discussion 258", 1166.62, deepseek_v3, { IK, Q8, .context = 32768 } },
    { "ik_llama.cpp PR 235", 2196, deepseek_v3, { IK, F16, .context = 32768 } },
    { "ik_llama.cpp PR 616, kv^T kept", 64.81, deepseek_v3, { IK, F16, .context = 512, .mla_transposed = true } },
    { "ik_llama.cpp issue 389",
      28060,
      deepseek_v3,
      { IK, .key_format = UMA_FORMAT_Q8_0, .value_format = UMA_FORMAT_F16, .context = 8192, .mla_expanded = true } },
    { "ik_llama.cpp discussion 357", 3196, qwen3_235b, { IK, Q8, .context = 32768 } },
    { "ik_llama.cpp discussion 357", 6016, qwen3_235b, { IK, F16, .context = 32768 } },
    { "ik_llama.cpp issue 437", 9212, qwen3_235b, { IK, .key_format = UMA_FORMAT_Q8_0, .value_format = UMA_FORMAT_F16, .context = 65536 } },
    { "ik_llama.cpp issue 103", 82, llama_8b, { IK, .key_format = UMA_FORMAT_IQ4_NL, .value_format = UMA_FORMAT_F16, .context = 1024 } },
    { "ik_llama.cpp issue 539", 63488, gemma3_27b, { IK, F16, .context = 131072 } },
    { "vllm issue 21348 (SGLang)", 16855.04, qwen3_235b, { .engine = UMA_ENGINE_SGLANG, .context = 367404, .tp = 4 } },
    { "sglang PR 11309, with its index keys",
      65.49 * 1024,
      deepseek_v32,
      { .engine = UMA_ENGINE_SGLANG, F8, .context = 1462784, .tp = 8 } },
    { "sglang PR 11309, with its index keys", 43.67 * 1024, deepseek_v32, { .engine = UMA_ENGINE_SGLANG, F8, .context = 975424 } },
    { "spark-vllm-docker issue 396", 23.25 * 1024, minimax_m2, { .engine = UMA_ENGINE_VLLM, .context = 196608, .tp = 2 } },
    { "llama.cpp PR 23792, state of three sequences",
      448.88,
      qwen36_27b,
      { .engine = UMA_ENGINE_LLAMA_CPP, .context = 0, .sequences = 3 } },
};

static struct uma_kv cache(const char *config, struct uma_kv_options options) {
    _cleanup_model_ struct uma_model *m = config_model(config);
    struct uma_kv kv;
    uma_kv_cache(m, &options, &kv);
    return kv;
}

static void caches_are_what_engines_printed(void **state) {
    (void)state;
    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        double mib = (double)cache(rows[i].config, rows[i].options).total / 0x1p20;
        if (!(mib > rows[i].mib * 0.99 && mib < rows[i].mib * 1.01))
            fail_msg("row %zu, %s: %.2f MiB, printed %.2f", i, rows[i].source, mib, rows[i].mib);
    }
}

/* 16.88 MiB of convolutions and 432 MiB of states for three sequences */
static void a_state_is_exact(void **state) {
    (void)state;
    struct uma_kv kv = cache(qwen36_27b, (struct uma_kv_options){ .engine = UMA_ENGINE_LLAMA_CPP });
    assert_int_equal(kv.per_sequence, 48ULL * (48 * 128 * 128 + 3 * (2 * 16 * 128 + 48 * 128)) * 4);
    assert_int_equal(kv.growing, 16 * 2 * 4 * 256 * 2);
    /* vLLM and SGLang keep the convolution in 16 bits */
    struct uma_kv sglang = cache(qwen36_27b, (struct uma_kv_options){ .engine = UMA_ENGINE_SGLANG });
    assert_int_equal(sglang.per_sequence, 48ULL * (48 * 128 * 128 * 4 + 3 * 10240 * 2));
    struct uma_kv halves = cache(qwen36_27b, (struct uma_kv_options){ .engine = UMA_ENGINE_SGLANG, .tp = 2 });
    assert_int_equal(halves.per_sequence * 2, sglang.per_sequence);
}

/* llama.cpp logs "size = 768 cells" for the windows of gpt-oss: 128 + 512, up to the next 256 */
static void windows_are_capped_and_padded(void **state) {
    (void)state;
    uint64_t row = 2 * 8 * 64 * 2;
    struct uma_kv kv = cache(gpt_oss_120b, (struct uma_kv_options){ .engine = UMA_ENGINE_LLAMA_CPP, .context = 131072 });
    assert_int_equal(kv.total, 18 * row * (131072 + 768));
    assert_int_equal(kv.per_token, 36 * row);
    assert_int_equal(kv.growing, 18 * row);
    kv = cache(gpt_oss_120b, (struct uma_kv_options){ .engine = UMA_ENGINE_LLAMA_CPP, .context = 131072, .full_window = true });
    assert_int_equal(kv.total, 36 * row * 131072);
    kv = cache(gpt_oss_120b, (struct uma_kv_options){ .engine = UMA_ENGINE_LLAMA_CPP, .context = 300 });
    assert_int_equal(kv.total, 36 * row * 512); /* a context below the window, in whole cells */
    kv = cache(gpt_oss_120b, (struct uma_kv_options){ .engine = UMA_ENGINE_VLLM, .context = 131072, .sequences = 2 });
    assert_int_equal(kv.total, 2 * 18 * row * (131072 + 128 + 16));
    assert_int_equal(kv.padding, 0); /* as many of each kind */
}

/* SlidingWindowSpec of vLLM: window - 1 + max_num_batched_tokens, in whole pages and one more, never more than the context. */
static void a_step_is_held_beside_the_windows_once(void **state) {
    (void)state;
    uint64_t row = 2 * 8 * 64 * 2;
    struct uma_kv_options options = { .engine = UMA_ENGINE_VLLM, .context = 131072, .sequences = 2 };
    uint64_t without = cache(gpt_oss_120b, options).total;
    options.batched_tokens = 8192;
    assert_int_equal(cache(gpt_oss_120b, options).total - without, 18 * row * 8192);
    options.sequences = 100;
    assert_int_equal(cache(gpt_oss_120b, options).total - 50 * without, 18 * row * 8192);
    options = (struct uma_kv_options){ .engine = UMA_ENGINE_VLLM, .context = 1024, .batched_tokens = 8192 };
    assert_int_equal(cache(gpt_oss_120b, options).total, 36 * row * 1024);
    options.batched_tokens = UINT64_MAX;
    assert_int_equal(cache(gpt_oss_120b, options).total, 36 * row * 1024);
    options.engine = UMA_ENGINE_SGLANG;
    assert_int_equal(cache(gpt_oss_120b, options).total, 18 * row * (1024 + 128));
}

/* vLLM PR 36684: kinds within half of each other share groups of the larger's size. */
static void kinds_of_about_one_size_share_groups(void **state) {
    (void)state;
    static const char seven[] =
        "{'model_type': 'gpt_oss', 'hidden_size': 2880, 'num_hidden_layers': 7, 'num_attention_heads': 64, 'num_key_value_heads': 8,"
        "'head_dim': 64, 'vocab_size': 201088, 'intermediate_size': 2880, 'num_local_experts': 128, 'sliding_window': 128}";
    uint64_t row = 2 * 8 * 64 * 2;
    struct uma_kv kv = cache(seven, (struct uma_kv_options){ .engine = UMA_ENGINE_VLLM, .context = 4096 });
    assert_int_equal(kv.padding, row * 4096); /* 4 sliding and 3 full layers: one empty place among the full; groups of 3 leave 2 windows */
}

static void hybrid_pages_are_padded(void **state) {
    (void)state;
    struct uma_kv_options options = { .engine = UMA_ENGINE_VLLM, .context = 32768, .sequences = 4 };
    struct uma_kv kv = cache(qwen36_27b, options);
    /* a state is 3,207,168 bytes, a token 4,096: pages of 784 tokens, 42 of them for 32,768 */
    uint64_t page = 784 * 4096;
    assert_int_equal(kv.sequence, 16 * 42 * page + 48 * page);
    assert_int_equal(kv.total, 4 * kv.sequence);
    assert_true(kv.padding > 0 && kv.padding < kv.total / 50);
    /* 10 full and 52 sliding layers: six groups of ten, eight places empty */
    struct uma_kv gemma = cache(gemma3_27b, (struct uma_kv_options){ .engine = UMA_ENGINE_VLLM, .context = 32768 });
    assert_int_equal(gemma.padding, 8ULL * 2 * 16 * 128 * 2 * (1024 + 16));
}

static void heads_are_divided_and_latents_are_not(void **state) {
    (void)state;
    struct uma_kv one = cache(llama_8b, (struct uma_kv_options){ .context = 1024 });
    struct uma_kv two = cache(llama_8b, (struct uma_kv_options){ .context = 1024, .tp = 2 });
    struct uma_kv sixteen = cache(llama_8b, (struct uma_kv_options){ .context = 1024, .tp = 16 });
    assert_int_equal(one.total, 32ULL * 2 * 8 * 128 * 2 * 1024);
    assert_int_equal(two.total, one.total / 2);
    assert_int_equal(sixteen.total, one.total / 8); /* eight heads on sixteen ranks: each twice */
    struct uma_kv latent = cache(deepseek_v3, (struct uma_kv_options){ .context = 1024 });
    assert_int_equal(cache(deepseek_v3, (struct uma_kv_options){ .context = 1024, .tp = 8 }).total, latent.total);
    assert_int_equal(latent.per_token, 61 * 1152);
}

static void sparse_latents_have_a_layout_of_their_own(void **state) {
    (void)state;
    assert_int_equal(cache(deepseek_v32, (struct uma_kv_options){ .engine = UMA_ENGINE_VLLM, F8, .context = 16 }).per_token,
                     61 * (656 + 132));
    assert_int_equal(cache(deepseek_v32, (struct uma_kv_options){ .engine = UMA_ENGINE_VLLM, .context = 16 }).per_token, 61 * (1152 + 132));
    assert_int_equal(cache(deepseek_v3, (struct uma_kv_options){ .engine = UMA_ENGINE_VLLM, F8, .context = 16 }).per_token, 61 * 576);
    /* transformers keeps keys of 192 and values of 128 for each head */
    assert_int_equal(cache(deepseek_v3, (struct uma_kv_options){ .engine = UMA_ENGINE_TRANSFORMERS, .context = 16 }).per_token,
                     61 * 128 * 320 * 2);
}

static void layers_that_share_a_cache_have_none(void **state) {
    (void)state;
    struct uma_kv kv =
        cache("{'model_type': 'gemma4_text', 'hidden_size': 64, 'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 16,"
              "'global_head_dim': 32, 'num_global_key_value_heads': 1, 'attention_k_eq_v': true, 'num_hidden_layers': 4, 'vocab_size':"
              "10, 'intermediate_size': 8, 'sliding_window': 512, 'num_kv_shared_layers': 2, 'layer_types': ['sliding_attention',"
              "'full_attention', 'sliding_attention', 'full_attention']}",
              (struct uma_kv_options){ .context = 4096 });
    /* K and V of the global layer are both kept, though one matrix makes them */
    assert_int_equal(kv.growing, 2 * 32 * 2);
    assert_int_equal(kv.total, 4096 * 2 * 32 * 2 + 512 * 2 * 2 * 16 * 2);
}

/* MiMo-V2-Flash: keys of 192, values of 128; 4 heads in full layers, 8 in sliding ones */
static void keys_may_be_wider_than_values(void **state) {
    (void)state;
    struct uma_kv kv =
        cache("{'model_type': 'mimo_v2_flash', 'hidden_size': 4096, 'num_attention_heads': 64, 'num_key_value_heads': 4, 'head_dim': 192,"
              "'v_head_dim': 128, 'swa_num_key_value_heads': 8, 'sliding_window': 128, 'hybrid_layer_pattern': [0, 1],"
              "'num_hidden_layers': 2, 'vocab_size': 10, 'intermediate_size': 8}",
              (struct uma_kv_options){ .context = 1024 });
    assert_int_equal(kv.growing, 4 * 320 * 2);
    assert_int_equal(kv.per_token, 12 * 320 * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_are_what_engines_printed),       cmocka_unit_test(a_state_is_exact),
        cmocka_unit_test(windows_are_capped_and_padded),         cmocka_unit_test(a_step_is_held_beside_the_windows_once),
        cmocka_unit_test(kinds_of_about_one_size_share_groups),  cmocka_unit_test(hybrid_pages_are_padded),
        cmocka_unit_test(heads_are_divided_and_latents_are_not), cmocka_unit_test(sparse_latents_have_a_layout_of_their_own),
        cmocka_unit_test(layers_that_share_a_cache_have_none),   cmocka_unit_test(keys_may_be_wider_than_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
