/* SPDX-License-Identifier: MIT */
/* config.json -> struct uma_model: levels, family, global fields; the parts are in config_*.c. */
#include "plan/model/config.h"

#include "base/error.h"
#include "observe/json_tree.h"
#include "plan/estimate.h"

#include <string.h>

/* The language model of a composite stands in an object of its own; fields that it lacks may stand outside (and the other way round). */
static void find_levels(struct uma_config *config) {
    static const char *const inner[] = { "text_config",           "llm_config", "language_config", "thinker_config",
                                         "language_model_config", "text_cfg" };
    json_t *chain[4] = { config->root };
    unsigned n = 1;
    while (n < ELEMENTS(chain)) {
        json_t *next = NULL;
        for (size_t i = 0; !next && i < ELEMENTS(inner); i++) {
            json_t *value = json_object_get(chain[n - 1], inner[i]);
            next = json_is_object(value) ? value : NULL;
        }
        if (!next)
            break;
        chain[n++] = next;
    }
    while (n > 0)
        config->levels[config->level_count++] = chain[--n];
    /* MPT and DBRX keep a part of their fields one level down */
    static const char *const parts[] = { "attn_config", "ffn_config" };
    for (size_t i = 0; i < ELEMENTS(parts); i++) {
        json_t *part = json_object_get(config->levels[0], parts[i]);
        if (json_is_object(part) && config->level_count < CONFIG_LEVELS_MAX)
            config->levels[config->level_count++] = part;
    }
}

static const char *class_name(const json_t *level) {
    return json_string_value(json_array_get(json_object_get(level, "architectures"), 0));
}

/* The innermost name that is known; else the first that is stated. */
static int find_architecture(struct uma_config *config) {
    const char *stated = NULL;
    for (unsigned i = 0; i < config->level_count && !config->arch; i++) {
        const char *names[] = { json_string_value(json_object_get(config->levels[i], "model_type")), class_name(config->levels[i]) };
        for (size_t j = 0; j < ELEMENTS(names) && !config->arch; j++) {
            if (names[j] && !stated)
                stated = names[j];
            config->arch = names[j] ? uma_arch_find(names[j]) : NULL;
            if (config->arch)
                stated = names[j];
        }
    }
    config->model->architecture_known = config->arch != NULL;
    config->model->basis = config->arch ? UMA_BASIS_STRUCTURE : UMA_BASIS_GUESS;
    if (!config->arch)
        uma_model_warn(config->model, "architecture %.60s is not known; its parts are taken to be those of a common decoder",
                       stated ? stated : "?");
    return uma_model_string(&config->model->architecture, stated ? stated : "unknown");
}

static bool is_gelu_plain(const char *activation) {
    return activation && (strcmp(activation, "relu2") == 0 || strcmp(activation, "gelu_new") == 0 || strcmp(activation, "relu") == 0);
}

static void biases(struct uma_config *config) {
    struct uma_model *model = config->model;
    uint32_t flags = config->arch ? config->arch->flags : 0;
    bool bias = uma_config_flag(config, "attention_bias|qkv_bias|use_qkv_bias|add_qkv_bias|use_bias|add_bias_linear|bias|attn_bias",
                                flags & ARCH_QKV_BIAS);
    model->qkv_bias = bias;
    /* the original Qwen writes no_bias for the other linears and keeps the one of q, k and v */
    if (flags & ARCH_QKV_BIAS && flags & ARCH_NO_O_BIAS && !uma_config_find(config, "attention_bias"))
        model->qkv_bias = true;
    model->o_bias = bias && !(flags & ARCH_NO_O_BIAS) && !uma_config_find(config, "use_qkv_bias|add_qkv_bias|qkv_bias");
    if (uma_config_find(config, "attention_out_bias|o_bias|use_o_bias"))
        model->o_bias = uma_config_flag(config, "attention_out_bias|o_bias|use_o_bias", false);
    model->mlp_bias = uma_config_flag(config, "mlp_bias|use_mlp_bias|use_bias|add_bias_linear|bias", flags & ARCH_MLP_BIAS);
    model->qk_norm = uma_config_flag(config, "use_qk_norm|qk_layernorm|qk_norm", flags & (ARCH_QK_NORM | ARCH_QK_FULL));
    if (uma_config_find(config, "attention_chunk_size") && uma_config_find(config, "interleave_moe_layer_step"))
        model->qk_norm = false; /* Llama 4's has no parameters */
    model->details.qk_norm_full = flags & ARCH_QK_FULL;
}

static void globals(struct uma_config *config) {
    struct uma_model *model = config->model;
    struct uma_model_details *details = &model->details;
    uint32_t flags = config->arch ? config->arch->flags : 0;
    model->hidden = (uint32_t)uma_config_number(config, "hidden_size|n_embd|n_embed|d_model|model_dim|dim|hidden_dim", CONFIG_WIDTH_MAX, 0);
    if (model->hidden == 0)
        uma_config_fail(config, "hidden_size", "there, a number from 1 to 16777216");
    model->vocab = uma_config_number(config, "padded_vocab_size|vocab_size|n_vocab", CONFIG_WIDTH_MAX, 0);
    if (model->vocab == 0)
        uma_config_fail(config, "vocab_size", "there, a number from 1 to 16777216");
    model->max_position = uma_config_number(
        config, "max_position_embeddings|n_positions|n_ctx|seq_length|max_seq_len|max_sequence_length|model_max_length", UINT32_MAX, 0);
    model->tied = uma_config_flag(config, "tie_word_embeddings|tie_embeddings", flags & ARCH_TIED);
    model->norms_per_layer = config->arch ? config->arch->norms : 2;
    if (uma_config_flag(config, "use_parallel_residual|parallel_attn", false) && flags & (ARCH_LAYER_NORM) &&
        !uma_config_find(config, "rotary_pct"))
        model->norms_per_layer = uma_config_flag(config, "new_decoder_architecture", false) ? 2 : 1;
    biases(config);
    details->norm_bias = flags & ARCH_LAYER_NORM;
    details->norm_none = flags & ARCH_NORM_NONE;
    details->embedding_norm = flags & ARCH_EMBED_NORM;
    details->lm_head_bias = uma_config_flag(config, "lm_head_bias", flags & ARCH_LM_BIAS);
    details->router_bias = uma_config_flag(config, "use_routing_bias|use_moe_router_bias", flags & ARCH_ROUTER_BIAS);
    details->router_scale = flags & ARCH_MOE_DENSE;
    details->expert_bias = flags & ARCH_EXPERT_BIAS;
    details->own_kv = flags & ARCH_OWN_KV;
    details->shared_gate = flags & ARCH_SHARED_GATE;
    if (flags & ARCH_POSITIONS) /* OPT's table has two rows that no position uses */
        details->positions = model->max_position + (strcmp(config->arch->names, "opt") == 0 ? 2 : 0);
    details->layer_input = (uint32_t)uma_config_number(config, "hidden_size_per_layer_input", CONFIG_WIDTH_MAX, 0);
    details->layer_vocab = uma_config_number(config, "vocab_size_per_layer_input", CONFIG_WIDTH_MAX, model->vocab);
    details->altup = (uint32_t)uma_config_number(config, "altup_num_inputs", 64, 0);
    details->laurel = (uint32_t)uma_config_number(config, "laurel_rank", CONFIG_WIDTH_MAX, 0);
}

/* An architecture that is not known and whose activation has no gate has two matrices in its feed-forward. */
static void activation(struct uma_config *config) {
    if (config->arch || !is_gelu_plain(uma_config_string(config, "hidden_act|activation_function|mlp_hidden_act|hidden_activation")))
        return;
    for (uint32_t i = 0; i < config->model->layer_count; i++)
        config->model->layers[i].ffn_gated = false;
}

static void build(struct uma_config *config, const json_t *quant) {
    globals(config);
    if (config->status == 0)
        uma_config_kinds(config);
    if (config->status == 0)
        uma_config_mixers(config);
    if (config->status == 0)
        uma_config_ffns(config);
    if (config->status == 0)
        uma_config_blocks(config);
    if (config->status != 0)
        return;
    activation(config);
    uma_config_formats(config);
    uma_config_towers(config);
    uma_structure_count(config->model);
    uma_config_quantise(config, quant);
}

int uma_model_from_config(const char *name, const char *text, size_t length, const char *quant_text, size_t quant_length,
                          struct uma_model **ret_model, struct uma_error *err) {
    _cleanup_json_ json_t *root = NULL, *quant = NULL;
    int r = uma_config_parse(name, text, length, &root, err);
    if (r == 0 && quant_text)
        r = uma_config_parse("hf_quant_config.json", quant_text, quant_length, &quant, err);
    if (r < 0)
        return r;
    _cleanup_model_ struct uma_model *model = uma_model_new(0);
    _cleanup_free_
    struct uma_config *config = calloc(1, sizeof *config);
    if (!model || !config)
        return uma_error_set(err, ENOMEM, "%s", name);
    *config = (struct uma_config){ .file = name, .text = text, .length = length, .root = root, .model = model, .err = err };
    find_levels(config);
    if (find_architecture(config) < 0 || uma_model_string(&model->name, name) < 0 || uma_model_string(&model->source, name) < 0)
        return uma_error_set(err, ENOMEM, "%s", name);
    build(config, quant);
    if (config->status != 0)
        return config->status;
    *ret_model = TAKE_PTR(model);
    return 0;
}
