/* SPDX-License-Identifier: MIT */
/*
 * config.h - the parts of reading a config.json. A struct uma_config holds the parsed text and the levels where a field may stand; errors are
 * sticky in `status` (the first one is kept, with file and line), so that callers ask for many fields and look once. Every number is bounded.
 */
#pragma once

#include "plan/model/arch.h"
#include "plan/model/structure.h"

#include <jansson.h>

enum {
    CONFIG_BYTES_MAX = 4 * 1024 * 1024, /* the largest published config.json, with a quantiser's list of every module, has 0.6 MB */
    CONFIG_DEPTH_MAX = 64,
    CONFIG_BRACKETS_MAX = 98304, /* objects and lists: about 330 bytes each once parsed; a module list of 57,600 experts has as many */
    CONFIG_VALUES_MAX = 262144,  /* values in them, about 80 bytes each: with the brackets less than 64 MiB */
    CONFIG_LEVELS_MAX = 6,
    CONFIG_WIDTH_MAX = 1 << 24, /* of any dimension of a matrix */
    CONFIG_COUNT_MAX = 1 << 20, /* of heads, experts, groups */
};

struct uma_config {
    const char *file; /* for messages */
    const char *text;
    size_t length;
    json_t *root;
    json_t *levels[CONFIG_LEVELS_MAX]; /* innermost (the language model) first; the root is last */
    unsigned level_count;
    const struct uma_arch *arch;
    struct uma_model *model;
    char kinds[UMA_MODEL_LAYERS_MAX]; /* of each layer, see enum uma_config_kind */
    uint32_t kind_count;
    bool ffn_in_pattern; /* the pattern says which layers are feed-forward: the others have none */
    struct uma_error *err;
    int status;
};

enum uma_config_kind {
    KIND_FULL = '*',
    KIND_SLIDING = 's',
    KIND_LINEAR = 'l', /* gated delta, KDA or lightning */
    KIND_MAMBA = 'M',
    KIND_DENSE = '-',   /* a feed-forward block of its own */
    KIND_EXPERTS = 'E', /* ... of experts */
    KIND_HYBRID = 'h',  /* Zamba 2: a shared attention block before the Mamba one */
    KIND_FIRST = 'f',   /* LongCat: the first of the two attentions of a layer, with the dense block */
    KIND_NO_FFN = 'm',  /* Mamba without feed-forward, beside the attention that follows */
    KIND_SHARED = 'a',  /* attention and feed-forward whose weights are an earlier layer's */
};

/* Parse bounded text: duplicate keys, depth and size refused. *ret_root is a new reference to an object. */
int uma_config_parse(const char *file, const char *text, size_t length, json_t **ret_root, struct uma_error *err);

/* `names`: aliases with '|' between them, tried in order at each level. NULL when absent or null. */
json_t *uma_config_find(const struct uma_config *config, const char *names);
/* A whole number 0..max, or `absent` where there is none. A list gives its element `layer` (its last for a layer beyond it). */
uint64_t uma_config_number(struct uma_config *config, const char *names, uint64_t max, uint64_t absent);
uint64_t uma_config_layer_number(struct uma_config *config, const char *names, uint32_t layer, uint64_t max, uint64_t absent);
/* The same below one object instead of the levels. */
uint64_t uma_config_number_in(struct uma_config *config, const json_t *object, const char *names, uint64_t max, uint64_t absent);
bool uma_config_flag(struct uma_config *config, const char *names, bool absent);
/* NULL when absent or no string. */
const char *uma_config_string(const struct uma_config *config, const char *names);
json_t *uma_config_list(const struct uma_config *config, const char *names);
json_t *uma_config_object(const struct uma_config *config, const char *names);
/* Is `value` among the whole numbers of a list? */
bool uma_config_list_has(const json_t *list, uint64_t value);
/* Keep the first error: "FILE line N: "name" should be WHAT". */
void uma_config_fail(struct uma_config *config, const char *name, const char *what);

void uma_config_kinds(struct uma_config *config);   /* what each layer is; makes the model */
void uma_config_mixers(struct uma_config *config);  /* mixers, windows, heads, dimensions */
void uma_config_ffns(struct uma_config *config);    /* feed-forward and experts of each layer */
void uma_config_blocks(struct uma_config *config);  /* NAS: block_configs */
void uma_config_towers(struct uma_config *config);  /* vision, audio, MTP; needs the layers */
void uma_config_formats(struct uma_config *config); /* 16-bit format and what quantization_config says */
/* After uma_structure_count: bytes of classes that are quantised in part. quant: hf_quant_config.json or NULL. */
void uma_config_quantise(struct uma_config *config, const json_t *quant);
