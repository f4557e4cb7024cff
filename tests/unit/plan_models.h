/* SPDX-License-Identifier: MIT */
/* plan_models.h - models made by hand for the tests of serving estimates: shapes as in their published config.json. */
#pragma once

#include "plan/estimate.h"
#include "uma_plan.h"

#include <string.h>

enum { TEST_LAYERS = 128 };

struct test_model {
    struct uma_model model;
    struct uma_model_layer layers[TEST_LAYERS];
};

struct test_shape {
    uint32_t layers, hidden, heads, kv_heads, head_dim;
    uint64_t ffn, vocab;
    uint32_t experts, per_token; /* 0: dense */
    bool tied;
};

static inline void test_model_make(struct test_model *t, const char *name, const struct test_shape *shape, enum uma_format format) {
    memset(t, 0, sizeof *t);
    struct uma_model *m = &t->model;
    m->name = (char *)name; /* never written to */
    m->basis = UMA_BASIS_STRUCTURE;
    m->architecture_known = true;
    m->hidden = shape->hidden;
    m->vocab = shape->vocab;
    m->tied = shape->tied;
    m->norms_per_layer = 2;
    m->max_position = 32768;
    m->layer_count = shape->layers;
    m->layers = t->layers;
    uint64_t attention = 0, mlp = 0, experts = 0, h = shape->hidden;
    for (uint32_t i = 0; i < shape->layers; i++) {
        t->layers[i] = (struct uma_model_layer){ .mixer = UMA_MIXER_ATTENTION,
                                                 .ffn = shape->experts ? UMA_FFN_MOE : UMA_FFN_DENSE,
                                                 .ffn_gated = true,
                                                 .heads = shape->heads,
                                                 .kv_heads = shape->kv_heads,
                                                 .head_dim = shape->head_dim,
                                                 .v_head_dim = shape->head_dim,
                                                 .ffn_size = shape->ffn,
                                                 .experts = shape->experts,
                                                 .experts_per_token = shape->per_token };
        attention += 2 * h * shape->head_dim * (shape->heads + (uint64_t)shape->kv_heads);
        *(shape->experts ? &experts : &mlp) += 3 * h * shape->ffn * (shape->experts ? shape->experts : 1);
    }
    const struct {
        enum uma_class class_;
        uint64_t params;
        enum uma_format format;
    } classes[] = { { UMA_CLASS_EMBEDDING, h * shape->vocab, UMA_FORMAT_BF16 },
                    { UMA_CLASS_LM_HEAD, shape->tied ? 0 : h * shape->vocab, UMA_FORMAT_BF16 },
                    { UMA_CLASS_NORM, (2 * (uint64_t)shape->layers + 1) * h, UMA_FORMAT_BF16 },
                    { UMA_CLASS_ATTENTION, attention, format },
                    { UMA_CLASS_MLP, mlp, format },
                    { UMA_CLASS_EXPERTS, experts, format } };
    for (size_t i = 0; i < ELEMENTS(classes); i++) {
        m->class_format[classes[i].class_] = classes[i].format;
        m->totals[classes[i].class_] =
            (struct uma_tensor_total){ 1, classes[i].params, uma_format_bytes(classes[i].format, classes[i].params) };
    }
}

#define SHAPE_QWEN3_06B (&(struct test_shape){ 28, 1024, 16, 8, 128, 3072, 151936, 0, 0, true })
#define SHAPE_QWEN3_8B (&(struct test_shape){ 36, 4096, 32, 8, 128, 12288, 151936, 0, 0, false })
#define SHAPE_QWEN3_32B (&(struct test_shape){ 64, 5120, 64, 8, 128, 25600, 151936, 0, 0, false })
#define SHAPE_QWEN3_235B (&(struct test_shape){ 94, 4096, 64, 4, 128, 1536, 151936, 128, 8, false })
#define SHAPE_QWEN25_05B (&(struct test_shape){ 24, 896, 14, 2, 64, 4864, 151936, 0, 0, true })
#define SHAPE_QWEN25_3B (&(struct test_shape){ 36, 2048, 16, 2, 128, 11008, 151936, 0, 0, true })
#define SHAPE_LLAMA31_8B (&(struct test_shape){ 32, 4096, 32, 8, 128, 14336, 128256, 0, 0, false })
