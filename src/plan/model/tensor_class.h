/* SPDX-License-Identifier: MIT */
/*
 * tensor_class.h - what a tensor is for, by its name, and how many parameters its bytes hold. Names are those that checkpoints in use have:
 * Hugging Face models of every family, the layouts of model authors (Mistral's consolidated files, DeepSeek's own), and GGUF's.
 * Pure; a name that no rule knows is UMA_CLASS_OTHER, never an error.
 */
#pragma once

#include "plan/model/safetensors.h"
#include "uma_model.h"

/*
 * `vector`: the tensor has one dimension that is not 1 and is not packed (then it is a norm, a bias, a sink ... whatever its name). `model` may
 * be NULL; from it come the number of layers (a layer beyond it belongs to multi-token prediction) and what each layer's mixer is, because
 * Kimi and MiniMax name the matrices of linear attention like those of softmax attention.
 */
enum uma_class uma_tensor_class(const char *name, size_t length, bool vector, const struct uma_model *model);
/* The number of the layer that a name stands in, or -1. */
int64_t uma_tensor_layer(const char *name, size_t length);

/* ---- safetensors: packed values and what belongs to them ---------------------------------------------------- */

/* What the configuration says of the quantisation; zero: nothing. */
struct uma_packing {
    unsigned bits;          /* of a packed value; 0: not said, 4 is then assumed, which nearly all are */
    bool quantised;         /* there is a quantisation: names that end in _scale are scales */
    bool fp4_experts;       /* expert_dtype fp4 (DeepSeek-V4): bytes of experts hold two values whatever type the header gives them */
    bool known_unquantised; /* a configuration was read, and it says nothing of a quantisation */
};

enum uma_tensor_part {
    UMA_PART_VALUES = 0, /* each element is a parameter */
    UMA_PART_PACKED,     /* each element holds several, or a part of one */
    UMA_PART_SCALE,      /* scales of packed or narrow values: one to each group of them */
    UMA_PART_AUXILIARY,  /* zeros, second-level scales, indices, tables: bytes, but no parameters, and no groups to count */
    UMA_PART_BUFFER,     /* rotary frequencies, masks, position numbers: bytes that are no parameters */
};

/* How packed values are stored; what tells formats of the same width apart. */
enum uma_packed_as {
    UMA_PACKED_NOT = 0,
    UMA_PACKED_QWEIGHT,       /* GPTQ, AWQ: int32 words */
    UMA_PACKED_WEIGHT_PACKED, /* compressed-tensors */
    UMA_PACKED_BLOCKS,        /* MXFP4 as gpt-oss has it */
    UMA_PACKED_BYTES,         /* a weight of type U8: bitsandbytes, NVFP4, ModelOpt; or F4 */
    UMA_PACKED_WORDS,         /* a weight of type U32: MLX */
    UMA_PACKED_HQQ,
    UMA_PACKED_AS_COUNT,
};

struct uma_tensor_storage {
    enum uma_tensor_part part;
    enum uma_packed_as packed_as;
    uint64_t params;
    enum uma_format format; /* of plain values; UNKNOWN for packed ones and for a type without a format */
    bool double_quantised;  /* a table that only NF4 with double quantisation has */
    bool absmax;            /* bitsandbytes' scales */
};

struct uma_tensor_storage uma_tensor_storage(const struct uma_safetensors_tensor *tensor, const struct uma_packing *packing);
/* Packed, or more than one dimension that is not 1: then not a vector in the sense of uma_tensor_class. */
bool uma_tensor_is_vector(const struct uma_safetensors_tensor *tensor, const struct uma_tensor_storage *storage);
