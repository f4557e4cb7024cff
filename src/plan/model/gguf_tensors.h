/* SPDX-License-Identifier: MIT */
/*
 * gguf_tensors.h - what the tensors of a GGUF are for, by their names, and what the tensors of a block say of its structure. Adds up while the
 * file is read; keeps no names.
 */
#pragma once

#include "plan/model/gguf_reader.h"

/* Tensors that tell what a block is made of. */
enum uma_gguf_role {
    UMA_GGUF_NO_ROLE = 0,
    UMA_GGUF_Q,
    UMA_GGUF_K,
    UMA_GGUF_V,
    UMA_GGUF_QKV,
    UMA_GGUF_OUT,
    UMA_GGUF_Q_A,
    UMA_GGUF_KV_A,
    UMA_GGUF_KV_LATENT, /* DeepSeek-V4: one head that is key and value */
    UMA_GGUF_OUT_B,     /* ... and its output projection in groups of low rank */
    UMA_GGUF_GATE,      /* attn_gate: output gate, or the gate of linear attention */
    UMA_GGUF_SINKS,
    UMA_GGUF_Q_NORM,
    UMA_GGUF_INDEX, /* any of the indexer */
    UMA_GGUF_INDEX_K,
    UMA_GGUF_INDEX_PROJ,
    UMA_GGUF_COMPRESSOR, /* DeepSeek-V4 */
    UMA_GGUF_FFN_GATE,
    UMA_GGUF_FFN_UP,
    UMA_GGUF_FFN_DOWN,
    UMA_GGUF_EXPERT_GATE,
    UMA_GGUF_EXPERT_UP,
    UMA_GGUF_EXPERT_DOWN,
    UMA_GGUF_SHARED_GATE,
    UMA_GGUF_SHARED_UP,
    UMA_GGUF_SHARED_DOWN,
    UMA_GGUF_ROUTER,
    UMA_GGUF_SSM,        /* any of a recurrent mixer */
    UMA_GGUF_SSM_IN,     /* Mamba's in_proj */
    UMA_GGUF_SSM_X,      /* Mamba 1 only */
    UMA_GGUF_SSM_BETA,   /* gated delta and KDA only */
    UMA_GGUF_SSM_CONV_Q, /* KDA only */
    UMA_GGUF_SHORT_CONV,
    UMA_GGUF_TIME_MIX, /* RWKV */
    UMA_GGUF_NORM,     /* of the width of the model, between the parts of a block */
    UMA_GGUF_ROLE_COUNT,
};

struct uma_gguf_block {
    uint64_t roles;      /* bits */
    uint64_t bias_roles; /* of those that have a bias, too */
    uint32_t norms;
    uint64_t in[UMA_GGUF_ROLE_COUNT], out[UMA_GGUF_ROLE_COUNT]; /* of the matrix with that role */
    uint64_t experts;
    /* of the attention class: given to the mixer when the block turns out to be recurrent */
    struct uma_tensor_total attention;
    enum uma_format attention_format; /* of its largest tensor */
    uint64_t attention_largest;
};

struct uma_gguf_tensors {
    uint64_t mtp_from; /* blocks from here on are MTP layers */
    bool projector;    /* clip: every tensor is of a tower or its projector */
    bool adapter;      /* a LoRA adapter: only its size and rank are kept */
    struct uma_tensor_total totals[UMA_CLASS_COUNT];
    uint64_t format_params[UMA_CLASS_COUNT][UMA_FORMAT_COUNT];
    uint64_t count, largest;
    struct uma_gguf_block *blocks;
    uint32_t block_count, block_room;
    uint32_t mtp_blocks;
    uint64_t hidden, vocab, positions; /* of token_embd and position_embd */
    bool has_lm_head, has_vision;
    uint64_t adapter_bytes, adapter_rank;
};

/* To be a visitor's `tensor` and `sized`; userdata is the struct. */
int uma_gguf_tensors_add(void *userdata, const struct uma_gguf_tensor *tensor, struct uma_error *err);
void uma_gguf_tensors_sized(void *userdata, int tag, uint64_t bytes);
void uma_gguf_tensors_done(struct uma_gguf_tensors *tensors);

/* Bytes and parameters of a block's attention tensors move to another class. */
void uma_gguf_tensors_reassign(struct uma_gguf_tensors *tensors, const struct uma_gguf_block *block, enum uma_class to);
/* The format that holds most parameters of a class; UNKNOWN when it has none. */
enum uma_format uma_gguf_tensors_format(const struct uma_gguf_tensors *tensors, enum uma_class class_);

static inline bool uma_gguf_block_has(const struct uma_gguf_block *block, enum uma_gguf_role role) {
    return block->roles >> role & 1;
}
