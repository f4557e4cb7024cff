/* SPDX-License-Identifier: MIT */
#include "plan/model/gguf_tensors.h"

#include "base/units.h"
#include "plan/estimate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Names inside a block, as gguf-py/gguf/constants.py of llama.cpp and the converters of Ollama (attn_out) and ik_llama.cpp write them. */
static const struct {
    const char *name;
    enum uma_class class_;
    enum uma_gguf_role role;
} block_names[] = {
    { "attn_q", UMA_CLASS_ATTENTION, UMA_GGUF_Q },
    { "attn_k", UMA_CLASS_ATTENTION, UMA_GGUF_K },
    { "attn_v", UMA_CLASS_ATTENTION, UMA_GGUF_V },
    { "attn_qkv", UMA_CLASS_ATTENTION, UMA_GGUF_QKV },
    { "attn_output", UMA_CLASS_ATTENTION, UMA_GGUF_OUT },
    { "attn_out", UMA_CLASS_ATTENTION, UMA_GGUF_OUT },
    { "attn_output_b", UMA_CLASS_ATTENTION, UMA_GGUF_OUT_B },
    { "attn_o", UMA_CLASS_ATTENTION, UMA_GGUF_OUT },
    { "attn_q_a", UMA_CLASS_ATTENTION, UMA_GGUF_Q_A },
    { "attn_kv_a_mqa", UMA_CLASS_ATTENTION, UMA_GGUF_KV_A },
    { "attn_kv", UMA_CLASS_ATTENTION, UMA_GGUF_KV_LATENT },
    { "attn_gate", UMA_CLASS_ATTENTION, UMA_GGUF_GATE },
    { "attn_sinks", UMA_CLASS_NORM, UMA_GGUF_SINKS },
    { "attn_compress_kv", UMA_CLASS_ATTENTION, UMA_GGUF_COMPRESSOR },
    { "attn_compressor_kv", UMA_CLASS_ATTENTION, UMA_GGUF_COMPRESSOR },
    { "indexer.attn_k", UMA_CLASS_ATTENTION, UMA_GGUF_INDEX_K },
    { "indexer.proj", UMA_CLASS_ATTENTION, UMA_GGUF_INDEX_PROJ },
    { "ffn_gate", UMA_CLASS_MLP, UMA_GGUF_FFN_GATE },
    { "ffn_up", UMA_CLASS_MLP, UMA_GGUF_FFN_UP },
    { "ffn_down", UMA_CLASS_MLP, UMA_GGUF_FFN_DOWN },
    { "ffn_gate_exps", UMA_CLASS_EXPERTS, UMA_GGUF_EXPERT_GATE },
    { "ffn_up_exps", UMA_CLASS_EXPERTS, UMA_GGUF_EXPERT_UP },
    { "ffn_gate_up_exps", UMA_CLASS_EXPERTS, UMA_GGUF_EXPERT_UP },
    { "ffn_down_exps", UMA_CLASS_EXPERTS, UMA_GGUF_EXPERT_DOWN },
    { "ffn_gate_shexp", UMA_CLASS_MLP, UMA_GGUF_SHARED_GATE },
    { "ffn_up_shexp", UMA_CLASS_MLP, UMA_GGUF_SHARED_UP },
    { "ffn_down_shexp", UMA_CLASS_MLP, UMA_GGUF_SHARED_DOWN },
    { "ffn_gate_inp", UMA_CLASS_ROUTER, UMA_GGUF_ROUTER },
    { "ffn_gate_inp_shexp", UMA_CLASS_ROUTER, UMA_GGUF_NO_ROLE },
    { "exp_probs_b", UMA_CLASS_ROUTER, UMA_GGUF_NO_ROLE },
    { "ssm_in", UMA_CLASS_MIXER, UMA_GGUF_SSM_IN },
    { "ssm_x", UMA_CLASS_MIXER, UMA_GGUF_SSM_X },
    { "ssm_ba", UMA_CLASS_MIXER, UMA_GGUF_SSM_BETA },
    { "ssm_beta", UMA_CLASS_MIXER, UMA_GGUF_SSM_BETA },
    { "ssm_alpha", UMA_CLASS_MIXER, UMA_GGUF_SSM_BETA },
    { "ssm_beta_alpha", UMA_CLASS_MIXER, UMA_GGUF_SSM_BETA },
    { "ssm_conv1d_q", UMA_CLASS_MIXER, UMA_GGUF_SSM_CONV_Q },
    { "inp_gate", UMA_CLASS_OTHER, UMA_GGUF_NO_ROLE }, /* Gemma 3n and 4: per-layer input */
    { "proj", UMA_CLASS_OTHER, UMA_GGUF_NO_ROLE },
};

/* What the table has not, by how it begins; the first match counts. */
static const struct {
    const char *prefix;
    enum uma_class class_;
    enum uma_gguf_role role;
} block_prefixes[] = {
    { "nextn.", UMA_CLASS_MTP, UMA_GGUF_NO_ROLE },
    { "indexer", UMA_CLASS_ATTENTION, UMA_GGUF_INDEX },
    { "attn_", UMA_CLASS_ATTENTION, UMA_GGUF_NO_ROLE },
    { "cross_attn_", UMA_CLASS_ATTENTION, UMA_GGUF_NO_ROLE },
    { "ffn_down_chexps", UMA_CLASS_EXPERTS, UMA_GGUF_NO_ROLE },
    { "ffn_gate_chexps", UMA_CLASS_EXPERTS, UMA_GGUF_NO_ROLE },
    { "ffn_up_chexps", UMA_CLASS_EXPERTS, UMA_GGUF_NO_ROLE },
    { "ffn_gate_tid2eid", UMA_CLASS_ROUTER, UMA_GGUF_NO_ROLE },
    { "ffn_", UMA_CLASS_MLP, UMA_GGUF_NO_ROLE },
    { "ssm_", UMA_CLASS_MIXER, UMA_GGUF_SSM },
    { "shortconv.", UMA_CLASS_MIXER, UMA_GGUF_SHORT_CONV },
    { "time_mix_", UMA_CLASS_MIXER, UMA_GGUF_TIME_MIX },
    { "channel_mix_", UMA_CLASS_MLP, UMA_GGUF_NO_ROLE },
    { "vis_", UMA_CLASS_VISION, UMA_GGUF_NO_ROLE },
};

static const struct {
    const char *prefix;
    enum uma_class class_;
} model_prefixes[] = {
    { "token_embd_norm", UMA_CLASS_NORM },
    { "token_embd", UMA_CLASS_EMBEDDING },
    { "position_embd", UMA_CLASS_EMBEDDING },
    { "token_types", UMA_CLASS_EMBEDDING },
    { "output_norm", UMA_CLASS_NORM },
    { "rope_", UMA_CLASS_NORM },
    { "v.", UMA_CLASS_VISION },
    { "a.", UMA_CLASS_VISION },
    { "mm.", UMA_CLASS_VISION },
    { "resampler.", UMA_CLASS_VISION },
    { "model.image_newline", UMA_CLASS_VISION },
    { "mtp.", UMA_CLASS_MTP },
    { "nextn.", UMA_CLASS_MTP },
};

struct place {
    enum uma_class class_;
    enum uma_gguf_role role;
    bool in_block, bias, scale; /* scale: belongs to a quantised tensor and is no parameter */
    bool single_expert;
    uint64_t block;
};

static bool begins(const char *s, const char *prefix) {
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* The name without ".weight", ".bias" and the like, which say what the values are, not what for. */
static void cut_suffix(char *stem, struct place *place) {
    char *dot = strrchr(stem, '.');
    if (!dot)
        return;
    if (strcmp(dot, ".bias") == 0)
        place->bias = true;
    else if (strcmp(dot, ".scale") == 0 || strcmp(dot, ".input_scale") == 0)
        place->scale = true;
    else if (strcmp(dot, ".weight") != 0)
        return;
    *dot = '\0';
}

/* Before experts were merged into one tensor each had its own: "ffn_down.7". */
static void cut_expert_number(char *stem, struct place *place) {
    char *dot = strrchr(stem, '.');
    uint64_t number;
    if (!dot || !begins(stem, "ffn_"))
        return;
    const char *end = uma_parse_u64(dot + 1, dot + strlen(dot), &number);
    if (!end || *end)
        return;
    *dot = '\0';
    place->single_expert = true;
}

/* Norms over the whole width between the parts of a block; those inside attention and mixers do not count. */
static enum uma_gguf_role norm_role(const char *stem) {
    static const char *const wide[] = { "attn_norm",       "attn_norm_2",    "post_attention_norm", "attn_output_norm",
                                        "attn_post_norm",  "ffn_norm",       "post_ffw_norm",       "post_ffw_norm_1",
                                        "post_ffw_norm_2", "pre_ffw_norm_2", "ffn_post_norm",       "layer_output_norm" };
    if (strcmp(stem, "attn_q_norm") == 0)
        return UMA_GGUF_Q_NORM;
    if (begins(stem, "ssm_"))
        return UMA_GGUF_SSM;
    for (size_t i = 0; i < ELEMENTS(wide); i++)
        if (strcmp(stem, wide[i]) == 0)
            return UMA_GGUF_NORM;
    return UMA_GGUF_NO_ROLE;
}

static void place_in_block(char *stem, struct place *place) {
    cut_suffix(stem, place);
    cut_expert_number(stem, place);
    place->class_ = UMA_CLASS_OTHER;
    for (size_t i = 0; i < ELEMENTS(block_names); i++)
        if (strcmp(stem, block_names[i].name) == 0) {
            place->class_ = block_names[i].class_;
            place->role = block_names[i].role;
            break;
        }
    for (size_t i = 0; place->class_ == UMA_CLASS_OTHER && place->role == UMA_GGUF_NO_ROLE && i < ELEMENTS(block_prefixes); i++)
        if (begins(stem, block_prefixes[i].prefix)) {
            place->class_ = block_prefixes[i].class_;
            place->role = block_prefixes[i].role;
        }
    if (place->single_expert) {
        place->class_ = UMA_CLASS_EXPERTS;
        place->role = place->role == UMA_GGUF_FFN_DOWN ? UMA_GGUF_EXPERT_DOWN
                      : place->role == UMA_GGUF_FFN_UP ? UMA_GGUF_EXPERT_UP
                                                       : UMA_GGUF_EXPERT_GATE;
    }
    bool norm = strstr(stem, "norm") && place->class_ != UMA_CLASS_MTP && place->class_ != UMA_CLASS_VISION;
    if (norm)
        place->role = norm_role(stem);
    if (norm || (place->bias && (place->class_ == UMA_CLASS_ATTENTION || place->class_ == UMA_CLASS_MLP)))
        place->class_ = UMA_CLASS_NORM;
}

static void place_in_model(char *stem, struct place *place) {
    cut_suffix(stem, place);
    place->class_ = strcmp(stem, "output") == 0 ? UMA_CLASS_LM_HEAD : UMA_CLASS_OTHER;
    for (size_t i = 0; i < ELEMENTS(model_prefixes); i++)
        if (begins(stem, model_prefixes[i].prefix)) {
            place->class_ = model_prefixes[i].class_;
            return;
        }
}

static struct place find_place(const struct uma_gguf_tensors *tensors, const char *name) {
    struct place place = { 0 };
    char stem[UMA_GGUF_TEXT];
    const char *number = begins(name, "blk.") ? name + 4 : begins(name, "dec.blk.") || begins(name, "enc.blk.") ? name + 8 : NULL;
    const char *rest = number ? uma_parse_u64(number, number + strlen(number), &place.block) : NULL;
    if (rest && *rest == '.') {
        place.in_block = name[0] != 'e'; /* an encoder has no cache and no layers of the decoder */
        snprintf(stem, sizeof stem, "%s", rest + 1);
        place_in_block(stem, &place);
        if (place.in_block && place.block >= tensors->mtp_from)
            place.class_ = UMA_CLASS_MTP;
    } else {
        snprintf(stem, sizeof stem, "%s", name);
        place_in_model(stem, &place);
    }
    if (tensors->projector)
        place = (struct place){ .class_ = UMA_CLASS_VISION };
    return place;
}

static int block_at(struct uma_gguf_tensors *tensors, uint64_t number, struct uma_gguf_block **ret_block, struct uma_error *err) {
    if (number >= UMA_MODEL_LAYERS_MAX)
        return uma_error_text(err, EINVAL, "a tensor belongs to block %" PRIu64 ": a model has at most %d", number, UMA_MODEL_LAYERS_MAX);
    if (number >= tensors->block_room) {
        uint32_t room = (uint32_t)MIN_OF(MAX_OF((uint64_t)tensors->block_room * 2, number + 64), (uint64_t)UMA_MODEL_LAYERS_MAX);
        struct uma_gguf_block *blocks = reallocarray(tensors->blocks, room, sizeof *blocks);
        if (!blocks)
            return uma_error_set(err, ENOMEM, "cannot keep the blocks of a model");
        memset(blocks + tensors->block_room, 0, (room - tensors->block_room) * sizeof *blocks);
        tensors->blocks = blocks;
        tensors->block_room = room;
    }
    tensors->block_count = MAX_OF(tensors->block_count, (uint32_t)number + 1);
    *ret_block = &tensors->blocks[number];
    return 0;
}

static void add_to_block(struct uma_gguf_block *block, const struct place *place, const struct uma_gguf_tensor *tensor,
                         enum uma_format format) {
    uint64_t bit = UINT64_C(1) << place->role;
    if (place->class_ == UMA_CLASS_ATTENTION) {
        struct uma_tensor_total *total = &block->attention;
        total->tensors++;
        total->params = uma_plus(total->params, tensor->elements);
        total->bytes = uma_plus(total->bytes, tensor->bytes);
        if (tensor->elements > block->attention_largest) {
            block->attention_largest = tensor->elements;
            block->attention_format = format;
        }
    }
    if (place->role == UMA_GGUF_NO_ROLE)
        return;
    if (place->bias)
        block->bias_roles |= bit;
    if (place->bias || place->scale)
        return;
    if (place->role == UMA_GGUF_NORM)
        block->norms++;
    block->roles |= bit;
    block->in[place->role] = tensor->dimensions[0];
    block->out[place->role] = tensor->dimensions[1];
    if (place->role == UMA_GGUF_EXPERT_DOWN)
        block->experts = place->single_expert ? block->experts + 1 : tensor->dimensions[2];
}

static void add_model_facts(struct uma_gguf_tensors *tensors, const struct uma_gguf_tensor *tensor, enum uma_class class_) {
    if (strcmp(tensor->name, "token_embd.weight") == 0) {
        tensors->hidden = tensor->dimensions[0];
        tensors->vocab = tensor->dimensions[1];
    } else if (strcmp(tensor->name, "position_embd.weight") == 0) {
        tensors->positions = tensor->dimensions[1];
    } else if (strcmp(tensor->name, "output.weight") == 0) {
        tensors->has_lm_head = true;
    }
    tensors->has_vision |= class_ == UMA_CLASS_VISION;
}

/* "blk.0.attn_q.weight.lora_a": its second dimension is the rank (llama.cpp, convert_lora_to_gguf.py). */
static int add_adapter(struct uma_gguf_tensors *tensors, const struct uma_gguf_tensor *tensor) {
    size_t length = strlen(tensor->name);
    if (length > 7 && strcmp(tensor->name + length - 7, ".lora_a") == 0)
        tensors->adapter_rank = MAX_OF(tensors->adapter_rank, tensor->dimensions[1]);
    tensors->adapter_bytes = uma_plus(tensors->adapter_bytes, tensor->bytes);
    return UMA_CLASS_OTHER;
}

int uma_gguf_tensors_add(void *userdata, const struct uma_gguf_tensor *tensor, struct uma_error *err) {
    struct uma_gguf_tensors *tensors = userdata;
    tensors->count++;
    tensors->largest = MAX_OF(tensors->largest, tensor->bytes);
    if (tensors->adapter)
        return add_adapter(tensors, tensor);
    struct place place = find_place(tensors, tensor->name);
    struct uma_tensor_total *total = &tensors->totals[place.class_];
    total->tensors++;
    total->bytes = uma_plus(total->bytes, tensor->bytes);
    if (!place.scale) {
        total->params = uma_plus(total->params, tensor->elements);
        tensors->format_params[place.class_][tensor->format] =
            uma_plus(tensors->format_params[place.class_][tensor->format], tensor->elements);
    }
    if (place.in_block) {
        struct uma_gguf_block *block = NULL;
        int e = block_at(tensors, place.block, &block, err);
        if (!block) /* untouched on failure */
            return e;
        if (place.block >= tensors->mtp_from)
            tensors->mtp_blocks = (uint32_t)MAX_OF((uint64_t)tensors->mtp_blocks, place.block - tensors->mtp_from + 1);
        add_to_block(block, &place, tensor, tensor->format);
    } else {
        add_model_facts(tensors, tensor, place.class_);
    }
    return (int)place.class_;
}

void uma_gguf_tensors_sized(void *userdata, int tag, uint64_t bytes) {
    struct uma_gguf_tensors *tensors = userdata;
    tensors->largest = MAX_OF(tensors->largest, bytes);
    if (tensors->adapter)
        tensors->adapter_bytes = uma_plus(tensors->adapter_bytes, bytes);
    else
        tensors->totals[tag].bytes = uma_plus(tensors->totals[tag].bytes, bytes);
}

void uma_gguf_tensors_done(struct uma_gguf_tensors *tensors) {
    free(tensors->blocks);
    tensors->blocks = NULL;
}

void uma_gguf_tensors_reassign(struct uma_gguf_tensors *tensors, const struct uma_gguf_block *block, enum uma_class to) {
    struct uma_tensor_total *from = &tensors->totals[UMA_CLASS_ATTENTION], *into = &tensors->totals[to];
    from->tensors = uma_minus(from->tensors, block->attention.tensors);
    from->params = uma_minus(from->params, block->attention.params);
    from->bytes = uma_minus(from->bytes, block->attention.bytes);
    into->tensors = uma_plus(into->tensors, block->attention.tensors);
    into->params = uma_plus(into->params, block->attention.params);
    into->bytes = uma_plus(into->bytes, block->attention.bytes);
    uint64_t *old = &tensors->format_params[UMA_CLASS_ATTENTION][block->attention_format];
    uint64_t *new = &tensors->format_params[to][block->attention_format];
    *old = uma_minus(*old, block->attention.params);
    *new = uma_plus(*new, block->attention.params);
}

enum uma_format uma_gguf_tensors_format(const struct uma_gguf_tensors *tensors, enum uma_class class_) {
    unsigned most = UMA_FORMAT_UNKNOWN;
    for (unsigned i = 0; i < UMA_FORMAT_COUNT; i++)
        if (tensors->format_params[class_][i] > (most == UMA_FORMAT_UNKNOWN ? 0 : tensors->format_params[class_][most]))
            most = i;
    return (enum uma_format)most;
}
