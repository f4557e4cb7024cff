/* SPDX-License-Identifier: MIT */
#include "plan/serving_llama_cpp.h"

/*
 * Sources: ggml/src/ggml-alloc.c, src/llama-graph.cpp, src/llama-context.cpp (graph_reserve: the worst case is a full ubatch with logits for
 * every token and a full cache), ik_llama.cpp src/llama.cpp (build_deepseek2 with -mla 2/3). No coefficient is fitted; the live tensors of
 * each stage were counted in the graph and checked against logged buffers (ik_llama.cpp issues and pull requests, "compute buffer size").
 */

static uint64_t fp32(uint64_t tokens, uint64_t width) {
    return uma_times(4, uma_times(tokens, width));
}

static uint64_t masks(const struct uma_widths *w, const struct uma_serve *serve, uint64_t tokens, uint64_t context) {
    if (w->heads == 0)
        return 0; /* no attention, no mask */
    uint64_t one = uma_times(context, tokens), kinds = (w->window && w->full) ? 2 : 1;
    return uma_times(kinds, uma_times(serve->flash_attention == UMA_YES ? 6 : 4, one));
}

/* ik_llama.cpp multiplies the latent out for batches of 128 tokens and more with flash attention (build_deepseek2, -mla 2 and 3). */
static bool multiplies_out(const struct uma_serve *serve, const struct uma_widths *w, uint64_t tokens) {
    return w->mla && serve->mla_batch > 0 && !serve->mla_expanded && serve->flash_attention == UMA_YES && tokens >= 128;
}

/*
 * MLA kept as the latent, but multiplied out for a prompt: the products of a group of heads in fp32, halved until they are below -amb, and K
 * and V of all heads in fp16, because every group's are computed before the first group's attention. Between two groups a K and a V settle
 * in what the products before left free, so the next products find no place there: half of them are counted for such holes (a replay of
 * ggml-alloc on this graph leaves 0.2 to 0.9 of them).
 */
static uint64_t latent(const struct uma_model *model, const struct uma_serve *serve, const struct uma_widths *w, uint64_t tokens,
                       uint64_t context, uint64_t *ret_holes) {
    if (!multiplies_out(serve, w, tokens))
        return 0;
    uint64_t value = 0;
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].mixer == UMA_MIXER_MLA)
            value = MAX_OF(value, model->layers[i].v_head_dim);
    uint64_t heads = uma_times(w->heads, context), nope = model->qk_nope_dim, rope = model->qk_rope_dim;
    uint64_t products = uma_times(heads, uma_times(4, nope + value)), all = products;
    for (uint64_t group = w->heads; products > serve->mla_batch && group > 1 && group % 2 == 0; group /= 2)
        products /= 2;
    *ret_holes = products < all ? products / 2 : 0;
    return uma_plus(uma_plus(products, *ret_holes), uma_times(heads, uma_times(2, nope + rope + value)));
}

/* Scores without flash attention. ik_llama.cpp's -amb bounds them for MLA: some heads at a time, each group's results joined to those before. */
static uint64_t scores(const struct uma_model *model, const struct uma_serve *serve, const struct uma_widths *w, uint64_t tokens,
                       uint64_t context) {
    uint64_t head = uma_times(4, uma_times(tokens, context)), all = uma_times(w->heads, head);
    if (!w->mla || serve->mla_expanded || serve->mla_batch == 0 || all <= serve->mla_batch)
        return all;
    uint64_t steps = MIN_OF(uma_divide_up(all, serve->mla_batch), w->heads), group = uma_divide_up(w->heads, steps);
    uint64_t results = fp32(tokens, uma_times(w->heads, model->kv_lora_rank));
    uint64_t transposed = uma_times(2, uma_times(context, model->kv_lora_rank));
    return uma_plus(uma_plus(uma_times(group, head), transposed), uma_times(2, results));
}

/* Width of the queries and of the results of attention, elements per token. */
static uint64_t query_width(const struct uma_model *model, const struct uma_serve *serve, const struct uma_widths *w, uint64_t tokens) {
    if (w->mla && !serve->mla_expanded && !multiplies_out(serve, w, tokens)) /* absorbed: every head's query has the width of the latent */
        return MAX_OF(w->q, uma_times(w->heads, (uint64_t)model->kv_lora_rank + model->qk_rope_dim));
    return w->q;
}

static uint64_t dequantised_layer(const struct uma_model *model, const struct uma_serve *serve, uint64_t context) {
    /* The kernels for prompts read fp16: launch_fattn (ggml-cuda/fattn-common.cuh) converts the K and V of the layer first. */
    bool key = uma_format_bits(serve->key_format) < 16, value = uma_format_bits(serve->value_format) < 16;
    uint64_t most = 0;
    for (uint32_t i = 0; serve->flash_attention == UMA_YES && i < model->layer_count; i++) {
        const struct uma_model_layer *layer = &model->layers[i];
        if (layer->mixer != UMA_MIXER_ATTENTION)
            continue;
        uint64_t width = (key ? layer->head_dim : 0) + (uint64_t)(value ? layer->v_head_dim : 0);
        most = MAX_OF(most, uma_times(2, uma_times(context, uma_times(layer->kv_heads, width))));
    }
    return most;
}

void uma_llama_buffers(const struct uma_model *model, const struct uma_serve *serve, struct uma_llama_buffers *ret_buffers) {
    struct uma_llama_buffers b = { 0 };
    struct uma_widths w;
    uma_serve_widths(model, &w);
    /* the cache of all slots is one: n_ctx = context x slots, padded to 256 cells for the flash attention kernels */
    uint64_t context = uma_times(serve->context, serve->sequences);
    context = uma_times(uma_divide_up(context, 256), 256);
    uint64_t u = b.ubatch = MIN_OF((uint64_t)serve->ubatch, context), hidden = model->hidden;
    uint64_t query = query_width(model, serve, &w, u);

    b.masks = masks(&w, serve, u, context);
    b.stages[UMA_LLAMA_OUTPUT] = fp32(u, uma_plus(model->vocab, 2 * hidden));
    uint64_t attention = serve->flash_attention == UMA_YES ? fp32(u, uma_plus(uma_times(3, query), w.kv))
                                                           : uma_plus(fp32(u, query), scores(model, serve, &w, u, context));
    b.stages[UMA_LLAMA_ATTENTION] = uma_plus(b.masks, uma_plus(attention, fp32(u, 3 * hidden)));
    b.stages[UMA_LLAMA_FFN] = uma_plus(b.masks, fp32(u, uma_plus(uma_times(2, w.ffn), 3 * hidden)));
    if (w.active > 0)
        b.stages[UMA_LLAMA_EXPERTS] = uma_plus(b.masks, fp32(u, uma_plus(uma_plus(w.experts, uma_times(w.active, hidden)), 3 * hidden)));
    uint64_t products = latent(model, serve, &w, u, context, &b.holes);
    if (products > 0) /* beside the fp16 mask, the queries and the layer's input */
        b.stages[UMA_LLAMA_LATENT] = uma_plus(uma_plus(products, uma_times(2, uma_times(u, context))), fp32(u, uma_plus(w.q, hidden)));
    for (unsigned i = 0; i < UMA_LLAMA_STAGE_COUNT; i++)
        if (b.stages[i] > b.stages[b.largest])
            b.largest = (enum uma_llama_stage)i;
    b.device = b.stages[b.largest];
    if (serve->gpu_layers >= 0 && (uint64_t)serve->gpu_layers <= model->layer_count && w.heads > 0) {
        b.copied_layer = model->largest_tensor > 0 ? model->largest_tensor : uma_serve_class_bytes(model, serve, UMA_CLASS_LM_HEAD);
        b.device = uma_plus(b.device, b.copied_layer);
    }
    /* Over several devices the scheduler keeps four copies of the inputs, so that they can work at once (GGML_SCHED_MAX_COPIES), and these
     * stay alive through every stage. */
    uint64_t inputs = w.heads > 0 ? uma_times(w.window && w.full ? 2 : 1, fp32(u, context)) : 0;
    uint64_t copies = serve->tp > 1 || serve->pp > 1 ? 4 : 1;
    b.device = uma_plus(b.device, uma_times(copies - 1, inputs));
    b.host = uma_plus(fp32(u, hidden), uma_times(copies, inputs));
    b.output = uma_times(serve->sequences, uma_times(4, model->vocab));
    b.dequantised = dequantised_layer(model, serve, context);
    *ret_buffers = b;
}
