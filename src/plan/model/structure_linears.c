/* SPDX-License-Identifier: MIT */
/* The matrices of a layer, as the checkpoints of each family hold them. */
#include "plan/model/structure.h"

#include "plan/estimate.h"

struct list {
    struct uma_linear *linears;
    size_t n;
};

static void add(struct list *list, enum uma_class class_, enum uma_linear_role role, uint64_t in, uint64_t out, uint32_t copies) {
    if (in == 0 || out == 0 || copies == 0 || list->n == UMA_LINEARS_PER_LAYER_MAX)
        return;
    list->linears[list->n++] = (struct uma_linear){ .role = role, .in = in, .out = out, .copies = copies, .class_ = class_ };
}

static void add_attention(const struct uma_model *model, const struct uma_model_layer *layer, struct list *list) {
    uint64_t in = layer->input ? layer->input : model->hidden;
    uint64_t q = uma_times(layer->heads, layer->head_dim), o = uma_times(layer->heads, layer->v_head_dim);
    add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_Q, in, uma_times(q, layer->output_gate ? 2 : 1), 1);
    if (!layer->shares_kv || model->details.own_kv) {
        add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_K, in, uma_times(layer->kv_heads, layer->head_dim), 1);
        if (!layer->key_is_value)
            add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_V, in, uma_times(layer->kv_heads, layer->v_head_dim), 1);
    }
    add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_O, o, model->hidden, 1);
}

/* DeepSeek-V2 (arXiv:2405.04434, section 2.1); DeepSeek-V4 has no up-projection of the latent and an output projection in low-rank groups. */
static void add_mla(const struct uma_model *model, const struct uma_model_layer *layer, struct list *list) {
    const struct uma_model_details *details = &model->details;
    uint64_t qk = uma_plus(model->qk_nope_dim, model->qk_rope_dim), o = uma_times(layer->heads, layer->v_head_dim);
    if (model->q_lora_rank) {
        add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_Q_A, model->hidden, model->q_lora_rank, 1);
        add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_Q_B, model->q_lora_rank, uma_times(layer->heads, qk), 1);
    } else
        add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_Q, model->hidden, uma_times(layer->heads, qk), 1);
    add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_KV_A, model->hidden, uma_plus(model->kv_lora_rank, model->qk_rope_dim), 1);
    if (details->o_lora_rank && details->o_groups) {
        uint64_t low = uma_times(details->o_groups, details->o_lora_rank);
        add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_O, o / details->o_groups, low, 1);
        add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_O, low, model->hidden, 1);
        return;
    }
    add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_KV_B, model->kv_lora_rank,
        uma_times(layer->heads, uma_plus(model->qk_nope_dim, layer->v_head_dim)), 1);
    if (layer->output_gate)
        add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_MIXER_GATE, model->hidden, o, 1);
    add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_O, o, model->hidden, 1);
}

/* DeepSeek-V3.2's lightning indexer: queries from the query latent, one key head, a weight per head. */
static void add_indexer(const struct uma_model *model, struct list *list) {
    uint64_t in = model->q_lora_rank ? model->q_lora_rank : model->hidden;
    add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_INDEX, in, uma_times(model->index_heads, model->index_head_dim), 1);
    add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_INDEX, model->hidden, model->index_head_dim, 1);
    add(list, UMA_CLASS_ATTENTION, UMA_LINEAR_INDEX, model->hidden, model->index_heads, 1);
}

static void add_delta(const struct uma_model *model, const struct uma_model_layer *layer, struct list *list) {
    uint64_t k = uma_times(model->linear_key_heads, model->linear_key_dim),
             v = uma_times(model->linear_value_heads, model->linear_value_dim);
    add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_IN, model->hidden, uma_plus(uma_times(2, k), v), 1);
    if (layer->mixer == UMA_MIXER_GATED_DELTA) {
        add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_GATE, model->hidden, v, 1);
        add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_IN, model->hidden, uma_times(2, model->linear_value_heads), 1);
    } else { /* KDA (arXiv:2510.26692): decay and output gate of low rank head_dim, one beta per head */
        add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_IN, model->hidden, model->linear_value_dim, 1);
        add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_IN, model->linear_value_dim, v, 1);
        add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_IN, model->hidden, model->linear_value_heads, 1);
        if (model->details.full_rank_gate)
            add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_GATE, model->hidden, v, 1);
        else {
            add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_GATE, model->hidden, model->linear_value_dim, 1);
            add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_GATE, model->linear_value_dim, v, 1);
        }
    }
    add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_OUT, v, model->hidden, 1);
}

static void add_mamba(const struct uma_model *model, const struct uma_model_layer *layer, struct list *list) {
    uint64_t inner = model->ssm_inner;
    if (layer->mixer == UMA_MIXER_MAMBA1) {
        add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_IN, model->hidden, uma_times(2, inner), 1);
        add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_IN, inner, uma_plus(model->details.dt_rank, uma_times(2, model->ssm_state)), 1);
        add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_IN, model->details.dt_rank, inner, 1);
    } else
        add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_IN, model->hidden,
            uma_plus(uma_plus(uma_times(2, inner), uma_times(2, uma_times(model->ssm_groups, model->ssm_state))), model->ssm_heads), 1);
    add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_OUT, inner, model->hidden, 1);
}

/* MiniMax-01 (arXiv:2501.08313): q, k and v in one, an output gate of the same width. */
static void add_lightning(const struct uma_model *model, const struct uma_model_layer *layer, struct list *list) {
    uint64_t width = uma_times(layer->heads, layer->head_dim);
    add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_IN, model->hidden, uma_times(3, width), 1);
    add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_GATE, model->hidden, width, 1);
    add(list, UMA_CLASS_MIXER, UMA_LINEAR_MIXER_OUT, width, model->hidden, 1);
}

static void add_gated(struct list *list, enum uma_class class_, enum uma_linear_role first, bool gated, uint64_t in, uint64_t size,
                      uint32_t copies) {
    if (gated)
        add(list, class_, first, in, size, copies);
    add(list, class_, (enum uma_linear_role)(first + 1), in, size, copies);
    add(list, class_, (enum uma_linear_role)(first + 2), size, in, copies);
}

static void add_ffn(const struct uma_model *model, const struct uma_model_layer *layer, struct list *list) {
    switch (layer->ffn) {
    case UMA_FFN_NONE:
        break;
    case UMA_FFN_LINEAR:
        add(list, UMA_CLASS_MLP, UMA_LINEAR_REPLACEMENT, model->hidden, model->hidden, 1);
        break;
    case UMA_FFN_DENSE:
        add_gated(list, UMA_CLASS_MLP, UMA_LINEAR_GATE, layer->ffn_gated, model->hidden, layer->ffn_size, 1);
        break;
    case UMA_FFN_MOE: {
        uint64_t in = layer->expert_input ? layer->expert_input : model->hidden;
        add(list, UMA_CLASS_ROUTER, UMA_LINEAR_ROUTER, model->hidden, uma_plus(layer->experts, model->details.router_extra), 1);
        add_gated(list, UMA_CLASS_EXPERTS, UMA_LINEAR_EXPERT_GATE, layer->ffn_gated, in, layer->ffn_size, layer->experts);
        add_gated(list, UMA_CLASS_MLP, UMA_LINEAR_SHARED_GATE, layer->ffn_gated, model->hidden, layer->shared_ffn_size, 1);
        if (layer->expert_input) {
            add(list, UMA_CLASS_MLP, UMA_LINEAR_LATENT_IN, model->hidden, layer->expert_input, 1);
            add(list, UMA_CLASS_MLP, UMA_LINEAR_LATENT_OUT, layer->expert_input, model->hidden, 1);
        }
        break;
    }
    }
}

size_t uma_model_linears(const struct uma_model *model, uint32_t layer_index, struct uma_linear ret_linears[UMA_LINEARS_PER_LAYER_MAX]) {
    if (layer_index >= model->layer_count)
        return 0;
    const struct uma_model_layer *layer = &model->layers[layer_index];
    struct list list = { .linears = ret_linears };
    switch (layer->mixer) {
    case UMA_MIXER_NONE:
        break;
    case UMA_MIXER_ATTENTION:
        add_attention(model, layer, &list);
        break;
    case UMA_MIXER_MLA:
        add_mla(model, layer, &list);
        break;
    case UMA_MIXER_GATED_DELTA:
    case UMA_MIXER_KDA:
        add_delta(model, layer, &list);
        break;
    case UMA_MIXER_MAMBA1:
    case UMA_MIXER_MAMBA2:
        add_mamba(model, layer, &list);
        break;
    case UMA_MIXER_LIGHTNING:
        add_lightning(model, layer, &list);
        break;
    case UMA_MIXER_LINEAR:
        add(&list, UMA_CLASS_ATTENTION, UMA_LINEAR_REPLACEMENT, model->hidden, model->hidden, 1);
        break;
    }
    if (layer->indexed)
        add_indexer(model, &list);
    add_ffn(model, layer, &list);
    return list.n;
}
