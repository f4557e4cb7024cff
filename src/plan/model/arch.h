/* SPDX-License-Identifier: MIT */
/*
 * arch.h - what a family's checkpoints have that its configuration does not say: biases, norms, whether a field means what it says elsewhere.
 * A table, one line per family; nothing is computed here.
 */
#pragma once

#include <stdint.h>

enum uma_arch_flag {
    ARCH_QKV_BIAS = 1 << 0,   /* where the configuration is silent */
    ARCH_NO_O_BIAS = 1 << 1,  /* attention_bias speaks of q, k and v only */
    ARCH_MLP_BIAS = 1 << 2,   /* where the configuration is silent */
    ARCH_QK_NORM = 1 << 3,    /* a norm of one head on q and k */
    ARCH_QK_FULL = 1 << 4,    /* ... over all heads */
    ARCH_LAYER_NORM = 1 << 5, /* LayerNorm with bias */
    ARCH_NORM_NONE = 1 << 6,  /* norms without parameters */
    ARCH_UNGATED = 1 << 7,    /* two matrices in the feed-forward */
    ARCH_TIED = 1 << 8,       /* where the configuration is silent */
    ARCH_POSITIONS = 1 << 9,  /* learned positions */
    ARCH_LM_BIAS = 1 << 10,
    ARCH_ROUTER_BIAS = 1 << 11, /* a correction or bias per expert */
    ARCH_SHARED_GATE = 1 << 12,
    ARCH_OUTPUT_GATE = 1 << 13, /* doubled q_proj, where the configuration is silent */
    ARCH_EMBED_NORM = 1 << 14,
    ARCH_EXPERT_BIAS = 1 << 15,
    ARCH_SINKS = 1 << 16,
    ARCH_MTP_EMBED = 1 << 17,   /* MTP layers keep an embedding and an output projection of their own in the checkpoint */
    ARCH_ALL_SLIDING = 1 << 18, /* sliding_window holds for every layer */
    ARCH_MAMBA1 = 1 << 20,      /* state-space layers are Mamba 1 */
    ARCH_MAMBA2 = 1 << 21,
    ARCH_PARALLEL_MIXERS = 1 << 22, /* attention and Mamba side by side in each layer (Falcon-H1) */
    ARCH_TWO_IN_ONE = 1 << 23,      /* two attentions and two dense blocks in each layer (LongCat) */
    ARCH_CONV_BIAS = 1 << 24,
    ARCH_MOE_DENSE = 1 << 25,    /* the dense block stands beside the experts of one layer (Gemma 4) */
    ARCH_RESIDUAL_FFN = 1 << 26, /* feed-forward after Mamba layers, too */
    ARCH_MQA = 1 << 27,          /* one key-value head where the configuration is silent */
    ARCH_MTP_DENSE = 1 << 28,    /* MTP layers repeat the first, dense layer (Step 3.5: 0.8 B beside 196 B; MiMo-V2) */
    ARCH_NO_MTP = 1 << 29,       /* the configuration counts MTP layers that the released weights do not have (MiniMax-M2) */
    ARCH_OWN_KV = 1 << 30,       /* layers that use an earlier one's cache have matrices for keys and values all the same */
};

struct uma_arch {
    const char *names; /* model_type values, '|' between them */
    uint32_t flags;
    uint8_t norms;          /* per layer */
    uint8_t sliding_period; /* one full layer after so many - 1 sliding ones, where the configuration has no pattern; 0: none */
    uint16_t head_dim;      /* where the configuration has none; 0: hidden / heads */
};

/* By model_type, or by a class name of "architectures"; '-', '_' and case do not matter, nor an ending like _text. NULL: unknown. */
const struct uma_arch *uma_arch_find(const char *name);
