/* SPDX-License-Identifier: MIT */
#include "plan/model/config_quant.h"
#include "config_text.h"

#define B(role) UMA_LINEAR_BIT(UMA_LINEAR_##role)
#define SHAPE "'hidden_size': 256, 'num_attention_heads': 4, 'vocab_size': 1000, 'intermediate_size': 512, 'num_hidden_layers': 2"
#define MOE "'num_experts': 4, 'moe_intermediate_size': 128, "

static void names_speak_of_matrices(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t roles;
        int64_t layer;
    } cases[] = {
        { "lm_head", 0, -1 },
        { "model.layers.3.self_attn.q_proj", B(Q), 3 },
        { "model.layers.3.self_attn*", UMA_ATTENTION_ROLES, 3 },
        { "re:.*self_attn.*", UMA_ATTENTION_ROLES, -1 },
        { "model.layers.0.self_attn.kv_a_proj_with_mqa", B(KV_A), 0 },
        { "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", B(GATE) | B(UP) | B(DOWN), -1 },
        { "model.layers.7.mlp.shared_experts*", B(SHARED_GATE) | B(SHARED_UP) | B(SHARED_DOWN), 7 },
        { "model.layers.7.mlp.shared_expert_gate", 0, 7 },
        { "layers.12.ffn.experts", B(EXPERT_GATE) | B(EXPERT_UP) | B(EXPERT_DOWN), 12 },
        { "model.layers.5.mlp.gate", B(ROUTER), 5 },
        { "model.layers.5.mlp.gate.e_score_correction_bias", 0, 5 },
        { "gate", B(ROUTER), -1 },
        { "model.layers.5.input_layernorm", 0, 5 },
        { "model.language_model.layers.0.linear_attn.in_proj_z", B(MIXER_GATE), 0 },
        { "model.layers.0.linear_attn.conv1d", 0, 0 },
        { "backbone.layers.4.mixer.in_proj", B(MIXER_IN), 4 },
        { "backbone.layers.4.mixer.k_proj", B(K), 4 },
        { "model.layers.0*", UINT32_MAX, 0 },
        { "model.layers.1.*", UINT32_MAX, 1 },
        { "model.layers.99999999999999999999.self_attn", UMA_ATTENTION_ROLES, -1 },
        { "layers", UINT32_MAX, -1 },
        { "", 0, -1 },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        if (uma_config_module_roles(cases[i].name, false) != (uint32_t)cases[i].roles ||
            uma_config_module_layer(cases[i].name) != cases[i].layer)
            fail_msg("%s: roles %x, layer %d", cases[i].name, uma_config_module_roles(cases[i].name, false),
                     (int)uma_config_module_layer(cases[i].name));
    }
    assert_true(uma_config_module_is_tower("model.visual.blocks.0.mlp"));
    assert_true(uma_config_module_is_tower("patch_merge_mlp"));
    assert_false(uma_config_module_is_tower("model.layers.0.mlp"));
    /* Gemma 4's experts stand beside what is called mlp */
    assert_int_equal(uma_config_module_roles("model.layers.0.mlp*", true) & B(EXPERT_UP), 0);
    assert_true(uma_config_module_roles("model.layers.0.mlp*", false) & B(EXPERT_UP));
}

static void format_of_section(const char *section, enum uma_format expected) {
    char text[1024];
    snprintf(text, sizeof text, "{'model_type': 'llama', 'quantization_config': %s, " SHAPE "}", section);
    _cleanup_model_ struct uma_model *m = config_model(text);
    if (m->class_format[UMA_CLASS_MLP] != expected)
        fail_msg("%s: %s, expected %s", section, uma_format_name(m->class_format[UMA_CLASS_MLP]), uma_format_name(expected));
    assert_int_equal(m->class_format[UMA_CLASS_EMBEDDING], UMA_FORMAT_BF16);
    assert_int_equal(m->class_format[UMA_CLASS_LM_HEAD], UMA_FORMAT_BF16);
    assert_int_equal(m->class_format[UMA_CLASS_NORM], UMA_FORMAT_BF16);
    assert_int_equal(m->totals[UMA_CLASS_MLP].bytes, uma_format_bytes(expected, m->totals[UMA_CLASS_MLP].params));
    assert_non_null(m->quantisation);
}

static void each_method_has_its_format(void **state) {
    (void)state;
    format_of_section(
        "{'quant_method': 'bitsandbytes', 'load_in_4bit': true, 'bnb_4bit_quant_type': 'nf4', 'bnb_4bit_use_double_quant': true}",
        UMA_FORMAT_NF4_DQ);
    format_of_section("{'quant_method': 'bitsandbytes', 'load_in_4bit': true}", UMA_FORMAT_NF4);
    format_of_section("{'quant_method': 'bitsandbytes', 'load_in_8bit': true}", UMA_FORMAT_INT8);
    format_of_section("{'quant_method': 'gptq', 'bits': 4, 'group_size': 128}", UMA_FORMAT_GPTQ4_G128);
    format_of_section("{'quant_method': 'gptq', 'bits': 4, 'group_size': -1}", UMA_FORMAT_GPTQ4_CHANNEL);
    format_of_section("{'quant_method': 'gptq', 'bits': 8, 'group_size': 32}", UMA_FORMAT_INT8);
    format_of_section("{'quant_method': 'awq', 'bits': 4, 'group_size': 128}", UMA_FORMAT_AWQ4_G128);
    format_of_section("{'quant_method': 'awq', 'w_bit': 4, 'q_group_size': 64}", UMA_FORMAT_GPTQ4_G64);
    format_of_section("{'quant_method': 'fp8', 'weight_block_size': [128, 128]}", UMA_FORMAT_FP8_BLOCK128);
    format_of_section("{'quant_method': 'fbgemm_fp8'}", UMA_FORMAT_FP8);
    format_of_section("{'quant_method': 'modelopt', 'quant_algo': 'NVFP4'}", UMA_FORMAT_NVFP4);
    format_of_section("{'quant_method': 'modelopt', 'quant_algo': 'W4A16_AWQ', 'group_size': 128}", UMA_FORMAT_AWQ4_G128);
    format_of_section(
        "{'quant_method': 'compressed-tensors', 'format': 'pack-quantized', 'config_groups': {'group_0': {'targets': ['Linear'],"
        "'weights': {'num_bits': 4, 'type': 'int', 'group_size': 128, 'symmetric': true}}}}",
        UMA_FORMAT_W4A16_G128);
    format_of_section("{'quant_method': 'compressed-tensors', 'format': 'nvfp4-pack-quantized', 'config_groups': {'group_0': {'targets':"
                      "['Linear'], 'weights': {'num_bits': 4, 'type': 'float', 'group_size': 16}}}}",
                      UMA_FORMAT_NVFP4);
    format_of_section(
        "{'quant_method': 'compressed-tensors', 'config_groups': {'group_0': {'targets': ['Linear'], 'weights': {'num_bits': 8,"
        "'type': 'float', 'strategy': 'channel'}}}}",
        UMA_FORMAT_FP8);
}

static void an_unknown_method_warns_and_counts_16_bits(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m =
        config_model("{'model_type': 'llama', 'quantization_config': {'quant_method': 'zorp'}, " SHAPE "}");
    assert_int_equal(m->warning_count, 1);
    assert_int_equal(uma_model_bytes(m), 2 * uma_model_params(m));
}

static void exceptions_keep_16_bits(void **state) {
    (void)state;
    /* gpt-oss: only the experts are MXFP4 */
    _cleanup_model_ struct uma_model *oss = config_model(
        "{'model_type': 'gpt_oss', 'num_local_experts': 4, 'quantization_config': {'quant_method': 'mxfp4', 'modules_to_not_convert':"
        "['model.layers.*.self_attn', 'model.layers.*.mlp.router', 'model.embed_tokens', 'lm_head']}, " SHAPE "}");
    assert_int_equal(oss->class_format[UMA_CLASS_EXPERTS], UMA_FORMAT_MXFP4);
    assert_int_equal(oss->class_format[UMA_CLASS_ATTENTION], UMA_FORMAT_BF16);
    /* one of two layers */
    _cleanup_model_ struct uma_model *half = config_model(
        "{'model_type': 'llama', 'quantization_config': {'quant_method': 'fp8', 'ignored_layers': ['model.layers.1.self_attn.o_proj']}, " SHAPE
        "}");
    const struct uma_tensor_total *total = &half->totals[UMA_CLASS_ATTENTION];
    assert_int_equal(total->bytes, total->params + 256 * 256);
    assert_int_equal(half->class_format[UMA_CLASS_ATTENTION], UMA_FORMAT_FP8);
}

static void hf_quant_config_has_the_last_word(void **state) {
    (void)state;
    _cleanup_free_
    char *config = double_quotes("{'model_type': 'qwen3_moe', " MOE SHAPE "}");
    _cleanup_free_
    char *quant = double_quotes(
        "{'quantization': {'quant_algo': 'MIXED_PRECISION', 'kv_cache_quant_algo': 'FP8', 'quantized_layers': {"
        "'model.layers.0.mlp.experts': {'quant_algo': 'NVFP4', 'group_size': 16}, 'model.layers.1.mlp.experts': {'quant_algo': 'NVFP4'},"
        "'model.layers.0.self_attn.q_proj': {'quant_algo': 'FP8'}}, 'exclude_modules': ['lm_head', 'mtp*']}}");
    _cleanup_model_ struct uma_model *m = NULL;
    struct uma_error err = { 0 };
    assert_int_equal(uma_model_from_config("c", config, strlen(config), quant, strlen(quant), &m, &err), 0);
    assert_int_equal(m->class_format[UMA_CLASS_EXPERTS], UMA_FORMAT_NVFP4);
    assert_int_equal(m->totals[UMA_CLASS_EXPERTS].bytes, m->totals[UMA_CLASS_EXPERTS].params / 16 * 9);
    assert_int_equal(m->class_format[UMA_CLASS_ATTENTION], UMA_FORMAT_BF16);
    /* q of layer 0, 256 x 4 heads x 128, has one byte each */
    assert_int_equal(m->totals[UMA_CLASS_ATTENTION].bytes, 2 * m->totals[UMA_CLASS_ATTENTION].params - 256 * 512);
    assert_int_equal(m->kv_format, UMA_FORMAT_FP8);
    assert_string_equal(m->quantisation, "modelopt MIXED_PRECISION");
}

static void fields_of_a_wrong_kind_do_no_harm(void **state) {
    (void)state;
    static const char *const sections[] = {
        "{'quant_method': 7, 'bits': 'four', 'ignore': {'a': 1}, 'config_groups': [1]}",
        "{'quant_method': 'compressed-tensors', 'config_groups': {'g': 5, 'h': {'weights': [], 'targets': 'x'}}}",
        "{'quant_method': 'modelopt', 'quant_algo': 'MIXED_PRECISION', 'quantized_layers': {'model.layers.0': 1, '': {}}}",
        "{'quant_method': 'gptq', 'bits': -4, 'group_size': 99999999}",
        "{'ignore': [1, null, 'model.layers.18446744073709551615.mlp', '(?!x)layers']}",
    };
    for (size_t i = 0; i < ELEMENTS(sections); i++) {
        char text[1024];
        snprintf(text, sizeof text, "{'model_type': 'llama', 'quantization_config': %s, " SHAPE "}", sections[i]);
        _cleanup_model_ struct uma_model *m = config_model(text);
        assert_true(uma_model_bytes(m) > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_speak_of_matrices),
        cmocka_unit_test(each_method_has_its_format),
        cmocka_unit_test(an_unknown_method_warns_and_counts_16_bits),
        cmocka_unit_test(exceptions_keep_16_bits),
        cmocka_unit_test(hf_quant_config_has_the_last_word),
        cmocka_unit_test(fields_of_a_wrong_kind_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
