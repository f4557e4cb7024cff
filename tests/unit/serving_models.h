/* SPDX-License-Identifier: MIT */
/* Models for tests of serving, from the few fields of their published config.json that decide memory. */
#pragma once

#include "plan_configs.h"
#include "uma_plan.h"

#include <string.h>

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static inline struct uma_model *llama_8b(void) {
    return config_model(LLAMA_8B);
}

/* Qwen/Qwen3-235B-A22B: 94 layers, 128 experts, 4 KV heads */
static inline struct uma_model *qwen3_235b(void) {
    return config_model(
        "{\"model_type\":\"qwen3_moe\",\"hidden_size\":4096,\"num_hidden_layers\":94,\"num_attention_heads\":64,"
        "\"num_key_value_heads\":4,\"head_dim\":128,\"intermediate_size\":12288,\"moe_intermediate_size\":1536,"
        "\"num_experts\":128,\"num_experts_per_tok\":8,\"decoder_sparse_step\":1,\"mlp_only_layers\":[],\"vocab_size\":151936,"
        "\"max_position_embeddings\":40960,\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\"}");
}

/* openai/gpt-oss-120b: 36 layers, experts of 2880 x 2880 in MXFP4 */
static inline struct uma_model *gpt_oss_120b(void) {
    struct uma_model *model = config_model(
        "{\"model_type\":\"gpt_oss\",\"hidden_size\":2880,\"num_hidden_layers\":36,\"num_attention_heads\":64,"
        "\"num_key_value_heads\":8,\"head_dim\":64,\"intermediate_size\":2880,\"num_local_experts\":128,\"experts_per_token\":4,"
        "\"num_experts_per_tok\":4,\"vocab_size\":201088,\"max_position_embeddings\":131072,\"attention_bias\":true,"
        "\"sliding_window\":128,\"tie_word_embeddings\":false}");
    model->class_format[UMA_CLASS_EXPERTS] = UMA_FORMAT_MXFP4;
    uma_structure_count(model);
    return model;
}

#define assert_within(value, expected, ratio)                                                                                              \
    do {                                                                                                                                   \
        double value_ = (double)(value), expected_ = (double)(expected);                                                                   \
        if (value_ < expected_ * (1 - (ratio)) || value_ > expected_ * (1 + (ratio)))                                                      \
            fail_msg("%.0f is not within %g of %.0f", value_, (double)(ratio), expected_);                                                 \
    } while (0)

static inline const struct uma_plan_term *term_of(const struct uma_estimate *estimate, const char *what) {
    for (uint32_t i = 0; i < estimate->term_count; i++)
        if (strncmp(estimate->terms[i].what, what, strlen(what)) == 0)
            return &estimate->terms[i];
    return NULL;
}

static inline bool has_flag(const struct uma_estimate *estimate, const char *flag) {
    for (uint32_t i = 0; i < estimate->flag_count; i++)
        if (strcmp(estimate->flags[i], flag) == 0)
            return true;
    return false;
}

static inline bool has_warning(const struct uma_estimate *estimate, const char *part) {
    for (uint32_t i = 0; i < estimate->warning_count; i++)
        if (strstr(estimate->warnings[i], part))
            return true;
    return false;
}
