/* SPDX-License-Identifier: MIT */
/* Shapes that the published training figures are of, made by hand. */
#pragma once

#include "plan/model/structure.h"

struct dense_shape {
    const char *architecture;
    uint32_t hidden, layers, heads, kv_heads, head_dim;
    uint64_t ffn, vocab;
    bool tied;
    uint32_t experts, experts_per_token;
};

static const struct dense_shape LLAMA_3_8B = { "llama", 4096, 32, 32, 8, 128, 14336, 128256, false, 0, 0 };
static const struct dense_shape MISTRAL_7B = { "mistral", 4096, 32, 32, 8, 128, 14336, 32000, false, 0, 0 };
static const struct dense_shape MIXTRAL = { "mixtral", 4096, 32, 32, 8, 128, 14336, 32000, false, 8, 2 };
static const struct dense_shape LLAMA_2_7B = { "llama", 4096, 32, 32, 32, 128, 11008, 32000, false, 0, 0 };
static const struct dense_shape LLAMA_2_70B = { "llama", 8192, 80, 64, 8, 128, 28672, 32000, false, 0, 0 };
static const struct dense_shape POWERLM_3B = { "granite", 2304, 40, 36, 36, 64, 9216, 49152, true, 0, 0 };
static const struct dense_shape LLAMA_3_2_3B = { "llama", 3072, 28, 24, 8, 128, 8192, 128256, true, 0, 0 };

static inline struct uma_model *dense_model(const struct dense_shape *shape) {
    struct uma_model *model = uma_model_new(shape->layers);
    if (!model || uma_model_string(&model->architecture, shape->architecture) < 0)
        return NULL;
    model->hidden = shape->hidden;
    model->vocab = shape->vocab;
    model->tied = shape->tied;
    model->basis = UMA_BASIS_STRUCTURE;
    model->architecture_known = true;
    for (uint32_t i = 0; i < shape->layers; i++)
        model->layers[i] = (struct uma_model_layer){ .mixer = UMA_MIXER_ATTENTION,
                                                     .ffn = shape->experts ? UMA_FFN_MOE : UMA_FFN_DENSE,
                                                     .ffn_gated = true,
                                                     .heads = shape->heads,
                                                     .kv_heads = shape->kv_heads,
                                                     .head_dim = shape->head_dim,
                                                     .v_head_dim = shape->head_dim,
                                                     .ffn_size = shape->ffn,
                                                     .experts = shape->experts,
                                                     .experts_per_token = shape->experts_per_token };
    for (unsigned c = 0; c < UMA_CLASS_COUNT; c++)
        model->class_format[c] = UMA_FORMAT_BF16;
    uma_structure_count(model);
    return model;
}

#define GIB(x) ((double)(x)*1073741824.0)
enum { QKVO = 1 << UMA_LINEAR_Q | 1 << UMA_LINEAR_K | 1 << UMA_LINEAR_V | 1 << UMA_LINEAR_O };

/* fms-acceleration's LoRA runs with mixed precision: r 16 on q, k, v, o, 8 packed sequences of 4096 a step; and what else a run had. */
#define FMS_LORA(...)                                                                                                                      \
    {                                                                                                                                      \
        .method = UMA_METHOD_LORA, .weights = UMA_FORMAT_BF16, .rank = 16, .targets = QKVO, .batch = 8, .seq = 4096, .autocast = UMA_YES,  \
        __VA_ARGS__                                                                                                                        \
    }

/* Within so many percent. */
#define assert_near(value, expected, percent)                                                                                              \
    do {                                                                                                                                   \
        double near_value = (double)(value), near_expected = (double)(expected);                                                           \
        if (near_value < near_expected * (1 - (percent) / 100.0) || near_value > near_expected * (1 + (percent) / 100.0))                  \
            fail_msg("%.0f is not within %g %% of %.0f", near_value, (double)(percent), near_expected);                                    \
    } while (0)
