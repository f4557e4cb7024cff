/* SPDX-License-Identifier: MIT */
/* gguf_metadata.h - what of a GGUF's metadata says how large the model is. Everything else (vocabulary, templates, authors) is passed over. */
#pragma once

#include "plan/model/gguf_reader.h"

/* X(ID, "key behind the architecture's name"). gguf-py/gguf/constants.py of llama.cpp. */
#define UMA_GGUF_KEYS(X)                                                                                                                   \
    X(VOCAB_SIZE, "vocab_size")                                                                                                            \
    X(CONTEXT, "context_length")                                                                                                           \
    X(HIDDEN, "embedding_length")                                                                                                          \
    X(BLOCKS, "block_count")                                                                                                               \
    X(FFN, "feed_forward_length")                                                                                                          \
    X(EXPERTS, "expert_count")                                                                                                             \
    X(EXPERTS_USED, "expert_used_count")                                                                                                   \
    X(HEADS, "attention.head_count")                                                                                                       \
    X(KV_HEADS, "attention.head_count_kv")                                                                                                 \
    X(KEY_LENGTH, "attention.key_length")                                                                                                  \
    X(VALUE_LENGTH, "attention.value_length")                                                                                              \
    X(KEY_LENGTH_MLA, "attention.key_length_mla")                                                                                          \
    X(VALUE_LENGTH_MLA, "attention.value_length_mla")                                                                                      \
    X(KEY_LENGTH_SWA, "attention.key_length_swa")                                                                                          \
    X(VALUE_LENGTH_SWA, "attention.value_length_swa")                                                                                      \
    X(Q_LORA_RANK, "attention.q_lora_rank")                                                                                                \
    X(KV_LORA_RANK, "attention.kv_lora_rank")                                                                                              \
    X(WINDOW, "attention.sliding_window")                                                                                                  \
    X(WINDOW_PATTERN, "attention.sliding_window_pattern")                                                                                  \
    X(SHARED_KV, "attention.shared_kv_layers")                                                                                             \
    X(COMPRESS_RATIOS, "attention.compress_ratios")                                                                                        \
    X(O_GROUPS, "attention.output_group_count")                                                                                            \
    X(O_LORA_RANK, "attention.output_lora_rank")                                                                                           \
    X(INDEX_HEADS, "attention.indexer.head_count")                                                                                         \
    X(INDEX_HEAD_DIM, "attention.indexer.key_length")                                                                                      \
    X(ROPE_DIM, "rope.dimension_count")                                                                                                    \
    X(NEXTN, "nextn_predict_layers")                                                                                                       \
    X(SSM_CONV, "ssm.conv_kernel")                                                                                                         \
    X(SSM_INNER, "ssm.inner_size")                                                                                                         \
    X(SSM_STATE, "ssm.state_size")                                                                                                         \
    X(SSM_RANK, "ssm.time_step_rank")                                                                                                      \
    X(SSM_GROUPS, "ssm.group_count")                                                                                                       \
    X(KDA_HEAD_DIM, "kda.head_dim")                                                                                                        \
    X(WKV_HEAD, "wkv.head_size")                                                                                                           \
    X(VISION_HIDDEN, "vision.embedding_length")                                                                                            \
    X(VISION_BLOCKS, "vision.block_count")                                                                                                 \
    X(VISION_IMAGE, "vision.image_size")                                                                                                   \
    X(VISION_PATCH, "vision.patch_size")                                                                                                   \
    X(VISION_SCALE, "vision.projector.scale_factor")                                                                                       \
    X(VISION_MERGE, "vision.spatial_merge_size")

enum uma_gguf_key {
#define UMA_GGUF_KEY_ENUM(id, name) UMA_GGUF_##id,
    UMA_GGUF_KEYS(UMA_GGUF_KEY_ENUM)
#undef UMA_GGUF_KEY_ENUM
        UMA_GGUF_KEY_COUNT,
};

struct uma_gguf_metadata {
    char architecture[64], name[UMA_GGUF_TEXT], type[32];
    bool has_file_type;
    uint64_t file_type;
    uint64_t words; /* of the vocabulary */
    uint64_t split_number, split_count, split_tensors;
    bool out_of_order; /* keys of an architecture came before its name: scan once more */
    struct {
        bool known;
        uint64_t number; /* of an array its first element */
        uint32_t count;  /* elements of a per-layer array; 0: one number for all layers */
        uint32_t *numbers;
    } keys[UMA_GGUF_KEY_COUNT];
};

/* To be a visitor's `key`; userdata is the struct. */
int uma_gguf_metadata_key(void *userdata, const char *key, const struct uma_gguf_value *value, struct uma_error *err);
void uma_gguf_metadata_done(struct uma_gguf_metadata *metadata);

static inline bool uma_gguf_has(const struct uma_gguf_metadata *metadata, enum uma_gguf_key key) {
    return metadata->keys[key].known;
}
/* The number for a layer, capped at UINT32_MAX; beyond the end of a per-layer array, or when it is not there: `otherwise`. */
uint32_t uma_gguf_number(const struct uma_gguf_metadata *metadata, enum uma_gguf_key key, uint32_t layer, uint32_t otherwise);
