/* SPDX-License-Identifier: MIT */
/* Safetensors headers made tensor by tensor. Include behind model_files.h. */
#pragma once

#include "base/text.h"

struct tensors {
    struct uma_text header;
    uint64_t data;
};

/* `width`: bytes of an element. Dimensions end at the first 0. */
static inline void tensors_add(struct tensors *tensors, const char *name, const char *dtype, uint64_t width, uint64_t a, uint64_t b,
                               uint64_t c) {
    uint64_t bytes = width * a * (b ? b : 1) * (c ? c : 1);
    uma_text_printf(&tensors->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%llu", tensors->header.length ? "," : "{", name, dtype,
                    (unsigned long long)a);
    if (b)
        uma_text_printf(&tensors->header, ",%llu", (unsigned long long)b);
    if (c)
        uma_text_printf(&tensors->header, ",%llu", (unsigned long long)c);
    uma_text_printf(&tensors->header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)tensors->data,
                    (unsigned long long)(tensors->data + bytes));
    tensors->data += bytes;
}

static inline void tensors_bf16(struct tensors *tensors, const char *name, uint64_t rows, uint64_t columns) {
    tensors_add(tensors, name, "BF16", 2, rows, columns, 0);
}

/* Write it out, and be empty again. Returns the file's size. */
static inline uint64_t tensors_write(struct tensors *tensors, const char *folder, const char *name) {
    uma_text_append(&tensors->header, tensors->header.length ? "}" : "{}");
    assert_false(tensors->header.failed);
    (void)files_safetensors(folder, name, tensors->header.data, tensors->data);
    uint64_t size = 8 + tensors->header.length + tensors->data;
    uma_text_done(&tensors->header);
    tensors->data = 0;
    return size;
}

/* One layer of Llama's: hidden 64, 4 heads of 16, 2 key-value heads, 128 wide. 36,992 parameters. */
static inline void tensors_layer(struct tensors *tensors, unsigned layer) {
    static const struct {
        const char *name;
        uint64_t rows, columns;
    } parts[] = {
        { "self_attn.q_proj.weight", 64, 64 }, { "self_attn.k_proj.weight", 32, 64 }, { "self_attn.v_proj.weight", 32, 64 },
        { "self_attn.o_proj.weight", 64, 64 }, { "mlp.gate_proj.weight", 128, 64 },   { "mlp.up_proj.weight", 128, 64 },
        { "mlp.down_proj.weight", 64, 128 },   { "input_layernorm.weight", 64, 0 },   { "post_attention_layernorm.weight", 64, 0 },
    };
    char name[128];
    for (size_t i = 0; i < ELEMENTS(parts); i++) {
        (void)snprintf(name, sizeof(name), "model.layers.%u.%s", layer, parts[i].name);
        tensors_bf16(tensors, name, parts[i].rows, parts[i].columns);
    }
}

enum { TENSORS_LAYER_PARAMS = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 2 * 64, TENSORS_VOCAB_PARAMS = 1000 * 64 };

#define TENSORS_CONFIG                                                                                                                     \
    "\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":128,"            \
    "\"vocab_size\":1000"
