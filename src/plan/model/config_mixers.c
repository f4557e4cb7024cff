/* SPDX-License-Identifier: MIT */
/* Heads and dimensions of what mixes tokens. */
#include "plan/model/config.h"

#include <string.h>

static const char heads_names[] = "num_attention_heads|n_head|n_heads|num_heads";

static uint32_t number(struct uma_config *config, const char *names, uint32_t layer, uint64_t max, uint64_t absent) {
    return (uint32_t)uma_config_layer_number(config, names, layer, max, absent);
}

static uint64_t window_of(struct uma_config *config) {
    uint64_t window = uma_config_number(config, "sliding_window|sliding_window_size|attention_window_size", UINT32_MAX, 0);
    if (window == 0)
        window = uma_config_number(config, "attention_chunk_size", UINT32_MAX, 0); /* Llama 4 */
    /* Phi-4-mini states a window of twice its longest sequence */
    return config->model->max_position && window >= config->model->max_position ? 0 : window;
}

/* Key-value heads where one field does not say it: Falcon and GPT-BigCode keep a flag for a single head. */
static uint64_t kv_heads_of(struct uma_config *config, uint32_t layer, uint32_t heads) {
    static const char names[] =
        "num_key_value_heads|num_kv_heads|n_kv_heads|n_head_kv|multi_query_group_num|num_attention_groups|kv_n_heads";
    if (config->arch && config->arch->flags & ARCH_MQA && !uma_config_flag(config, "new_decoder_architecture", false))
        return uma_config_flag(config, "multi_query", true) ? 1 : heads;
    return uma_config_layer_number(config, names, layer, CONFIG_COUNT_MAX, heads);
}

static void attention(struct uma_config *config, uint32_t index, bool sliding, uint64_t window) {
    struct uma_model *model = config->model;
    struct uma_model_layer *layer = &model->layers[index];
    uint32_t flags = config->arch ? config->arch->flags : 0;
    layer->mixer = UMA_MIXER_ATTENTION;
    layer->heads = number(config, heads_names, index, CONFIG_COUNT_MAX, 0);
    if (layer->heads == 0) {
        uma_config_fail(config, "num_attention_heads", "there, a number from 1 to 1048576");
        return;
    }
    layer->kv_heads = (uint32_t)kv_heads_of(config, index, layer->heads);
    uint64_t head = config->arch && config->arch->head_dim ? config->arch->head_dim : model->hidden / layer->heads;
    head = uma_config_layer_number(config, "head_dim|attention_head_dim|kv_channels|d_head", index, CONFIG_COUNT_MAX, head);
    layer->head_dim = (uint32_t)(head ? head : model->hidden / layer->heads);
    layer->v_head_dim = number(config, "v_head_dim", index, CONFIG_COUNT_MAX, layer->head_dim);
    layer->output_gate = uma_config_flag(config, "attn_output_gate|attention_output_gate", flags & ARCH_OUTPUT_GATE);
    layer->sinks = flags & ARCH_SINKS;
    if (sliding) {
        layer->window = (uint32_t)window;
        layer->heads = number(config, "swa_num_attention_heads", index, CONFIG_COUNT_MAX, layer->heads);
        layer->kv_heads = number(config, "swa_num_key_value_heads", index, CONFIG_COUNT_MAX, layer->kv_heads);
        layer->head_dim = number(config, "swa_head_dim", index, CONFIG_COUNT_MAX, layer->head_dim);
        layer->v_head_dim = number(config, "swa_v_head_dim", index, CONFIG_COUNT_MAX, layer->v_head_dim);
        layer->sinks = uma_config_flag(config, "add_swa_attention_sink_bias", layer->sinks);
    } else {
        layer->kv_heads = number(config, "num_global_key_value_heads", index, CONFIG_COUNT_MAX, layer->kv_heads);
        uint32_t global = number(config, "global_head_dim", index, CONFIG_COUNT_MAX, 0);
        if (global)
            layer->head_dim = layer->v_head_dim = global;
        layer->key_is_value = uma_config_flag(config, "attention_k_eq_v", false);
        layer->sinks = uma_config_flag(config, "add_full_attention_sink_bias", layer->sinks);
    }
}

/* DeepSeek-V4: one latent head that is key and value, its last part rotary; each layer keeps a window and compressed entries beyond it. */
static void compressed(struct uma_config *config, uint32_t index, uint64_t window) {
    struct uma_model_layer *layer = &config->model->layers[index];
    uint32_t head = layer->head_dim;
    layer->v_head_dim = head;
    layer->window = (uint32_t)window;
    layer->sinks = true;
    layer->kv_compression = (uint32_t)uma_config_layer_number(config, "compress_ratios", index, UINT32_MAX, 0);
    layer->indexed = layer->kv_compression == 4;
    uma_model_warn(config->model, "engines lay out compressed caches in their own ways: the cache is window and compressed entries alone");
    config->model->kv_lora_rank = head > config->model->qk_rope_dim ? head - config->model->qk_rope_dim : head;
    config->model->qk_nope_dim = config->model->kv_lora_rank;
}

static void latent(struct uma_config *config, uint32_t index, uint64_t window) {
    struct uma_model_layer *layer = &config->model->layers[index];
    layer->mixer = UMA_MIXER_MLA;
    layer->output_gate = uma_config_flag(config, "mla_use_output_gate", false);
    layer->key_is_value = layer->sinks = false;
    layer->window = 0;
    if (uma_config_list(config, "compress_ratios")) {
        compressed(config, index, window);
        return;
    }
    layer->head_dim = config->model->qk_nope_dim + config->model->qk_rope_dim;
    layer->v_head_dim = (uint32_t)uma_config_number(config, "v_head_dim", CONFIG_COUNT_MAX, config->model->qk_nope_dim);
    if (config->model->index_head_dim) {
        const json_t *types = uma_config_list(config, "indexer_types"); /* GLM-5.2: some layers use an earlier one's choice */
        const char *type = json_string_value(json_array_get(types, index));
        layer->indexed = !type || strcmp(type, "shared") != 0;
    }
}

static void linear(struct uma_config *config, uint32_t index) {
    struct uma_model *model = config->model;
    struct uma_model_layer *layer = &model->layers[index];
    const json_t *kimi = uma_config_object(config, "linear_attn_config");
    if (kimi) {
        layer->mixer = UMA_MIXER_KDA;
        uint32_t heads = (uint32_t)uma_config_number_in(config, kimi, "num_heads", CONFIG_COUNT_MAX, 0);
        uint32_t dim = (uint32_t)uma_config_number_in(config, kimi, "head_dim", CONFIG_COUNT_MAX, 128);
        model->linear_key_heads = model->linear_value_heads = heads;
        model->linear_key_dim = model->linear_value_dim = dim;
        model->linear_conv = (uint32_t)uma_config_number_in(config, kimi, "short_conv_kernel_size", 64, 4);
        model->details.full_rank_gate = json_is_true(json_object_get(kimi, "use_full_rank_gate"));
        return;
    }
    if (!uma_config_find(config, "linear_num_value_heads")) { /* MiniMax-01 */
        attention(config, index, false, 0);
        layer->mixer = UMA_MIXER_LIGHTNING;
        return;
    }
    layer->mixer = UMA_MIXER_GATED_DELTA;
    model->linear_value_heads = (uint32_t)uma_config_number(config, "linear_num_value_heads", CONFIG_COUNT_MAX, 0);
    model->linear_key_heads = (uint32_t)uma_config_number(config, "linear_num_key_heads", CONFIG_COUNT_MAX, model->linear_value_heads);
    model->linear_key_dim = (uint32_t)uma_config_number(config, "linear_key_head_dim", CONFIG_COUNT_MAX, 128);
    model->linear_value_dim = (uint32_t)uma_config_number(config, "linear_value_head_dim", CONFIG_COUNT_MAX, 128);
    model->linear_conv = (uint32_t)uma_config_number(config, "linear_conv_kernel_dim", 64, 4);
}

static void mamba(struct uma_config *config, uint32_t index) {
    struct uma_model *model = config->model;
    bool first = config->arch && config->arch->flags & ARCH_MAMBA1;
    uint64_t expand = uma_config_number(config, "mamba_expand|expand", 64, 2);
    model->layers[index].mixer = first ? UMA_MIXER_MAMBA1 : UMA_MIXER_MAMBA2;
    model->ssm_state =
        (uint32_t)uma_config_number(config, "ssm_state_size|mamba_d_state|state_size|d_state", CONFIG_COUNT_MAX, first ? 16 : 128);
    model->ssm_conv = (uint32_t)uma_config_number(config, "conv_kernel|mamba_d_conv|d_conv|conv_kernel_size", 64, 4);
    model->ssm_groups = (uint32_t)uma_config_number(config, "n_groups|mamba_n_groups|mamba_ngroups|ngroups", CONFIG_COUNT_MAX, 1);
    model->ssm_head_dim = (uint32_t)uma_config_number(config, "mamba_head_dim|mamba_d_head|mamba_headdim", CONFIG_COUNT_MAX, 64);
    uint64_t heads = uma_config_number(config, "mamba_num_heads|mamba_n_heads|n_mamba_heads", CONFIG_COUNT_MAX, 0);
    uint64_t inner = uma_config_number(config, "mamba_d_ssm|d_inner", CONFIG_WIDTH_MAX, 0);
    if (model->layers[index].mixer == UMA_MIXER_MAMBA2 && strncmp(config->arch ? config->arch->names : "", "mamba2", 6) == 0) {
        model->ssm_head_dim = (uint32_t)uma_config_number(config, "head_dim", CONFIG_COUNT_MAX, 64);
        heads = uma_config_number(config, "num_heads", CONFIG_COUNT_MAX, 0);
    }
    if (first &&
        strncmp(config->arch->names, "mamba", 5) == 0) /* the pure family states it, and Falcon-Mamba a wrong expansion beside it */
        inner = uma_config_number(config, "intermediate_size", CONFIG_WIDTH_MAX, inner);
    if (inner == 0)
        inner = heads && !first ? heads * model->ssm_head_dim : expand * model->hidden;
    if (heads == 0 && model->ssm_head_dim)
        heads = inner / model->ssm_head_dim;
    model->ssm_inner = inner;
    model->ssm_heads = (uint32_t)MIN_OF(heads, (uint64_t)CONFIG_COUNT_MAX);
    uint64_t rank = (model->hidden + 15) / 16; /* "auto" */
    const json_t *stated = uma_config_find(config, "time_step_rank|mamba_dt_rank");
    if (first)
        model->details.dt_rank =
            (uint32_t)(json_is_string(stated) ? rank : uma_config_number(config, "time_step_rank|mamba_dt_rank", CONFIG_WIDTH_MAX, rank));
    model->details.conv_bias = uma_config_flag(config, "use_conv_bias|mamba_conv_bias", true);
}

static void state_format(struct uma_config *config) {
    const char *name = uma_config_string(config, "mamba_ssm_dtype|mamba_ssm_cache_dtype");
    enum uma_format format = name ? uma_format_from_name(name) : UMA_FORMAT_UNKNOWN;
    if (format != UMA_FORMAT_UNKNOWN)
        config->model->ssm_state_bytes = (uint32_t)uma_format_bytes(format, 1);
}

static void dimensions(struct uma_config *config) {
    struct uma_model *model = config->model;
    model->q_lora_rank = (uint32_t)uma_config_number(config, "q_lora_rank", CONFIG_WIDTH_MAX, 0);
    model->kv_lora_rank = (uint32_t)uma_config_number(config, "kv_lora_rank", CONFIG_WIDTH_MAX, 0);
    model->qk_rope_dim = (uint32_t)uma_config_number(config, "qk_rope_head_dim", CONFIG_COUNT_MAX, 0);
    model->qk_nope_dim = (uint32_t)uma_config_number(config, "qk_nope_head_dim", CONFIG_COUNT_MAX, 0);
    model->index_head_dim = (uint32_t)uma_config_number(config, "index_head_dim", CONFIG_COUNT_MAX, 0);
    model->index_heads = (uint32_t)uma_config_number(config, "index_n_heads", CONFIG_COUNT_MAX, 0);
    model->details.o_groups = (uint32_t)uma_config_number(config, "o_groups", CONFIG_COUNT_MAX, 0);
    model->details.o_lora_rank = (uint32_t)uma_config_number(config, "o_lora_rank", CONFIG_WIDTH_MAX, 0);
    state_format(config);
}

/* Layers that use an earlier one's keys and values: Gemma 3n and 4 the last ones, Hunyuan-Large all but every second. */
static void shared_kv(struct uma_config *config) {
    struct uma_model *model = config->model;
    uint64_t last = uma_config_number(config, "num_kv_shared_layers", UMA_MODEL_LAYERS_MAX, 0);
    uint64_t factor =
        uma_config_flag(config, "use_cla", false) ? uma_config_number(config, "cla_share_factor", UMA_MODEL_LAYERS_MAX, 2) : 0;
    for (uint32_t i = 0; i < model->layer_count; i++)
        model->layers[i].shares_kv = (last < model->layer_count && i >= model->layer_count - last) || (factor > 1 && i % factor != 0);
}

void uma_config_mixers(struct uma_config *config) {
    struct uma_model *model = config->model;
    dimensions(config);
    uint64_t window = window_of(config);
    bool mla = model->kv_lora_rank > 0 || uma_config_list(config, "compress_ratios");
    for (uint32_t i = 0; i < model->layer_count && config->status == 0; i++) {
        char kind = config->kinds[i];
        switch (kind) {
        case KIND_LINEAR:
            linear(config, i);
            break;
        case KIND_MAMBA:
        case KIND_NO_FFN:
            mamba(config, i);
            break;
        case KIND_DENSE:
        case KIND_EXPERTS:
            break;
        default:
            attention(config, i, kind == KIND_SLIDING, window);
            if (mla && config->status == 0)
                latent(config, i, window);
            model->layers[i].shares_weights = kind == KIND_SHARED;
        }
    }
    shared_kv(config);
}
