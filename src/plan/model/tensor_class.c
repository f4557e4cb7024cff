/* SPDX-License-Identifier: MIT */
#include "plan/model/tensor_class.h"

#include <string.h>

/* What a part of a name between two dots tells. */
enum {
    TOWER = 1 << 0,     /* of a vision or audio tower, or its projector */
    MTP = 1 << 1,       /* of multi-token prediction or a drafter */
    EMBEDDING = 1 << 2, /* a token or position embedding */
    HEAD = 1 << 3,      /* an output projection, when it stands outside the layers */
    NORM = 1 << 4,
    ROUTER = 1 << 5,
    EXPERTS = 1 << 6,
    SHARED = 1 << 7,      /* shared experts: dense in all but name */
    MIXER = 1 << 8,       /* linear attention, Mamba */
    EITHER = 1 << 9,      /* "mixer": Nemotron-H's name for whatever a layer has */
    ATTENTION = 1 << 10,  /* a block of attention */
    PROJECTION = 1 << 11, /* a matrix that attention has */
    MLP = 1 << 12,
    MATRIX = 1 << 13, /* a matrix that feed-forward has */
    LAYERS = 1 << 14, /* the number behind it is a layer's */
    TABLE = 1 << 15,  /* per-layer embeddings */
    SHARED_GATE = 1 << 16,
    BIAS = 1 << 17,
    LATENT = 1 << 18, /* into and out of the experts' narrower space */
    MOE = 1 << 19,    /* a block of experts: its matrices are theirs, though nothing says so (Step, Granite) */
};

static const struct word {
    const char *text;
    uint32_t flags;
} words[] = {
    /* sorted: found by halving */
    { "A_log", MIXER },
    { "DenseReluDense", MLP },
    { "EncDecAttention", ATTENTION },
    { "SelfAttention", ATTENTION },
    { "Wqkv", PROJECTION },
    { "aligner", TOWER },
    { "attention", ATTENTION },
    { "attn", ATTENTION },
    { "audio_encoder", TOWER },
    { "audio_tower", TOWER },
    { "backbone", 0 },
    { "base_model", 0 },
    { "bias", BIAS },
    { "blk", LAYERS },
    { "block", LAYERS },
    { "block_sparse_moe", MOE },
    { "blocks", LAYERS },
    { "c_attn", PROJECTION },
    { "c_fc", MATRIX },
    { "code2wav", TOWER },
    { "compressor", ATTENTION },
    { "connector", TOWER },
    { "conv", MIXER },
    { "conv1d", MIXER },
    { "cross_attn", ATTENTION },
    { "decoder", 0 },
    { "dense_4h_to_h", MATRIX },
    { "dense_h_to_4h", MATRIX },
    { "down_proj", MATRIX },
    { "dt_proj", MIXER },
    { "e_score_correction_bias", ROUTER },
    { "eh_proj", MTP },
    { "embed_audio", TOWER },
    { "embed_in", EMBEDDING },
    { "embed_out", HEAD },
    { "embed_positions", EMBEDDING },
    { "embed_tokens", EMBEDDING },
    { "embed_tokens_per_layer", TABLE },
    { "embed_vision", TOWER },
    { "embedding", EMBEDDING },
    { "embeddings", EMBEDDING },
    { "embeddings_project", 0 },
    { "encoder", 0 },
    { "enorm", MTP },
    { "exp_probs_b", ROUTER },
    { "experts", EXPERTS },
    { "fc1", MATRIX },
    { "fc1_latent_proj", LATENT },
    { "fc2", MATRIX },
    { "fc2_latent_proj", LATENT },
    { "fc_in", MATRIX },
    { "fc_out", MATRIX },
    { "feed_forward", MLP },
    { "ff", MLP },
    { "ffn", MLP },
    { "ffn_down_exps", EXPERTS },
    { "ffn_down_shexp", SHARED },
    { "ffn_gate_exps", EXPERTS },
    { "ffn_gate_inp", ROUTER },
    { "ffn_gate_inp_shexp", SHARED_GATE },
    { "ffn_gate_shexp", SHARED },
    { "ffn_gate_up_exps", EXPERTS },
    { "ffn_up_exps", EXPERTS },
    { "ffn_up_shexp", SHARED },
    { "final_layernorm", NORM },
    { "gate", ROUTER },
    { "gate_proj", MATRIX },
    { "gate_up_proj", MATRIX },
    { "h", LAYERS },
    { "head", HEAD },
    { "hnorm", MTP },
    { "in_proj", 0 },
    { "indexer", ATTENTION },
    { "inp_gate", MATRIX },
    { "input_layernorm", NORM },
    { "input_linear", MATRIX },
    { "intermediate", MLP },
    { "k_norm", NORM },
    { "k_proj", PROJECTION },
    { "kv_a_layernorm", NORM },
    { "kv_a_proj_with_mqa", PROJECTION },
    { "kv_b_proj", PROJECTION },
    { "language_model", 0 },
    { "layer", LAYERS },
    { "layers", LAYERS },
    { "linear_attn", MIXER },
    { "linear_mlp", MATRIX },
    { "lm_head", HEAD },
    { "ln_1", NORM },
    { "ln_2", NORM },
    { "ln_f", NORM },
    { "mamba", MIXER },
    { "medusa_head", MTP },
    { "mixer", EITHER },
    { "mlp", MLP },
    { "mm_projector", TOWER },
    { "model", 0 },
    { "moe", MOE },
    { "mtp", MTP },
    { "mtp_layers", MTP },
    { "multi_modal_projector", TOWER },
    { "nextn", MTP },
    { "norm", NORM },
    { "o_proj", PROJECTION },
    { "out_proj", 0 },
    { "output", HEAD },
    { "output_layer", HEAD },
    { "output_linear", MATRIX },
    { "patch_embed", TOWER },
    { "per_layer_input_gate", MATRIX },
    { "per_layer_model_projection", MATRIX },
    { "per_layer_projection", MATRIX },
    { "per_layer_token_embd", TABLE },
    { "position_embd", EMBEDDING },
    { "post_attention_layernorm", NORM },
    { "q_a_layernorm", NORM },
    { "q_a_proj", PROJECTION },
    { "q_b_proj", PROJECTION },
    { "q_norm", NORM },
    { "q_proj", PROJECTION },
    { "qkv_proj", PROJECTION },
    { "qscheme", 0 },
    { "query_key_value", PROJECTION },
    { "qweight", 0 },
    { "qzeros", 0 },
    { "resampler", TOWER },
    { "router", ROUTER },
    { "scales", 0 },
    { "self_attention", ATTENTION },
    { "self_attn", ATTENTION },
    { "share_expert", SHARED },
    { "shared_expert", SHARED },
    { "shared_expert_gate", SHARED_GATE },
    { "shared_experts", SHARED },
    { "shared_head", MTP },
    { "shared_mlp", SHARED },
    { "shortconv", MIXER },
    { "sinks", NORM },
    { "ssm", MIXER },
    { "switch_mlp", EXPERTS }, /* MLX */
    { "talker", TOWER },
    { "temporal_block", EITHER },
    { "text_model", 0 },
    { "thinker", 0 },
    { "tok_embeddings", EMBEDDING },
    { "token_embd", EMBEDDING },
    { "token_types", EMBEDDING },
    { "transformer", 0 },
    { "up_proj", MATRIX },
    { "v_proj", PROJECTION },
    { "vision_model", TOWER },
    { "vision_tower", TOWER },
    { "visual", TOWER },
    { "w1", MATRIX },
    { "w2", MATRIX },
    { "w3", MATRIX },
    { "weight", 0 },
    { "weight_packed", 0 },
    { "weight_scale", 0 },
    { "weight_scale_2", 0 },
    { "weight_scale_inv", 0 },
    { "wk", PROJECTION },
    { "wo", PROJECTION },
    { "word_embeddings", EMBEDDING },
    { "wpe", EMBEDDING },
    { "wq", PROJECTION },
    { "wqkv", PROJECTION },
    { "wte", EMBEDDING },
    { "wv", PROJECTION },
    { "x_proj", MIXER },
};

/* For parts that the table does not have: what they begin with, and what they hold anywhere. In order; the first that fits. */
static const struct word beginnings[] = {
    { "ffn_norm", NORM }, { "attn_norm", NORM }, { "attn_sinks", NORM },     { "attn_", ATTENTION },
    { "ffn_", MLP },      { "ssm_", MIXER },     { "time_mix", MIXER },      { "channel_mix", MLP },
    { "mtp", MTP },       { "nextn", MTP },      { "gate_up_proj", MATRIX }, { "down_proj", MATRIX },
    { "image_", TOWER },  { "img_", TOWER },     { "altup_", MATRIX },       { "laurel_", MATRIX },
};
static const struct word contents[] = {
    { "norm", NORM },    { "vision", TOWER }, { "visual", TOWER }, { "audio", TOWER },
    { "speech", TOWER }, { "laurel", MLP },   { "altup", MLP },
};

struct piece {
    const char *text;
    size_t length;
};

static int compare(struct piece piece, const char *text) {
    for (size_t i = 0; i < piece.length; i++) {
        int r = (unsigned char)piece.text[i] - (unsigned char)text[i];
        if (r || !text[i]) /* a name may hold NUL; a word does not */
            return r ? r : 1;
    }
    return text[piece.length] ? -1 : 0;
}

static uint32_t flags_of(struct piece piece) {
    size_t low = 0, high = ELEMENTS(words);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int r = compare(piece, words[middle].text);
        if (r == 0)
            return words[middle].flags;
        if (r < 0)
            high = middle;
        else
            low = middle + 1;
    }
    uint32_t flags = 0;
    for (size_t i = 0; i < ELEMENTS(beginnings) && !flags; i++) {
        size_t n = strlen(beginnings[i].text);
        if (piece.length >= n && memcmp(piece.text, beginnings[i].text, n) == 0)
            flags = beginnings[i].flags;
    }
    for (size_t i = 0; i < ELEMENTS(contents); i++)
        if (memmem(piece.text, piece.length, contents[i].text, strlen(contents[i].text)))
            flags |= contents[i].flags;
    if (piece.length > 5 && memcmp(piece.text + piece.length - 5, "_bias", 5) == 0)
        flags |= BIAS;
    return flags;
}

/* A number of at most 9 digits. */
static bool number_of(struct piece piece, uint32_t *ret) {
    uint32_t value = 0;
    if (piece.length == 0 || piece.length > 9)
        return false;
    for (size_t i = 0; i < piece.length; i++) {
        if (piece.text[i] < '0' || piece.text[i] > '9')
            return false;
        value = value * 10 + (uint32_t)(piece.text[i] - '0');
    }
    *ret = value;
    return true;
}

struct reading {
    uint32_t flags;
    bool in_layer, after_layers;
    uint32_t layer;
};

static void read_piece(struct reading *reading, struct piece piece) {
    uint32_t n;
    if (number_of(piece, &n)) {
        if (reading->after_layers && !reading->in_layer) {
            reading->in_layer = true;
            reading->layer = n;
        }
        return;
    }
    uint32_t flags = flags_of(piece);
    reading->after_layers = flags & LAYERS;
    reading->flags |= flags & ~(uint32_t)LAYERS;
}

/* Names have up to 16 parts; of one with more the rest tells nothing, and a file of such names would take its time. */
enum { PARTS_MAX = 32 };

static struct reading read_name(const char *name, size_t length) {
    struct reading reading = { 0 };
    const char *end = name + length;
    /* GGUF projector files: v.blk.0..., mm.0..., a.blk.0... */
    if ((length > 2 && (memcmp(name, "v.", 2) == 0 || memcmp(name, "a.", 2) == 0)) || (length > 3 && memcmp(name, "mm.", 3) == 0))
        reading.flags |= TOWER;
    for (unsigned i = 0; i < PARTS_MAX && name < end; i++) {
        const char *dot = memchr(name, '.', (size_t)(end - name));
        const char *stop = dot ? dot : end;
        read_piece(&reading, (struct piece){ name, (size_t)(stop - name) });
        name = dot ? dot + 1 : end;
    }
    return reading;
}

static bool recurrent(const struct reading *reading, const struct uma_model *model) {
    if (!model || !reading->in_layer || reading->layer >= model->layer_count)
        return false;
    enum uma_mixer mixer = model->layers[reading->layer].mixer;
    return mixer != UMA_MIXER_NONE && mixer != UMA_MIXER_ATTENTION && mixer != UMA_MIXER_MLA && mixer != UMA_MIXER_LINEAR;
}

static enum uma_class class_of_matrix(const struct reading *reading, const struct uma_model *model) {
    uint32_t flags = reading->flags;
    if (flags & (SHARED | LATENT))
        return UMA_CLASS_MLP;
    if (flags & (EXPERTS | MOE))
        return UMA_CLASS_EXPERTS;
    /* NAS puts one matrix of this name in attention's place */
    if (flags & MIXER && !(flags & ATTENTION))
        return UMA_CLASS_MIXER;
    if (flags & (PROJECTION | ATTENTION))
        return recurrent(reading, model) ? UMA_CLASS_MIXER : UMA_CLASS_ATTENTION;
    if (flags & (MLP | MATRIX))
        return UMA_CLASS_MLP;
    if (flags & EITHER)
        return UMA_CLASS_MIXER;
    return UMA_CLASS_OTHER;
}

enum uma_class uma_tensor_class(const char *name, size_t length, bool vector, const struct uma_model *model) {
    struct reading reading = read_name(name, length);
    uint32_t flags = reading.flags;
    if (flags & TOWER)
        return UMA_CLASS_VISION;
    if (flags & MTP || (model && model->layer_count && reading.in_layer && reading.layer >= model->layer_count))
        return UMA_CLASS_MTP;
    if (flags & TABLE)
        return UMA_CLASS_OTHER;
    if (flags & SHARED_GATE)
        return UMA_CLASS_MLP;
    if (flags & ROUTER && !(flags & (ATTENTION | EXPERTS)))
        return UMA_CLASS_ROUTER;
    if (vector || flags & (NORM | BIAS))
        return UMA_CLASS_NORM;
    if (!reading.in_layer && flags & HEAD)
        return UMA_CLASS_LM_HEAD;
    if (!reading.in_layer && flags & EMBEDDING)
        return UMA_CLASS_EMBEDDING;
    return class_of_matrix(&reading, model);
}

int64_t uma_tensor_layer(const char *name, size_t length) {
    struct reading reading = read_name(name, length);
    return reading.in_layer ? (int64_t)reading.layer : -1;
}
