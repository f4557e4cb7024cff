/* SPDX-License-Identifier: MIT */
/* The number of parameters that follow from a shape. Matrices come from uma_model_linears; here is what stands beside them. */
#include "plan/model/structure.h"

#include "plan/estimate.h"

#include <string.h>

static void count(struct uma_model *model, enum uma_class class_, uint64_t tensors, uint64_t params) {
    struct uma_tensor_total *total = &model->totals[class_];
    total->tensors = uma_plus(total->tensors, params ? tensors : 0);
    total->params = uma_plus(total->params, params);
}

static void count_norm(struct uma_model *model, uint64_t tensors, uint64_t width) {
    if (!model->details.norm_none)
        count(model, UMA_CLASS_NORM, tensors, uma_times(tensors, uma_times(width, model->details.norm_bias ? 2 : 1)));
}

static void count_attention_vectors(struct uma_model *model, const struct uma_model_layer *layer) {
    uint64_t q = uma_times(layer->heads, layer->head_dim), k = uma_times(layer->kv_heads, layer->head_dim);
    uint64_t v = layer->key_is_value ? 0 : uma_times(layer->kv_heads, layer->v_head_dim);
    bool without_kv = layer->shares_kv && !model->details.own_kv;
    if (without_kv)
        k = v = 0;
    if (model->qkv_bias)
        count(model, UMA_CLASS_NORM, 3,
              uma_plus(uma_times(q, layer->output_gate ? 2 : 1), uma_plus(model->details.q_bias_only ? 0 : k, v)));
    if (model->o_bias)
        count(model, UMA_CLASS_NORM, 1, model->hidden);
    if (model->qk_norm && model->details.qk_norm_full)
        count(model, UMA_CLASS_NORM, 2, uma_plus(q, k));
    else if (model->qk_norm)
        count(model, UMA_CLASS_NORM, 2, uma_times(without_kv ? 1 : 2, layer->head_dim));
    if (layer->sinks)
        count(model, UMA_CLASS_NORM, 1, layer->heads);
}

static void count_mla_vectors(struct uma_model *model, const struct uma_model_layer *layer) {
    count(model, UMA_CLASS_NORM, 1, model->q_lora_rank);
    /* DeepSeek-V4 normalises the whole of its one key-value head, the others the latent without its rotary part */
    count(model, UMA_CLASS_NORM, 1, uma_plus(model->kv_lora_rank, model->details.o_lora_rank ? model->qk_rope_dim : 0));
    if (model->qkv_bias) {
        if (model->q_lora_rank)
            count(model, UMA_CLASS_NORM, 1, model->q_lora_rank);
        count(model, UMA_CLASS_NORM, 1, uma_plus(model->kv_lora_rank, model->qk_rope_dim));
    }
    if (model->o_bias)
        count(model, UMA_CLASS_NORM, 1, model->hidden);
    if (layer->sinks)
        count(model, UMA_CLASS_NORM, 1, layer->heads);
}

static void count_mixer_vectors(struct uma_model *model, const struct uma_model_layer *layer) {
    uint64_t k = uma_times(model->linear_key_heads, model->linear_key_dim),
             v = uma_times(model->linear_value_heads, model->linear_value_dim);
    uint64_t inner = model->ssm_inner, conv = 0, convolved = 0;
    switch (layer->mixer) {
    case UMA_MIXER_GATED_DELTA: /* A_log and dt_bias per head, a gated norm of one head */
        convolved = uma_plus(uma_times(2, k), v);
        conv = model->linear_conv;
        count(model, UMA_CLASS_NORM, 3, uma_plus(uma_times(2, model->linear_value_heads), model->linear_value_dim));
        break;
    case UMA_MIXER_KDA: /* A_log per head, dt_bias per channel, a gated norm of one head */
        convolved = uma_plus(uma_times(2, k), v);
        conv = model->linear_conv;
        count(model, UMA_CLASS_NORM, 3, uma_plus(uma_plus(model->linear_value_heads, v), model->linear_value_dim));
        break;
    case UMA_MIXER_MAMBA2: /* A_log, D and dt_bias per head, a gated norm */
        convolved = uma_plus(inner, uma_times(2, uma_times(model->ssm_groups, model->ssm_state)));
        conv = model->ssm_conv;
        count(model, UMA_CLASS_NORM, 4, uma_plus(uma_times(3, model->ssm_heads), inner));
        break;
    case UMA_MIXER_MAMBA1: /* A_log per channel and state, D and the bias of dt per channel */
        convolved = inner;
        conv = model->ssm_conv;
        count(model, UMA_CLASS_MIXER, 1, uma_times(inner, model->ssm_state));
        count(model, UMA_CLASS_NORM, 2, uma_times(2, inner));
        break;
    case UMA_MIXER_LIGHTNING:
        count(model, UMA_CLASS_NORM, 1, uma_times(layer->heads, layer->head_dim));
        return;
    case UMA_MIXER_NONE:
    case UMA_MIXER_ATTENTION:
    case UMA_MIXER_MLA:
    case UMA_MIXER_LINEAR:
        return;
    }
    count(model, UMA_CLASS_MIXER, 1, uma_times(convolved, conv));
    if (model->details.conv_bias)
        count(model, UMA_CLASS_NORM, 1, convolved);
}

static void count_ffn_vectors(struct uma_model *model, const struct uma_model_layer *layer) {
    const struct uma_model_details *details = &model->details;
    uint64_t in = layer->expert_input ? layer->expert_input : model->hidden;
    uint64_t bias = uma_plus(uma_times(layer->ffn_size, layer->ffn_gated ? 2 : 1), in);
    if (layer->ffn == UMA_FFN_DENSE && model->mlp_bias)
        count(model, UMA_CLASS_NORM, 3, bias);
    if (layer->ffn != UMA_FFN_MOE)
        return;
    if (details->expert_bias)
        count(model, UMA_CLASS_NORM, 3, uma_times(layer->experts, bias));
    if (details->router_bias)
        count(model, UMA_CLASS_ROUTER, 1, uma_plus(layer->experts, details->router_extra));
    if (details->router_scale)
        count(model, UMA_CLASS_ROUTER, 2, uma_plus(model->hidden, layer->experts));
    if (details->shared_gate && layer->shared_ffn_size)
        count(model, UMA_CLASS_MLP, 1, model->hidden);
}

/* DeepSeek-V4's compressors: keys and gates of one entry, twice as wide where windows overlap (ratio 4), and a position table; the layers with
 * ratio 4 have an indexer whose own keys are compressed, too (model.py beside the released weights). */
static void count_compressor(struct uma_model *model, const struct uma_model_layer *layer) {
    uint64_t overlap = layer->kv_compression == 4 ? 2 : 1;
    uint64_t width = uma_times(overlap, uma_plus(model->kv_lora_rank, model->qk_rope_dim));
    count(model, UMA_CLASS_ATTENTION, 2, uma_times(2, uma_times(model->hidden, width)));
    count(model, UMA_CLASS_NORM, 2, uma_plus(uma_times(layer->kv_compression, width), width / overlap));
    if (layer->indexed) {
        uint64_t index = uma_times(overlap, model->index_head_dim);
        /* one key projection of the indexer is among the layer's matrices already */
        count(model, UMA_CLASS_ATTENTION, 2, uma_times(model->hidden, uma_minus(uma_times(2, index), model->index_head_dim)));
        count(model, UMA_CLASS_NORM, 2, uma_plus(uma_times(layer->kv_compression, index), model->index_head_dim));
    }
}

static void count_layer(struct uma_model *model, uint32_t index) {
    const struct uma_model_layer *layer = &model->layers[index];
    struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
    if (layer->shares_weights)
        return;
    size_t n = uma_model_linears(model, index, linears);
    for (size_t i = 0; i < n; i++)
        count(model, linears[i].class_, linears[i].copies, uma_times(linears[i].copies, uma_times(linears[i].in, linears[i].out)));
    if (layer->mixer == UMA_MIXER_ATTENTION)
        count_attention_vectors(model, layer);
    else if (layer->mixer == UMA_MIXER_MLA)
        count_mla_vectors(model, layer);
    else
        count_mixer_vectors(model, layer);
    if (layer->indexed && !layer->kv_compression)
        count(model, UMA_CLASS_NORM, 2, uma_times(2, model->index_head_dim));
    if (layer->kv_compression)
        count_compressor(model, layer);
    count_ffn_vectors(model, layer);
    if (layer->mixer == UMA_MIXER_NONE && layer->ffn == UMA_FFN_NONE)
        return;
    /* a block that lost one of its halves lost that half's norms, too */
    bool half = model->norms_per_layer > 1 && (layer->mixer == UMA_MIXER_NONE || layer->ffn == UMA_FFN_NONE);
    count_norm(model, half ? model->norms_per_layer / 2 : model->norms_per_layer, model->hidden);
}

uint64_t uma_structure_layer_params(const struct uma_model *model, uint32_t layer) {
    struct uma_model one = *model; /* only its totals are written */
    if (layer >= model->layer_count)
        return 0;
    memset(one.totals, 0, sizeof one.totals);
    count_layer(&one, layer);
    return uma_model_params(&one);
}

/* Gemma 3n and 4 (transformers, modular_gemma3n.py, modular_gemma4.py): an embedding per layer, one projection of the input to all of them, and
 * per layer a gate, a projection back and a norm; Gemma 3n's parallel residual streams and low-rank branch. */
static void count_layer_inputs(struct uma_model *model) {
    const struct uma_model_details *details = &model->details;
    uint64_t width = uma_times(details->layer_input, model->layer_count), layers = model->layer_count;
    if (details->layer_input) {
        count(model, UMA_CLASS_OTHER, 1, uma_times(details->layer_vocab, width));
        count(model, UMA_CLASS_MLP, uma_plus(1, uma_times(2, layers)), uma_times(3, uma_times(model->hidden, width)));
        count(model, UMA_CLASS_NORM, uma_plus(1, layers), uma_plus(details->layer_input, uma_times(layers, model->hidden)));
    }
    if (details->altup) {
        uint64_t n = details->altup, square = uma_times(n, n);
        count(model, UMA_CLASS_MLP, uma_times(2, n - 1), uma_times(2, uma_times(n - 1, uma_times(model->hidden, model->hidden))));
        uint64_t layer =
            uma_plus(uma_plus(uma_times(n, square), square), uma_plus(uma_times(model->hidden, n), uma_times(2, model->hidden)));
        count(model, UMA_CLASS_NORM, uma_times(5, layers), uma_times(layers, layer));
    }
    if (details->laurel) {
        count(model, UMA_CLASS_MLP, uma_times(2, layers), uma_times(layers, uma_times(2, uma_times(model->hidden, details->laurel))));
        count(model, UMA_CLASS_NORM, layers, uma_times(layers, model->hidden));
    }
}

void uma_structure_count(struct uma_model *model) {
    const struct uma_model_details *details = &model->details;
    uint64_t embedding = uma_times(model->vocab, model->hidden);
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++)
        model->totals[i] = (struct uma_tensor_total){ 0 };
    count(model, UMA_CLASS_EMBEDDING, 1, embedding);
    count(model, UMA_CLASS_EMBEDDING, 1, uma_times(details->positions, model->hidden));
    if (!model->tied)
        count(model, UMA_CLASS_LM_HEAD, 1, embedding);
    if (details->lm_head_bias)
        count(model, UMA_CLASS_NORM, 1, model->vocab);
    if (details->embedding_norm)
        count_norm(model, 1, model->hidden);
    for (uint32_t i = 0; i < model->layer_count; i++)
        count_layer(model, i);
    count_norm(model, 1, model->hidden);
    count_layer_inputs(model);
    count(model, UMA_CLASS_MTP, model->mtp_layers, details->mtp_params);
    count(model, UMA_CLASS_VISION, model->vision_layers ? model->vision_layers : 1, details->vision_params);
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++)
        model->totals[i].bytes = uma_class_bytes(model, (enum uma_class)i, model->totals[i].params);
}
