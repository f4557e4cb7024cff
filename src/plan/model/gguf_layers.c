/* SPDX-License-Identifier: MIT */
#include "plan/model/gguf_layers.h"

#include "plan/estimate.h"
#include "plan/model/structure.h"

#include <string.h>

/* LLM_ARCH_NAMES of llama.cpp and ik_llama.cpp, and the names that Ollama's converters write. */
static const char *const architectures[] = {
    "afmoe",
    "apertus",
    "arcee",
    "arctic",
    "arwkv7",
    "baichuan",
    "bailingmoe",
    "bailingmoe2",
    "bailingmoe3",
    "bert",
    "bitnet",
    "bitnet-25",
    "bitnet-b1.58",
    "bloom",
    "chameleon",
    "chatglm",
    "clip",
    "codeshell",
    "cogvlm",
    "cohere2",
    "cohere2-moe",
    "command-r",
    "dbrx",
    "deci",
    "deepseek",
    "deepseek2",
    "deepseek2-ocr",
    "deepseek32",
    "deepseek4",
    "deepseekocr",
    "dots1",
    "dream",
    "ernie4_5",
    "ernie4_5-moe",
    "eurobert",
    "exaone",
    "exaone-moe",
    "exaone4",
    "falcon",
    "falcon-h1",
    "gemma",
    "gemma-embedding",
    "gemma2",
    "gemma3",
    "gemma3n",
    "gemma4",
    "glm-dsa",
    "glm4",
    "glm4moe",
    "glmocr",
    "gpt-oss",
    "gpt2",
    "gptj",
    "gptneox",
    "gptoss",
    "granite",
    "granitehybrid",
    "granitemoe",
    "grok",
    "grovemoe",
    "hunyuan-dense",
    "hunyuan-moe",
    "hunyuan_vl",
    "internlm2",
    "jais",
    "jais2",
    "jamba",
    "jina-bert-v2",
    "jina-bert-v3",
    "kimi-linear",
    "laguna",
    "lfm2",
    "lfm2moe",
    "llada",
    "llada-moe",
    "llama",
    "llama-embed",
    "llama4",
    "maincoder",
    "mamba",
    "mamba2",
    "mellum",
    "mimo2",
    "minicpm",
    "minicpm3",
    "minimax-m2",
    "minimax-m3",
    "mistral3",
    "mistral4",
    "mllama",
    "modern-bert",
    "mpt",
    "muse-glimmer",
    "nemotron",
    "nemotron_h",
    "nemotron_h_moe",
    "neo-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "olmo",
    "olmo2",
    "olmoe",
    "openelm",
    "openpangu",
    "orion",
    "paddleocr",
    "pangu-embedded",
    "phi2",
    "phi3",
    "phimoe",
    "plamo",
    "plamo2",
    "plamo3",
    "plm",
    "qwen",
    "qwen2",
    "qwen25vl",
    "qwen2moe",
    "qwen2vl",
    "qwen3",
    "qwen35",
    "qwen35moe",
    "qwen3moe",
    "qwen3next",
    "qwen3vl",
    "qwen3vlmoe",
    "refact",
    "rnd1",
    "rwkv6",
    "rwkv6qwen2",
    "rwkv7",
    "seed_oss",
    "smallthinker",
    "smollm3",
    "stablelm",
    "starcoder",
    "starcoder2",
    "step35",
    "t5",
    "t5encoder",
    "wavtokenizer-dec",
    "xverse",
};

bool uma_gguf_architecture_known(const char *architecture) {
    for (size_t i = 0; i < ELEMENTS(architectures); i++)
        if (strcmp(architecture, architectures[i]) == 0)
            return true;
    return false;
}

uint32_t uma_gguf_layer_count(const struct uma_gguf_metadata *m, const struct uma_gguf_tensors *tensors) {
    uint32_t blocks = uma_gguf_number(m, UMA_GGUF_BLOCKS, 0, 0);
    /* a count that no tensor bears out would make layers of nothing */
    blocks = blocks && blocks < tensors->block_count ? blocks : tensors->block_count;
    uint64_t layers = MIN_OF((uint64_t)blocks, tensors->mtp_from);
    return (uint32_t)MIN_OF(layers, (uint64_t)UMA_MODEL_LAYERS_MAX);
}

/* ---- sliding windows ---------------------------------------------------------------------------------------- */

/*
 * Which layers slide, where attention.sliding_window_pattern does not say: of each `period` layers all but the last, or all but the first.
 * The pattern is in the loaders of llama.cpp (set_swa_pattern in src/models/), not in the files. period 1: none slides, whatever the file says
 * (Phi-3's window is not used); 0: all do.
 */
static const struct {
    const char *architecture;
    uint32_t period;
    bool full_first;
    uint32_t window; /* where the file states none */
} patterns[] = {
    { "afmoe", 4, false, 0 },        { "cohere2", 4, false, 0 },     { "deepseek4", 0, false, 128 },
    { "exaone-moe", 4, false, 0 },   { "exaone4", 4, false, 0 },     { "gemma-embedding", 6, false, 0 },
    { "gemma2", 2, false, 4096 },    { "gemma3", 6, false, 0 },      { "gemma3n", 5, false, 0 },
    { "gpt-oss", 2, false, 0 },      { "gptoss", 2, false, 0 },      { "laguna", 4, true, 0 },
    { "llama4", 4, false, 8192 },    { "mellum", 4, false, 0 },      { "modern-bert", 3, true, 0 },
    { "muse-glimmer", 4, false, 0 }, { "olmo2", 4, false, 0 },       { "phi3", 1, false, 0 },
    { "plamo3", 8, false, 0 },       { "smallthinker", 4, true, 0 },
};

struct windows {
    uint32_t window, period;
    bool full_first, per_layer;
};

static struct windows windows_of(struct uma_model *model, const struct uma_gguf_metadata *m) {
    struct windows w = { .window = uma_gguf_number(m, UMA_GGUF_WINDOW, 0, 0), .period = 1 };
    bool known = false;
    for (size_t i = 0; i < ELEMENTS(patterns); i++)
        if (strcmp(m->architecture, patterns[i].architecture) == 0) {
            known = true;
            w.period = patterns[i].period;
            w.full_first = patterns[i].full_first;
            if (!uma_gguf_has(m, UMA_GGUF_WINDOW))
                w.window = patterns[i].window;
        }
    if (m->keys[UMA_GGUF_WINDOW_PATTERN].numbers) {
        w.per_layer = known = true;
    } else if (uma_gguf_has(m, UMA_GGUF_WINDOW_PATTERN) && !(known && w.period == 1)) {
        w.period = uma_gguf_number(m, UMA_GGUF_WINDOW_PATTERN, 0, 1);
        known = true;
    }
    /* llama.cpp takes no notice of a window in architectures that it has no pattern for; their caches hold the whole context */
    if (w.window && !known && !uma_gguf_architecture_known(m->architecture))
        uma_model_warn(model, "a sliding window of %u tokens without a statement of which layers slide: all are counted as full", w.window);
    return w;
}

static uint32_t window_of(const struct windows *w, const struct uma_gguf_metadata *m, uint32_t layer) {
    if (w->per_layer)
        return uma_gguf_number(m, UMA_GGUF_WINDOW_PATTERN, layer, 0) ? w->window : 0;
    if (w->period == 0)
        return w->window;
    uint32_t place = layer % w->period;
    return (w->full_first ? place != 0 : place + 1 < w->period) ? w->window : 0;
}

/* ---- mixers ------------------------------------------------------------------------------------------------- */

static bool has(const struct uma_gguf_block *block, enum uma_gguf_role role) {
    return uma_gguf_block_has(block, role);
}

static uint32_t u32(uint64_t v) {
    return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

static bool recurrent(const struct uma_gguf_block *block) {
    return has(block, UMA_GGUF_SSM) || has(block, UMA_GGUF_SSM_IN) || has(block, UMA_GGUF_SSM_BETA) || has(block, UMA_GGUF_SSM_CONV_Q);
}

static enum uma_mixer mixer_of(const struct uma_gguf_block *block) {
    if (has(block, UMA_GGUF_KV_A) || has(block, UMA_GGUF_KV_LATENT))
        return UMA_MIXER_MLA;
    if (has(block, UMA_GGUF_SSM_CONV_Q))
        return UMA_MIXER_KDA;
    if (has(block, UMA_GGUF_SSM_BETA) || has(block, UMA_GGUF_TIME_MIX))
        return UMA_MIXER_GATED_DELTA;
    bool attention = has(block, UMA_GGUF_Q) || has(block, UMA_GGUF_QKV) || has(block, UMA_GGUF_Q_A);
    if (attention)
        return UMA_MIXER_ATTENTION; /* Falcon-H1 has both side by side: the cache is what grows */
    if (has(block, UMA_GGUF_SSM_X))
        return UMA_MIXER_MAMBA1;
    if (recurrent(block))
        return UMA_MIXER_MAMBA2;
    return has(block, UMA_GGUF_OUT) ? UMA_MIXER_LINEAR : UMA_MIXER_NONE;
}

/* Heads and widths from the metadata; where the matrices disagree, they are right: they are what is multiplied. */
static void fill_attention(const struct uma_model *model, struct uma_model_layer *layer, const struct uma_gguf_block *block,
                           const struct uma_gguf_metadata *m, uint32_t i) {
    enum uma_gguf_key key_length =
        layer->window && uma_gguf_has(m, UMA_GGUF_KEY_LENGTH_SWA) ? UMA_GGUF_KEY_LENGTH_SWA : UMA_GGUF_KEY_LENGTH;
    enum uma_gguf_key value_length =
        layer->window && uma_gguf_has(m, UMA_GGUF_VALUE_LENGTH_SWA) ? UMA_GGUF_VALUE_LENGTH_SWA : UMA_GGUF_VALUE_LENGTH;
    uint64_t q = block->out[UMA_GGUF_Q], k = block->out[UMA_GGUF_K], v = block->out[UMA_GGUF_V];
    layer->heads = uma_gguf_number(m, UMA_GGUF_HEADS, i, 0);
    layer->kv_heads = uma_gguf_number(m, UMA_GGUF_KV_HEADS, i, layer->heads);
    layer->head_dim = uma_gguf_number(m, key_length, i, layer->heads ? model->hidden / layer->heads : 0);
    if (layer->head_dim == 0)
        layer->head_dim = 128; /* nearly all models' */
    layer->v_head_dim = uma_gguf_number(m, value_length, i, layer->head_dim);
    if (layer->heads == 0)
        layer->heads = u32(q / layer->head_dim);
    if (k && k % layer->head_dim == 0)
        layer->kv_heads = u32(k / layer->head_dim);
    if (v && layer->kv_heads && v % layer->kv_heads == 0)
        layer->v_head_dim = u32(v / layer->kv_heads);
    uint64_t width = (uint64_t)layer->heads * layer->head_dim;
    layer->output_gate = width && (q == 2 * width || block->out[UMA_GGUF_GATE] == width); /* in q, or a matrix of its own */
    layer->key_is_value = has(block, UMA_GGUF_K) && !has(block, UMA_GGUF_V);
    layer->sinks = has(block, UMA_GGUF_SINKS);
}

/* Files before May 2025 state the expanded widths as key_length and value_length; later ones the latent's, and the expanded ones as ..._mla. */
static void fill_mla(struct uma_model *model, struct uma_model_layer *layer, const struct uma_gguf_block *block,
                     const struct uma_gguf_metadata *m, uint32_t i) {
    layer->heads = layer->kv_heads = uma_gguf_number(m, UMA_GGUF_HEADS, i, 0);
    layer->head_dim = uma_gguf_number(m, uma_gguf_has(m, UMA_GGUF_KEY_LENGTH_MLA) ? UMA_GGUF_KEY_LENGTH_MLA : UMA_GGUF_KEY_LENGTH, i, 192);
    layer->v_head_dim =
        uma_gguf_number(m, uma_gguf_has(m, UMA_GGUF_VALUE_LENGTH_MLA) ? UMA_GGUF_VALUE_LENGTH_MLA : UMA_GGUF_VALUE_LENGTH, i, 128);
    uint32_t latent = u32(block->out[UMA_GGUF_KV_A]);
    model->qk_rope_dim = uma_gguf_number(m, UMA_GGUF_ROPE_DIM, i, 64);
    model->kv_lora_rank = uma_gguf_number(m, UMA_GGUF_KV_LORA_RANK, i, 0);
    if (latent > model->qk_rope_dim && (model->kv_lora_rank == 0 || model->kv_lora_rank > latent))
        model->kv_lora_rank = latent - model->qk_rope_dim;
    model->qk_nope_dim = layer->head_dim > model->qk_rope_dim ? layer->head_dim - model->qk_rope_dim : 0;
    model->q_lora_rank = has(block, UMA_GGUF_Q_A) ? u32(block->out[UMA_GGUF_Q_A]) : 0;
}

/* DeepSeek-V4: a window of latents, and beyond it one entry for so many tokens (the loader of ik_llama.cpp, where a key is missing). */
static void fill_compressed(struct uma_model *model, struct uma_model_layer *layer, const struct uma_gguf_block *block,
                            const struct uma_gguf_metadata *m, uint32_t i) {
    layer->heads = layer->kv_heads = uma_gguf_number(m, UMA_GGUF_HEADS, i, 0);
    layer->head_dim = layer->v_head_dim = u32(block->out[UMA_GGUF_KV_LATENT]);
    layer->sinks = has(block, UMA_GGUF_SINKS);
    layer->kv_compression = uma_gguf_number(m, UMA_GGUF_COMPRESS_RATIOS, i,
                                            !has(block, UMA_GGUF_COMPRESSOR) ? 0
                                            : layer->indexed                 ? 4
                                                                             : 128);
    model->qk_rope_dim = uma_gguf_number(m, UMA_GGUF_ROPE_DIM, i, 64);
    model->kv_lora_rank = layer->head_dim > model->qk_rope_dim ? layer->head_dim - model->qk_rope_dim : layer->head_dim;
    model->qk_nope_dim = model->kv_lora_rank;
    model->q_lora_rank = u32(block->out[UMA_GGUF_Q_A]);
    model->details.o_groups = uma_gguf_number(m, UMA_GGUF_O_GROUPS, i, 1);
    uint32_t groups = MAX_OF(model->details.o_groups, 1u);
    model->details.o_lora_rank = uma_gguf_number(m, UMA_GGUF_O_LORA_RANK, i, u32(block->in[UMA_GGUF_OUT_B] / groups));
}

/* Recurrent state by the metadata that llama.cpp allocates it from; RWKV as a delta rule of one key head per value head. */
static void fill_recurrent(struct uma_model *model, enum uma_mixer mixer, const struct uma_gguf_metadata *m, uint32_t i) {
    uint32_t inner = uma_gguf_number(m, UMA_GGUF_SSM_INNER, i, 0), state = uma_gguf_number(m, UMA_GGUF_SSM_STATE, i, 0);
    uint32_t rank = uma_gguf_number(m, UMA_GGUF_SSM_RANK, i, 0), conv = uma_gguf_number(m, UMA_GGUF_SSM_CONV, i, 4);
    uint32_t groups = uma_gguf_number(m, UMA_GGUF_SSM_GROUPS, i, 1);
    if (mixer == UMA_MIXER_GATED_DELTA && uma_gguf_has(m, UMA_GGUF_WKV_HEAD)) {
        uint32_t width = uma_gguf_number(m, UMA_GGUF_WKV_HEAD, i, 64);
        model->linear_key_dim = model->linear_value_dim = width;
        model->linear_value_heads = model->linear_key_heads = width ? model->hidden / width : 0;
        model->linear_conv = 1;
    } else if (mixer == UMA_MIXER_GATED_DELTA) {
        model->linear_key_dim = state;
        model->linear_key_heads = groups;
        model->linear_value_heads = rank;
        model->linear_value_dim = rank ? inner / rank : 0;
        model->linear_conv = conv;
    } else if (mixer == UMA_MIXER_KDA) {
        model->linear_key_dim = model->linear_value_dim = uma_gguf_number(m, UMA_GGUF_KDA_HEAD_DIM, i, 128);
        model->linear_value_heads = uma_gguf_number(m, UMA_GGUF_HEADS, i, 0);
        if (model->linear_value_heads == 0) /* a per-layer array may state 0 for recurrent layers */
            model->linear_value_heads = model->hidden / MAX_OF(model->linear_key_dim, 1u);
        model->linear_key_heads = model->linear_value_heads;
        model->linear_conv = conv;
    } else {
        model->ssm_inner = inner;
        model->ssm_state = state;
        model->ssm_groups = groups;
        model->ssm_conv = conv;
        model->ssm_heads = mixer == UMA_MIXER_MAMBA2 ? rank : 0;
        model->ssm_head_dim = mixer == UMA_MIXER_MAMBA2 && rank ? inner / rank : 0;
        if (mixer == UMA_MIXER_MAMBA1)
            model->details.dt_rank = rank;
    }
}

/* ---- feed-forward ------------------------------------------------------------------------------------------- */

static void fill_ffn(const struct uma_model *model, struct uma_model_layer *layer, const struct uma_gguf_block *block,
                     const struct uma_gguf_metadata *m, uint32_t i) {
    if (has(block, UMA_GGUF_EXPERT_DOWN) || has(block, UMA_GGUF_EXPERT_UP)) {
        layer->ffn = UMA_FFN_MOE;
        layer->ffn_size = block->in[UMA_GGUF_EXPERT_DOWN];
        layer->experts = u32(block->experts);
        layer->experts_per_token = uma_gguf_number(m, UMA_GGUF_EXPERTS_USED, i, 0);
        layer->ffn_gated = has(block, UMA_GGUF_EXPERT_GATE) || block->out[UMA_GGUF_EXPERT_UP] == 2 * layer->ffn_size;
        uint64_t input = block->in[UMA_GGUF_EXPERT_UP];
        layer->expert_input = input && input != model->hidden ? u32(input) : 0;
        /* Llama 4 and Arctic have a dense feed-forward beside the experts: it sees every token, as a shared expert does */
        if (has(block, UMA_GGUF_SHARED_DOWN))
            layer->shared_ffn_size = block->in[UMA_GGUF_SHARED_DOWN];
        else if (has(block, UMA_GGUF_FFN_DOWN))
            layer->shared_ffn_size = block->in[UMA_GGUF_FFN_DOWN];
    } else if (has(block, UMA_GGUF_FFN_DOWN)) {
        layer->ffn = UMA_FFN_DENSE;
        layer->ffn_size = block->in[UMA_GGUF_FFN_DOWN];
        /* Phi-3, GLM-4 and ChatGLM keep gate and up in one matrix */
        layer->ffn_gated = has(block, UMA_GGUF_FFN_GATE) || (layer->ffn_size && block->out[UMA_GGUF_FFN_UP] == 2 * layer->ffn_size);
    }
}

/* ---- all ---------------------------------------------------------------------------------------------------- */

static void fill_flags(struct uma_model *model, const struct uma_gguf_block *block) {
    const uint64_t qkv = UINT64_C(1) << UMA_GGUF_Q | UINT64_C(1) << UMA_GGUF_QKV;
    model->qkv_bias |= (block->bias_roles & qkv) != 0;
    model->o_bias |= (block->bias_roles >> UMA_GGUF_OUT & 1) != 0;
    model->mlp_bias |= ((block->bias_roles >> UMA_GGUF_FFN_UP | block->bias_roles >> UMA_GGUF_FFN_DOWN) & 1) != 0;
    model->qk_norm |= has(block, UMA_GGUF_Q_NORM);
    if (has(block, UMA_GGUF_INDEX_K))
        model->index_head_dim = u32(block->out[UMA_GGUF_INDEX_K]);
    if (has(block, UMA_GGUF_INDEX_PROJ))
        model->index_heads = u32(block->out[UMA_GGUF_INDEX_PROJ]);
}

static void fill_layer(struct uma_model *model, struct uma_model_layer *layer, const struct uma_gguf_metadata *m,
                       struct uma_gguf_tensors *tensors, uint32_t i) {
    const struct uma_gguf_block *block = &tensors->blocks[i];
    layer->mixer = mixer_of(block);
    layer->indexed = has(block, UMA_GGUF_INDEX) || has(block, UMA_GGUF_INDEX_K) || has(block, UMA_GGUF_INDEX_PROJ);
    if (has(block, UMA_GGUF_KV_LATENT))
        fill_compressed(model, layer, block, m, i);
    else if (layer->mixer == UMA_MIXER_MLA)
        fill_mla(model, layer, block, m, i);
    else if (layer->mixer == UMA_MIXER_ATTENTION)
        fill_attention(model, layer, block, m, i);
    else if (layer->mixer != UMA_MIXER_LINEAR && layer->mixer != UMA_MIXER_NONE)
        uma_gguf_tensors_reassign(tensors, block, UMA_CLASS_MIXER);
    if (recurrent(block) || has(block, UMA_GGUF_TIME_MIX))
        fill_recurrent(model, layer->mixer == UMA_MIXER_ATTENTION ? UMA_MIXER_MAMBA2 : layer->mixer, m, i);
    fill_ffn(model, layer, block, m, i);
    fill_flags(model, block);
}

void uma_gguf_layers_fill(struct uma_model *model, const struct uma_gguf_metadata *m, struct uma_gguf_tensors *tensors) {
    struct windows windows = windows_of(model, m);
    uint32_t shared = uma_gguf_number(m, UMA_GGUF_SHARED_KV, 0, 0);
    model->index_head_dim = uma_gguf_number(m, UMA_GGUF_INDEX_HEAD_DIM, 0, 0);
    model->index_heads = uma_gguf_number(m, UMA_GGUF_INDEX_HEADS, 0, 0);
    for (uint32_t i = 0; i < model->layer_count; i++) {
        model->layers[i].window = window_of(&windows, m, i);
        fill_layer(model, &model->layers[i], m, tensors, i);
        if (model->layers[i].mixer != UMA_MIXER_ATTENTION && !model->details.o_lora_rank)
            model->layers[i].window = 0;
        model->layers[i].shares_kv = shared && shared < model->layer_count && i >= model->layer_count - shared;
    }
    if (model->layer_count > 0 && tensors->blocks[0].norms > 0)
        model->norms_per_layer = tensors->blocks[0].norms;
}
