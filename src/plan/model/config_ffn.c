/* SPDX-License-Identifier: MIT */
/* Feed-forward blocks: dense, experts, which layer has which, and NAS blocks that have neither. */
#include "plan/model/config.h"

#include "plan/estimate.h"

#include <math.h>
#include <string.h>

static const char experts_names[] =
    "num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_moe_experts|n_experts|moe_num_primary_experts|moe_num_experts_per_layer";
static const char expert_size_names[] = "moe_intermediate_size|expert_ffn_hidden_size|moe_ffn_hidden_size|expert_intermediate_size|"
                                        "moe_hidden_dim|intermediate_size|ffn_hidden_size|n_inner|ffn_dim";
static const char dense_names[] = "intermediate_size_mlp|dense_intermediate_size|intermediate_size|ffn_hidden_size|ffn_dim|n_inner|d_ff|"
                                  "feed_forward_hidden_size";

static bool in_comma_list(const char *list, uint32_t value) {
    char number[16];
    int n = snprintf(number, sizeof number, "%u", value);
    for (const char *p = list; *p && p - list < 16 * UMA_MODEL_LAYERS_MAX;) {
        size_t length = strcspn(p, ",");
        if ((size_t)n == length && memcmp(p, number, length) == 0)
            return true;
        p += length + (p[length] == ',');
    }
    return false;
}

/* Are this layer's feed-forwards experts? Each rule is one family's; a configuration has the fields of its own only. */
static bool is_sparse(struct uma_config *config, uint32_t layer) {
    const json_t *list = uma_config_list(config, "mlp_layer_types");
    const char *word = json_string_value(json_array_get(list, layer));
    if (word)
        return strcmp(word, "dense") != 0;
    if (uma_config_list(config, "moe_layer_freq"))
        return uma_config_layer_number(config, "moe_layer_freq", layer, UMA_MODEL_LAYERS_MAX, 1) != 0;
    if ((list = uma_config_list(config, "moe_layers")))
        return uma_config_list_has(list, layer);
    const char *text = uma_config_string(config, "moe_layers_enum");
    if (text)
        return in_comma_list(text, layer);
    if ((list = uma_config_list(config, "mlp_only_layers")) && uma_config_list_has(list, layer))
        return false;
    if (layer < uma_config_number(config, "first_k_dense_replace|moe_layer_start_index|num_dense_layers", UMA_MODEL_LAYERS_MAX, 0))
        return false;
    if (layer > uma_config_number(config, "moe_layer_end_index", UINT32_MAX, UINT32_MAX))
        return false;
    uint64_t period = uma_config_number(config, "expert_layer_period", UMA_MODEL_LAYERS_MAX, 0); /* Jamba */
    if (period)
        return layer % period == uma_config_number(config, "expert_layer_offset", UMA_MODEL_LAYERS_MAX, 0);
    uint64_t step = uma_config_number(config, "decoder_sparse_step|interleave_moe_layer_step|moe_layer_interval|moe_layer_freq",
                                      UMA_MODEL_LAYERS_MAX, 1);
    if (step == 0)
        return false;
    return (layer + 1) % step == 0;
}

static uint64_t shared_size(struct uma_config *config, uint32_t layer, uint64_t expert) {
    uint64_t stated = uma_config_layer_number(config,
                                              "shared_expert_intermediate_size|moe_shared_expert_intermediate_size|share_expert_dim|"
                                              "shared_intermediate_size|moe_shared_expert_hidden_size|shared_expert_hidden_size",
                                              layer, CONFIG_WIDTH_MAX, 0);
    if (stated)
        return stated;
    uint64_t n = uma_config_layer_number(config, "n_shared_experts|num_shared_experts|num_shared_expert|moe_num_shared_experts", layer,
                                         CONFIG_COUNT_MAX, 0);
    return uma_times(n, expert);
}

static void experts(struct uma_config *config, uint32_t index) {
    struct uma_model *model = config->model;
    struct uma_model_layer *layer = &model->layers[index];
    uint32_t flags = config->arch ? config->arch->flags : 0;
    layer->ffn = UMA_FFN_MOE;
    layer->experts = (uint32_t)uma_config_layer_number(config, experts_names, index, CONFIG_COUNT_MAX, 0);
    layer->experts_per_token = (uint32_t)uma_config_layer_number(
        config, "num_experts_per_tok|num_experts_per_token|experts_per_token|top_k_experts|moe_topk|moe_k|moe_top_k|num_selected_experts",
        index, CONFIG_COUNT_MAX, 1);
    layer->ffn_size = uma_config_layer_number(config, expert_size_names, index, CONFIG_WIDTH_MAX, 0);
    layer->expert_input = (uint32_t)uma_config_number(config, "moe_latent_size|routed_expert_hidden_size", CONFIG_WIDTH_MAX, 0);
    layer->shared_ffn_size = shared_size(config, index, layer->ffn_size);
    if (uma_config_find(config, "interleave_moe_layer_step")) /* Llama 4: one shared expert as large as a routed one */
        layer->shared_ffn_size = layer->ffn_size;
    if (flags & (ARCH_MOE_DENSE | ARCH_TWO_IN_ONE)) /* the dense block beside the experts acts as a shared one */
        layer->shared_ffn_size = uma_config_layer_number(config, dense_names, index, CONFIG_WIDTH_MAX, 0);
}

static void dense(struct uma_config *config, uint32_t index, bool moe_family) {
    struct uma_model *model = config->model;
    struct uma_model_layer *layer = &model->layers[index];
    layer->ffn = UMA_FFN_DENSE;
    layer->ffn_size = uma_config_layer_number(config, dense_names, index, CONFIG_WIDTH_MAX, 0);
    /* Granite 4 without experts has the shared block alone; GPT-2 and its like are silent and mean four times the width */
    if (!moe_family && uma_config_find(config, "shared_intermediate_size"))
        layer->ffn_size = uma_config_number(config, "shared_intermediate_size", CONFIG_WIDTH_MAX, 0);
    if (layer->ffn_size == 0)
        layer->ffn_size = uma_times(4, model->hidden);
    if (strcmp(config->arch ? config->arch->names : "", "qwen") == 0) /* the first Qwen states both halves of its gated block as one */
        layer->ffn_size /= 2;
    if (uma_config_flag(config, "use_double_wide_mlp", false) && layer->shares_kv) /* Gemma 4 */
        layer->ffn_size = uma_times(layer->ffn_size, 2);
}

void uma_config_ffns(struct uma_config *config) {
    struct uma_model *model = config->model;
    uint32_t flags = config->arch ? config->arch->flags : 0;
    uint64_t n_experts = uma_config_number(config, experts_names, CONFIG_COUNT_MAX, 0);
    bool mamba_only = flags & (ARCH_MAMBA1 | ARCH_MAMBA2) && !(flags & ARCH_RESIDUAL_FFN);
    if (!uma_config_flag(config, "enable_moe_block", true))
        n_experts = 0;
    for (uint32_t i = 0; i < model->layer_count && config->status == 0; i++) {
        struct uma_model_layer *layer = &model->layers[i];
        char kind = config->kinds[i];
        layer->ffn_gated = !(flags & ARCH_UNGATED);
        if (kind == KIND_NO_FFN || (config->ffn_in_pattern && kind != KIND_DENSE && kind != KIND_EXPERTS) ||
            (kind == KIND_MAMBA && mamba_only))
            continue;
        bool all_dense = kind == KIND_DENSE || kind == KIND_FIRST || n_experts == 0;
        if (kind == KIND_EXPERTS || (!all_dense && is_sparse(config, i)))
            experts(config, i);
        else
            dense(config, i, n_experts > 0);
    }
    model->details.router_extra = (uint32_t)uma_config_number(config, "zero_expert_num", CONFIG_COUNT_MAX, 0);
}

/* Nemotron-NAS: the width of a block is a multiple of the hidden size, two thirds of it, up to the next 256 (modeling_decilm.py). */
static uint64_t nas_width(double multiple, uint32_t hidden) {
    if (!(multiple > 0) || multiple > 1024)
        return 0;
    uint64_t width = (uint64_t)(2 * multiple * hidden / 3);
    return (width + 255) / 256 * 256;
}

static void nas_attention(struct uma_config *config, struct uma_model_layer *layer, const json_t *attention) {
    if (json_is_true(json_object_get(attention, "no_op"))) {
        layer->mixer = UMA_MIXER_NONE;
        layer->kv_heads = 0;
    } else if (json_is_true(json_object_get(attention, "replace_with_linear"))) {
        layer->mixer = UMA_MIXER_LINEAR;
        layer->kv_heads = 0;
    } else {
        uint64_t group = uma_config_number_in(config, attention, "n_heads_in_group", CONFIG_COUNT_MAX, 0);
        if (group)
            layer->kv_heads = layer->heads / (uint32_t)group;
        layer->kv_heads = (uint32_t)uma_config_number_in(config, attention, "num_key_value_heads", CONFIG_COUNT_MAX, layer->kv_heads);
        layer->window = (uint32_t)uma_config_number_in(config, attention, "window_length|window_size", UINT32_MAX, layer->window);
    }
}

static void nas_ffn(struct uma_config *config, struct uma_model_layer *layer, const json_t *ffn) {
    if (json_is_true(json_object_get(ffn, "no_op")))
        layer->ffn = UMA_FFN_NONE;
    else if (json_is_true(json_object_get(ffn, "replace_with_linear")))
        layer->ffn = UMA_FFN_LINEAR;
    else {
        layer->ffn = UMA_FFN_DENSE;
        uint64_t width = nas_width(json_number_value(json_object_get(ffn, "ffn_mult")), config->model->hidden);
        width = uma_config_number_in(config, ffn, "intermediate_size", CONFIG_WIDTH_MAX, width);
        if (width)
            layer->ffn_size = width;
    }
}

void uma_config_blocks(struct uma_config *config) {
    const json_t *blocks = uma_config_list(config, "block_configs");
    size_t n = json_array_size(blocks);
    for (uint32_t i = 0; i < config->model->layer_count && i < n && config->status == 0; i++) {
        const json_t *block = json_array_get(blocks, i);
        struct uma_model_layer *layer = &config->model->layers[i];
        const json_t *attention = json_object_get(block, "attention"), *ffn = json_object_get(block, "ffn");
        if (json_is_object(attention))
            nas_attention(config, layer, attention);
        if (json_is_object(ffn))
            nas_ffn(config, layer, ffn);
    }
}
