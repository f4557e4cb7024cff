/* SPDX-License-Identifier: MIT */
/* Models that tests of training plan with, made by hand. */
#pragma once

#include "plan/model/structure.h"

/* GPT-2-like: biases, LayerNorm, four times wide feed-forward without a gate, learned positions, tied. */
static inline struct uma_model *gpt_model(uint32_t layers, uint32_t hidden, uint32_t heads, uint64_t positions) {
    struct uma_model *m = uma_model_new(layers);
    m->hidden = hidden;
    m->vocab = 50257;
    m->tied = true;
    m->qkv_bias = m->o_bias = m->mlp_bias = true;
    m->details.norm_bias = true;
    m->details.positions = positions;
    for (uint32_t i = 0; i < layers; i++)
        m->layers[i] = (struct uma_model_layer){ .mixer = UMA_MIXER_ATTENTION,
                                                 .ffn = UMA_FFN_DENSE,
                                                 .heads = heads,
                                                 .kv_heads = heads,
                                                 .head_dim = hidden / heads,
                                                 .v_head_dim = hidden / heads,
                                                 .ffn_size = 4 * (uint64_t)hidden };
    return m;
}

/* Llama 3.1 8B. */
static inline struct uma_model *llama_model(void) {
    struct uma_model *m = uma_model_new(32);
    m->hidden = 4096;
    m->vocab = 128256;
    for (uint32_t i = 0; i < 32; i++)
        m->layers[i] = (struct uma_model_layer){ .mixer = UMA_MIXER_ATTENTION,
                                                 .ffn = UMA_FFN_DENSE,
                                                 .ffn_gated = true,
                                                 .heads = 32,
                                                 .kv_heads = 8,
                                                 .head_dim = 128,
                                                 .v_head_dim = 128,
                                                 .ffn_size = 14336 };
    return m;
}

/* |a / b - 1| in ten-thousandths. */
static inline unsigned apart(uint64_t a, uint64_t b) {
    double ratio = (double)a / (double)b - 1;
    return (unsigned)((ratio < 0 ? -ratio : ratio) * 10000 + .5);
}
