/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "plan/model/config.h"
#include "config_text.h"

#include <errno.h>

#define DECODER "'hidden_size': 64, 'num_attention_heads': 4, 'vocab_size': 1000, 'intermediate_size': 128"
#define LAYERS(n) ", 'num_hidden_layers': " n

static void a_missing_head_dim_is_the_hidden_size_by_heads(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = config_model("{'model_type': 'llama', " DECODER LAYERS("2") "}");
    assert_int_equal(m->layers[1].head_dim, 16);
    assert_int_equal(m->layers[1].v_head_dim, 16);
    assert_int_equal(m->layers[1].kv_heads, 4);
    /* families with a default of their own (Qwen3Config.head_dim) keep it */
    _cleanup_model_ struct uma_model *qwen = config_model("{'model_type': 'qwen3', " DECODER LAYERS("2") "}");
    assert_int_equal(qwen->layers[0].head_dim, 128);
    _cleanup_model_ struct uma_model *null = config_model("{'model_type': 'llama', 'head_dim': null, " DECODER LAYERS("2") "}");
    assert_int_equal(null->layers[0].head_dim, 16);
}

static void tied_embeddings_may_be_said_at_either_level(void **state) {
    (void)state;
    static const char *const tied[] = {
        "{'model_type': 'mistral3', 'tie_word_embeddings': true, 'text_config': {'model_type': 'mistral', " DECODER LAYERS("2") "}}",
        "{'model_type': 'mistral3', 'text_config': {'model_type': 'mistral', 'tie_word_embeddings': true, " DECODER LAYERS("2") "}}",
        "{'model_type': 'internvl_chat', 'llm_config': {'model_type': 'qwen3', 'tie_word_embeddings': true, " DECODER LAYERS("2") "}}",
        "{'model_type': 'gemma2', " DECODER LAYERS("2") "}",
        "{'model_type': 'qwen3_omni_moe', 'tie_word_embeddings': true, 'thinker_config': {'text_config': {" DECODER LAYERS("2") "}}}",
    };
    for (size_t i = 0; i < ELEMENTS(tied); i++) {
        _cleanup_model_ struct uma_model *m = config_model(tied[i]);
        assert_true(m->tied);
        assert_true(m->architecture_known);
        assert_int_equal(m->totals[UMA_CLASS_LM_HEAD].params, 0);
        assert_int_equal(m->totals[UMA_CLASS_EMBEDDING].params, 64000);
    }
    /* the inner level wins */
    _cleanup_model_ struct uma_model *m =
        config_model("{'model_type': 'llava', 'tie_word_embeddings': true, 'vocab_size': 7,"
                     "'text_config': {'model_type': 'llama', 'tie_word_embeddings': false, " DECODER LAYERS("2") "}}");
    assert_false(m->tied);
    assert_int_equal(m->totals[UMA_CLASS_LM_HEAD].params, 64000);
}

static void mla_has_its_own_dimensions(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m =
        config_model("{'model_type': 'deepseek_v3', 'kv_lora_rank': 32, 'q_lora_rank': 48, 'qk_nope_head_dim': 12, 'qk_rope_head_dim': 4,"
                     "'v_head_dim': 12, " DECODER LAYERS("2") "}");
    assert_int_equal(m->layers[0].mixer, UMA_MIXER_MLA);
    assert_int_equal(m->layers[0].head_dim, 16);
    /* q_a, q_b, kv_a, kv_b, o of two layers */
    assert_int_equal(m->totals[UMA_CLASS_ATTENTION].params, 2 * (64 * 48 + 48 * 4 * 16 + 64 * 36 + 32 * 4 * 24 + 4 * 12 * 64));
}

static void nas_blocks_are_each_their_own(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = config_model(
        "{'model_type': 'nemotron-nas', 'intermediate_size': null, 'num_key_value_heads': null, 'hidden_size': 384, 'num_attention_heads': 4,"
        "'vocab_size': 1000, 'num_hidden_layers': 4, 'block_configs': ["
        "{'attention': {'n_heads_in_group': 2, 'no_op': false}, 'ffn': {'ffn_mult': 2.625, 'no_op': false}},"
        "{'attention': {'n_heads_in_group': null, 'no_op': true}, 'ffn': {'ffn_mult': 1.0}},"
        "{'attention': {'replace_with_linear': true}, 'ffn': {'no_op': true}},"
        "{'attention': {'n_heads_in_group': 4}, 'ffn': {'replace_with_linear': true}}]}");
    assert_int_equal(m->layers[0].kv_heads, 2);
    assert_int_equal(m->layers[0].ffn_size, 768); /* 2 x 2.625 x 384 / 3 = 672, up to the next 256 */
    assert_int_equal(m->layers[1].mixer, UMA_MIXER_NONE);
    assert_int_equal(m->layers[2].mixer, UMA_MIXER_LINEAR);
    assert_int_equal(m->layers[2].ffn, UMA_FFN_NONE);
    assert_int_equal(m->layers[3].ffn, UMA_FFN_LINEAR);
    assert_int_equal(m->layers[3].kv_heads, 1);
}

/* Qwen3-Next and 3.5: q_proj is twice as wide, whether the field is there or not; and says no when it says no */
static void an_output_gate_doubles_q(void **state) {
    (void)state;
    static const struct {
        const char *config;
        uint64_t q;
    } cases[] = {
        { "{'model_type': 'qwen3_5', 'attn_output_gate': true, 'head_dim': 16, " DECODER LAYERS("1") "}", 128 },
        { "{'model_type': 'qwen3_next', 'head_dim': 16, " DECODER LAYERS("1") "}", 128 },
        { "{'model_type': 'qwen3_5', 'attn_output_gate': false, 'head_dim': 16, " DECODER LAYERS("1") "}", 64 },
        { "{'model_type': 'qwen3', 'head_dim': 16, " DECODER LAYERS("1") "}", 64 },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_model_ struct uma_model *m = config_model(cases[i].config);
        struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
        assert_true(uma_model_linears(m, 0, linears) > 0);
        assert_int_equal(linears[0].out, cases[i].q);
    }
}

static void an_unknown_architecture_is_a_guess_with_a_warning(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = config_model("{'model_type': 'zorp\\u001b[31m', 'hidden_act': 'relu2', " DECODER LAYERS("2") "}");
    assert_false(m->architecture_known);
    assert_int_equal(m->basis, UMA_BASIS_GUESS);
    assert_int_equal(m->warning_count, 1);
    assert_false(m->layers[0].ffn_gated);
    assert_true(uma_model_params(m) > 0);
    _cleanup_model_ struct uma_model *by_class =
        config_model("{'architectures': ['MixtralForCausalLM'], 'num_local_experts': 4, " DECODER LAYERS("2") "}");
    assert_true(by_class->architecture_known);
    assert_int_equal(by_class->layers[0].ffn, UMA_FFN_MOE);
}

/* One letter a layer: F full, S sliding, L linear, M Mamba, - none; then d dense, e experts, . none */
static void patterns(const char *config, const char *expected) {
    _cleanup_model_ struct uma_model *m = config_model(config);
    char got[128] = "";
    for (uint32_t i = 0; i < m->layer_count && 2 * i + 2 < sizeof got; i++) {
        const struct uma_model_layer *layer = &m->layers[i];
        got[2 * i] = layer->mixer == UMA_MIXER_NONE                                         ? '-'
                     : layer->mixer == UMA_MIXER_MAMBA1 || layer->mixer == UMA_MIXER_MAMBA2 ? 'M'
                     : layer->mixer == UMA_MIXER_ATTENTION || layer->mixer == UMA_MIXER_MLA ? (layer->window ? 'S' : 'F')
                                                                                            : 'L';
        got[2 * i + 1] = layer->ffn == UMA_FFN_MOE ? 'e' : layer->ffn == UMA_FFN_DENSE ? 'd' : '.';
    }
    if (strcmp(got, expected) != 0)
        fail_msg("%s\n  is %s, expected %s", config, got, expected);
}

static void hybrid_patterns(void **state) {
    (void)state;
    patterns("{'model_type': 'nemotron_h', 'hybrid_override_pattern': 'M-M*E', 'n_routed_experts': 2, 'moe_intermediate_size': 8, " DECODER
                 LAYERS("5") "}",
             "M.-dM.F.-e");
    patterns("{'model_type': 'nemotron_h', 'layers_block_type': ['mamba', 'moe', 'attention'], 'n_routed_experts': 2, " DECODER "}",
             "M.-eF.");
    patterns("{'model_type': 'qwen3_next', 'linear_num_value_heads': 4, 'full_attention_interval': 2, " DECODER LAYERS("4") "}",
             "LdFdLdFd");
    patterns("{'model_type': 'jamba', 'attn_layer_period': 4, 'attn_layer_offset': 2, 'expert_layer_period': 2, 'expert_layer_offset': 1,"
             "'num_experts': 4, " DECODER LAYERS("4") "}",
             "MdMeFdMe");
    patterns("{'model_type': 'bamba', 'attn_layer_indices': [1], " DECODER LAYERS("3") "}", "MdFdMd");
    patterns("{'model_type': 'granitemoehybrid', 'layer_types': ['mamba', 'attention'], 'num_local_experts': 0, " DECODER LAYERS("2") "}",
             "MdFd");
    patterns("{'model_type': 'gemma2', 'sliding_window': 8, " DECODER LAYERS("3") "}", "SdFdSd");
    patterns("{'model_type': 'gemma3_text', 'sliding_window': 8, 'sliding_window_pattern': 3, " DECODER LAYERS("4") "}", "SdSdFdSd");
    patterns("{'model_type': 'exaone4', 'sliding_window': 8, 'sliding_window_pattern': 'LLLG', " DECODER LAYERS("4") "}", "SdSdSdFd");
    patterns("{'model_type': 'mimo_v2_flash', 'sliding_window': 8, 'hybrid_layer_pattern': [0, 1, 1], 'moe_layer_freq': [0, 1, 1],"
             "'n_routed_experts': 2, " DECODER LAYERS("3") "}",
             "FdSeSe");
    patterns("{'model_type': 'minimax_text_01', 'attn_type_list': [0, 1], 'num_local_experts': 2, " DECODER LAYERS("2") "}", "LeFe");
    patterns("{'model_type': 'kimi_linear', 'linear_attn_config': {'kda_layers': [1, 3], 'num_heads': 2, 'head_dim': 8}, 'kv_lora_rank': 8,"
             "'qk_nope_head_dim': 8, " DECODER LAYERS("3") "}",
             "LdFdLd");
    patterns("{'model_type': 'mistral', 'sliding_window': 8, " DECODER LAYERS("2") "}", "SdSd");
    patterns("{'model_type': 'mistral', 'sliding_window': null, " DECODER LAYERS("2") "}", "FdFd");
    patterns("{'model_type': 'qwen2', 'sliding_window': 8, 'use_sliding_window': false, " DECODER LAYERS("2") "}", "FdFd");
    patterns("{'model_type': 'qwen2', 'sliding_window': 8, 'use_sliding_window': true, 'max_window_layers': 1, " DECODER LAYERS("2") "}",
             "FdSd");
    /* Phi-4-mini: a window that no sequence reaches is none */
    patterns("{'model_type': 'phi3', 'sliding_window': 262144, 'max_position_embeddings': 131072, " DECODER LAYERS("2") "}", "FdFd");
    patterns(
        "{'model_type': 'mamba2', 'hidden_size': 64, 'vocab_size': 10, 'state_size': 8, 'num_heads': 2, 'head_dim': 64, 'num_hidden_layers': 2}",
        "M.M.");
    patterns("{'model_type': 'falcon_h1', " DECODER LAYERS("2") "}", "M.FdM.Fd");
    patterns("{'model_type': 'longcat_flash', 'n_routed_experts': 4, " DECODER LAYERS("1") "}", "FdFe");
    patterns("{'model_type': 'qwen3_moe', 'num_experts': 4, 'decoder_sparse_step': 2, 'mlp_only_layers': [1], " DECODER LAYERS("4") "}",
             "FdFdFdFe");
    patterns("{'model_type': 'glm_moe_dsa', 'n_routed_experts': 4, 'mlp_layer_types': ['dense', 'sparse'], 'layer_types':"
             "['deepseek_sparse_attention', 'deepseek_sparse_attention'], " DECODER LAYERS("2") "}",
             "FdFe");
    patterns("{'model_type': 'step3', 'num_experts': 4, 'moe_layers_enum': '1,2', " DECODER LAYERS("4") "}", "FdFeFeFd");
}

/* Gemma 4: global layers have heads of their own and one matrix for K and V; the last layers use an earlier cache and have none */
static void gemma4_shares_its_cache(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = config_model(
        "{'model_type': 'gemma4', 'text_config': {'model_type': 'gemma4_text', 'head_dim': 16, 'global_head_dim': 32, 'num_key_value_heads': 2,"
        "'num_global_key_value_heads': 1, 'attention_k_eq_v': true, 'num_kv_shared_layers': 2, 'sliding_window': 8, 'use_double_wide_mlp': true,"
        "'layer_types': ['sliding_attention', 'full_attention', 'sliding_attention', 'full_attention'], " DECODER LAYERS("4") "}}");
    struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
    assert_int_equal(m->layers[0].window, 8);
    assert_int_equal(m->layers[0].kv_heads, 2);
    assert_int_equal(m->layers[1].kv_heads, 1);
    assert_int_equal(m->layers[1].head_dim, 32);
    assert_true(m->layers[1].key_is_value && !m->layers[0].key_is_value);
    assert_true(!m->layers[1].shares_kv && m->layers[2].shares_kv && m->layers[3].shares_kv);
    assert_int_equal(uma_model_linears(m, 0, linears), 7);
    assert_int_equal(uma_model_linears(m, 1, linears), 6); /* no v */
    assert_int_equal(uma_model_linears(m, 2, linears), 5); /* neither k nor v */
    assert_int_equal(m->layers[2].ffn_size, 256);
}

static void towers_and_mtp_have_classes_of_their_own(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = config_model(
        "{'model_type': 'qwen3_5', 'vision_config': {'depth': 27, 'hidden_size': 1152, 'intermediate_size': 4304, 'patch_size': 16,"
        "'num_position_embeddings': 2304, 'out_hidden_size': 5120, 'spatial_merge_size': 2, 'temporal_patch_size': 2},"
        "'text_config': {'mtp_num_hidden_layers': 1, 'model_type': 'qwen3_5_text', " DECODER LAYERS("2") "}}");
    assert_true(m->has_vision);
    assert_int_equal(m->vision_layers, 27);
    assert_int_equal(m->mtp_layers, 1);
    /* 27 x (4 x 1152^2 + 2 x 1152 x 4304) + 1152 x (16^2 x 6 + 2304) + 4608 x (4608 + 5120) */
    assert_int_equal(m->totals[UMA_CLASS_VISION].params, 460320768);
    /* the layer again, 2 x 64 x 64, three norms */
    assert_int_equal(m->totals[UMA_CLASS_MTP].params, uma_structure_layer_params(m, 1) + 2 * 64 * 64 + 3 * 64);
}

static void refused(const char *config, const char *said) {
    _cleanup_free_
    char *json = double_quotes(config);
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    int r = uma_model_from_config("c.json", json, strlen(json), NULL, 0, &model, &err);
    if (r >= 0 || !strstr(err.text, said) || strncmp(err.text, "c.json", 6) != 0)
        fail_msg("%.80s: %d, said \"%s\", expected \"%s\"", config, r, err.text, said);
    assert_null(model);
}

static void hostile_configurations_are_refused_with_a_place(void **state) {
    (void)state;
    refused("", "line");
    refused("[]", "an object");
    refused("{'a': 1,\n'a': 2}", "line 2");
    refused("{'model_type': 'llama'}", "hidden_size");
    refused("{'hidden_size': 0, 'vocab_size': 1}", "hidden_size");
    refused("{\n'hidden_size': -1}", "line 2: \"hidden_size\" should be a whole number from 0 to 16777216");
    refused("{'hidden_size': 1e300}", "hidden_size");
    refused("{'hidden_size': 'big'}", "hidden_size");
    refused("{'hidden_size': 64.5}", "hidden_size");
    refused("{'hidden_size': 18446744073709551616}", "line 1");
    refused("{'hidden_size': 64, 'vocab_size': 10}", "num_hidden_layers");
    refused("{'hidden_size': 64, 'vocab_size': 10, 'num_hidden_layers': 2049}", "from 0 to 2048");
    refused("{'hidden_size': 64, 'vocab_size': 10, 'num_hidden_layers': 2}", "num_attention_heads");
    refused("{'tie_word_embeddings': 'yes', " DECODER LAYERS("2") "}", "true or false");
    refused("{'num_key_value_heads': {}, " DECODER LAYERS("2") "}", "num_key_value_heads");
    refused("{'model_type': 'falcon_h1', " DECODER LAYERS("2048") "}", "num_hidden_layers");
    /* as deep as the stack would be */
    enum { DEEP = 200000 };
    _cleanup_free_
    char *deep = malloc(DEEP + 1);
    assert_non_null(deep);
    memset(deep, '[', DEEP);
    deep[DEEP] = 0;
    refused(deep, "64 deep");
    /* brackets in strings do not count */
    _cleanup_model_ struct uma_model *m = config_model(
        "{'x': '[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[', 'y': [-Infinity, NaN, Infinity], " DECODER
            LAYERS("1") "}");
    assert_int_equal(m->layer_count, 1);
}

static void a_configuration_of_gigabytes_is_not_read(void **state) {
    (void)state;
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    assert_int_equal(uma_model_from_config("c.json", "{}", (size_t)5 << 30, NULL, 0, &model, &err), -EFBIG);
    assert_int_equal(uma_model_from_config("c.json", "{}", 2, "{", 1, &model, &err), -EINVAL);
    assert_non_null(strstr(err.text, "hf_quant_config.json"));
}

/* Each of these would take hundreds of megabytes, or minutes, if it were taken at its word. */
static void costly_configurations_are_bounded(void **state) {
    (void)state;
    enum { SIZE = 4000000 };
    static const struct {
        const char *before, *repeated, *after;
        bool refused;
    } cases[] = {
        { "{'a': [0", ",{}", "]}", true },
        { "{'a': [0", ",[]", "]}", true },
        { "{'a': [0", ",1", "]}", true },
        { "{'model_type': 'qwen3_moe', 'num_experts': 2, 'num_hidden_layers': 2048, " DECODER ", 'mlp_only_layers': [0", ",3000           ",
          "]}", false },
        { "{'model_type': 'step3', 'num_experts': 2, 'num_hidden_layers': 2048, " DECODER ", 'moe_layers_enum': '1", ",3000", "'}", false },
        { "{'num_hidden_layers': 2048, " DECODER ", 'sliding_window': 4, 'sliding_window_pattern': 'L", "L", "'}", false },
        { "{'num_hidden_layers': 2048, " DECODER ", 'quantization_config': {'quant_method': 'fp8', 'ignore': ['x'", ",'mlp.up_proj.xyz'",
          "]}}", false },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char *text = malloc(SIZE + 512);
        assert_non_null(text);
        size_t n = (size_t)sprintf(text, "%s", cases[i].before), step = strlen(cases[i].repeated);
        for (; n < SIZE; n += step)
            memcpy(text + n, cases[i].repeated, step);
        n += (size_t)sprintf(text + n, "%s", cases[i].after);
        for (size_t j = 0; j < n; j++)
            text[j] = text[j] == '\'' ? '"' : text[j];
        struct uma_model *model = NULL;
        struct uma_error err = { 0 };
        int64_t start = uma_monotonic_ns();
        int r = uma_model_from_config("c.json", text, n, NULL, 0, &model, &err);
        free(text);
        if ((r < 0) != cases[i].refused)
            fail_msg("case %zu: %s", i, err.text);
        (void)uma_model_free(model);
        /* a second by promise, with what sanitizers and a busy machine cost; and six times that under an emulator, as all time limits there */
        assert_true(uma_monotonic_ns() - start < (getenv("UMA_EMULATED") ? 60 : 10) * UMA_SECOND_NS);
    }
}

static void absurd_but_possible_numbers_saturate(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = config_model(
        "{'model_type': 'qwen3_moe', 'hidden_size': 16777216, 'vocab_size': 16777216, 'num_hidden_layers': 2048, 'num_attention_heads': 1048576,"
        "'num_key_value_heads': 1048576, 'head_dim': 1048576, 'num_experts': 1048576, 'moe_intermediate_size': 16777216}");
    assert_true(uma_model_params(m) == UINT64_MAX);
    struct uma_kv kv;
    uma_kv_cache(m, &(struct uma_kv_options){ .context = UINT64_MAX, .sequences = UINT64_MAX, .engine = UMA_ENGINE_VLLM }, &kv);
    assert_true(kv.total == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_head_dim_is_the_hidden_size_by_heads),
        cmocka_unit_test(tied_embeddings_may_be_said_at_either_level),
        cmocka_unit_test(mla_has_its_own_dimensions),
        cmocka_unit_test(nas_blocks_are_each_their_own),
        cmocka_unit_test(an_output_gate_doubles_q),
        cmocka_unit_test(an_unknown_architecture_is_a_guess_with_a_warning),
        cmocka_unit_test(hybrid_patterns),
        cmocka_unit_test(gemma4_shares_its_cache),
        cmocka_unit_test(towers_and_mtp_have_classes_of_their_own),
        cmocka_unit_test(hostile_configurations_are_refused_with_a_place),
        cmocka_unit_test(a_configuration_of_gigabytes_is_not_read),
        cmocka_unit_test(costly_configurations_are_bounded),
        cmocka_unit_test(absurd_but_possible_numbers_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
