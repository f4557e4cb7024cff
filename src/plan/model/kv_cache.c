/* SPDX-License-Identifier: MIT */
/*
 * What a sequence keeps between tokens, per layer and engine: keys and values, latents, index keys, windows, recurrent states.
 * Sources: llama.cpp src/llama-kv-cache.cpp, llama-kv-cache-iswa.cpp, llama-memory-recurrent.cpp; vLLM v1/core/kv_cache_utils.py,
 * v1/kv_cache_interface.py and the fp8_ds_mla layout of FlashMLA; SGLang mem_cache/memory_pool.py; transformers cache_utils.py.
 */
#include "plan/model/structure.h"

#include "plan/estimate.h"

enum {
    LLAMA_CELLS = 256,       /* llama.cpp rounds a cache's cells up to this */
    LLAMA_UBATCH = 512,      /* its default -ub */
    VLLM_BLOCK = 16,         /* tokens per page */
    TRT_BLOCK = 32,          /* tokens_per_block */
    INDEX_SCALE_GROUP = 128, /* index keys are FP8 with one fp32 scale per 128 values: 132 bytes for a key of 128 */
};

/* One layer's part. */
struct cost {
    uint64_t row; /* bytes per kept token */
    uint64_t
        extra_row; /* bytes of an entry that is kept for each `extra_every` tokens of the whole context (compressed, with its index key) */
    uint64_t extra_every;
    uint64_t state;  /* per sequence */
    uint64_t window; /* tokens kept at most; 0: all */
};

static bool is_llama(const struct uma_kv_options *options) {
    return options->engine == UMA_ENGINE_LLAMA_CPP || options->engine == UMA_ENGINE_OLLAMA;
}
static bool has_sparse_kernels(const struct uma_kv_options *options) {
    return options->engine == UMA_ENGINE_VLLM || options->engine == UMA_ENGINE_SGLANG;
}
static enum uma_format format_of(enum uma_format format) {
    return format == UMA_FORMAT_UNKNOWN ? UMA_FORMAT_BF16 : format;
}
/* Heads of one rank: divided, and repeated on several ranks where there are fewer heads than ranks. */
static uint64_t per_rank(uint64_t heads, uint32_t tp) {
    return tp > 1 ? uma_divide_up(heads, tp) : heads;
}

/* FlashMLA's sparse layout: the latent in FP8 with an fp32 scale per 128 values, the rotary part in bf16 (656 bytes for 512 + 64);
 * DeepSeek-V4's: FP8 with eight bytes of scales (584 for 448 + 64). */
static uint64_t sparse_latent_row(const struct uma_model *model, bool compressed) {
    uint64_t scales = compressed ? 8 : uma_times(4, uma_divide_up(model->kv_lora_rank, 128));
    return uma_plus(uma_plus(model->kv_lora_rank, uma_times(2, model->qk_rope_dim)), scales);
}

static uint64_t index_row(const struct uma_model *model, const struct uma_kv_options *options) {
    uint64_t dim = model->index_head_dim;
    if (has_sparse_kernels(options))
        return uma_plus(dim, uma_times(4, uma_divide_up(dim, INDEX_SCALE_GROUP)));
    return uma_format_bytes(format_of(options->key_format), dim);
}

static void latent_cost(const struct uma_model *model, const struct uma_model_layer *layer, const struct uma_kv_options *options,
                        struct cost *cost) {
    enum uma_format k = format_of(options->key_format), v = format_of(options->value_format);
    bool fp8 = k == UMA_FORMAT_FP8 && has_sparse_kernels(options);
    bool compressing = model->details.o_lora_rank > 0;
    /* transformers keeps what attention reads: keys and values after the up-projection */
    if ((options->mla_expanded || options->engine == UMA_ENGINE_TRANSFORMERS) && !compressing) {
        uint64_t heads = per_rank(layer->heads, options->tp);
        cost->row = uma_plus(uma_format_bytes(k, uma_times(heads, uma_plus(model->qk_nope_dim, model->qk_rope_dim))),
                             uma_format_bytes(v, uma_times(heads, layer->v_head_dim)));
        return;
    }
    if (fp8 && (layer->indexed || compressing))
        cost->row = sparse_latent_row(model, compressing);
    else
        cost->row = uma_format_bytes(k, uma_plus(model->kv_lora_rank, model->qk_rope_dim));
    if (options->mla_transposed)
        cost->row = uma_plus(cost->row, uma_format_bytes(v, model->kv_lora_rank));
    if (compressing) {
        cost->window = layer->window;
        if (layer->kv_compression) {
            cost->extra_every = layer->kv_compression;
            cost->extra_row = uma_plus(cost->row, layer->indexed ? index_row(model, options) : 0);
        }
    } else if (layer->indexed)
        cost->row = uma_plus(cost->row, index_row(model, options));
}

/* Recurrent states. llama.cpp keeps both parts in fp32; the others keep the convolution's last inputs in 16 bits and the state in the format
 * of mamba_ssm_dtype. transformers keeps one more input of the convolution than it needs. */
static uint64_t state_cost(const struct uma_model *model, const struct uma_model_layer *layer, const struct uma_kv_options *options) {
    uint32_t tp = options->tp;
    bool llama = is_llama(options);
    uint64_t state_bytes = llama || model->ssm_state_bytes == 0 ? 4 : model->ssm_state_bytes;
    uint64_t conv_bytes = llama || options->engine == UMA_ENGINE_UNKNOWN ? 4 : 2;
    uint64_t state = 0, channels = 0, kernel = 0;
    switch (layer->mixer) {
    case UMA_MIXER_GATED_DELTA:
    case UMA_MIXER_KDA: {
        uint64_t k_heads = per_rank(model->linear_key_heads, tp), v_heads = per_rank(model->linear_value_heads, tp);
        state = uma_times(v_heads, uma_times(model->linear_key_dim, model->linear_value_dim));
        channels = uma_plus(uma_times(2, uma_times(k_heads, model->linear_key_dim)), uma_times(v_heads, model->linear_value_dim));
        kernel = model->linear_conv;
        break;
    }
    case UMA_MIXER_MAMBA2:
        state = uma_times(per_rank(model->ssm_heads, tp), uma_times(model->ssm_head_dim, model->ssm_state));
        channels = uma_plus(per_rank(model->ssm_inner, tp), uma_times(2, uma_times(per_rank(model->ssm_groups, tp), model->ssm_state)));
        kernel = model->ssm_conv;
        break;
    case UMA_MIXER_MAMBA1:
        state = uma_times(per_rank(model->ssm_inner, tp), model->ssm_state);
        channels = per_rank(model->ssm_inner, tp);
        kernel = model->ssm_conv;
        break;
    case UMA_MIXER_LIGHTNING:
        state = uma_times(per_rank(layer->heads, tp), uma_times(layer->head_dim, layer->head_dim));
        break;
    case UMA_MIXER_NONE:
    case UMA_MIXER_ATTENTION:
    case UMA_MIXER_MLA:
    case UMA_MIXER_LINEAR:
        return 0;
    }
    uint64_t kept = options->engine == UMA_ENGINE_TRANSFORMERS ? kernel : uma_minus(kernel, 1);
    return uma_plus(uma_times(state, state_bytes), uma_times(uma_times(channels, kept), conv_bytes));
}

static struct cost layer_cost(const struct uma_model *model, uint32_t index, const struct uma_kv_options *options) {
    const struct uma_model_layer *layer = &model->layers[index];
    struct cost cost = { 0 };
    if (layer->mixer == UMA_MIXER_MLA)
        latent_cost(model, layer, options, &cost);
    else if (layer->mixer == UMA_MIXER_ATTENTION && !layer->shares_kv) {
        /* LitGPT (build_kv_cache in model.py) keeps the heads of the queries, unless there is one for all */
        bool repeated = options->engine == UMA_ENGINE_LITGPT && layer->kv_heads > 1;
        uint64_t heads = per_rank(repeated ? layer->heads : layer->kv_heads, options->tp);
        cost.row = uma_plus(uma_format_bytes(format_of(options->key_format), uma_times(heads, layer->head_dim)),
                            uma_format_bytes(format_of(options->value_format), uma_times(heads, layer->v_head_dim)));
        cost.window = options->full_window ? 0 : layer->window;
    } else
        cost.state = state_cost(model, layer, options);
    return cost;
}

/* Tokens that a window really holds. llama.cpp adds the micro batch and rounds up to its cells; vLLM keeps whole pages, and one more
 * because a window need not start at a page's edge (v1/kv_cache_interface.py, SlidingWindowSpec). */
static uint64_t window_tokens(const struct uma_kv_options *options, uint64_t window) {
    if (is_llama(options))
        return uma_round_up(uma_plus(window, options->ubatch ? options->ubatch : LLAMA_UBATCH), LLAMA_CELLS);
    if (options->engine == UMA_ENGINE_VLLM)
        return uma_plus(uma_round_up(window, VLLM_BLOCK), VLLM_BLOCK);
    return window;
}

static uint64_t context_tokens(const struct uma_kv_options *options) {
    uint64_t unit = is_llama(options)                       ? LLAMA_CELLS
                    : options->engine == UMA_ENGINE_VLLM    ? VLLM_BLOCK
                    : options->engine == UMA_ENGINE_TRT_LLM ? TRT_BLOCK
                                                            : 1;
    return uma_round_up(options->context, unit);
}

/*
 * While a step of a prompt is computed, vLLM's sliding layers hold its tokens beside the windows (SlidingWindowSpec: window - 1 +
 * max_num_batched_tokens, the context at most), and it refuses to start where one sequence does not fit so. All sequences share a step, so it
 * is counted once.
 */
static uint64_t step_bytes(const struct uma_kv_options *options, const struct cost *cost, uint64_t context, uint64_t kept) {
    if (options->engine != UMA_ENGINE_VLLM || options->batched_tokens == 0 || cost->window == 0)
        return 0;
    uint64_t most = MIN_OF(context, window_tokens(options, uma_plus(cost->window - 1, options->batched_tokens)));
    return uma_times(cost->row, uma_minus(most, kept));
}

/* vLLM's hybrid allocator (v1/core/kv_cache_utils.py): layers of each kind form groups of equal size, as large as the smallest kind (or the
 * largest, when that is less than half more: PR 36684; a quarter more before March 2026, PR 29303), filled up with layers that hold nothing;
 * attention pages grow until a recurrent state fits into one ("Setting attention block size ...", platforms/interface.py). */
struct kinds {
    uint64_t n[3], row[3]; /* full, sliding, recurrent; row: bytes per token, of state for recurrent */
    uint64_t window;       /* tokens that a sliding layer holds */
};

static uint64_t group_size(const struct kinds *kinds) {
    uint64_t least = 0, most = 0;
    for (unsigned i = 0; i < 3; i++) {
        if (kinds->n[i] == 0)
            continue;
        least = least == 0 ? kinds->n[i] : MIN_OF(least, kinds->n[i]);
        most = MAX_OF(most, kinds->n[i]);
    }
    return most * 2 < least * 3 ? most : least;
}

static uint64_t hybrid_padding(const struct kinds *kinds, uint64_t context) {
    unsigned present = (kinds->n[0] ? 1U : 0U) + (kinds->n[1] ? 1U : 0U) + (kinds->n[2] ? 1U : 0U);
    if (present < 2)
        return 0;
    uint64_t group = group_size(kinds), padding = 0;
    uint64_t idle_full = uma_round_up(kinds->n[0], group) - kinds->n[0], idle_state = uma_round_up(kinds->n[2], group) - kinds->n[2];
    if (kinds->n[2] > 0 && kinds->row[0] > 0) {
        uint64_t block = uma_round_up(uma_divide_up(kinds->row[2], kinds->row[0]), VLLM_BLOCK), page = uma_times(block, kinds->row[0]);
        uint64_t whole = uma_round_up(context, block);
        padding = uma_times(uma_times(kinds->n[0], kinds->row[0]), uma_minus(whole, context));
        padding = uma_plus(padding, uma_times(idle_full, uma_times(kinds->row[0], whole)));
        padding = uma_plus(padding, uma_times(kinds->n[2], uma_minus(page, kinds->row[2])));
        return uma_plus(padding, uma_times(idle_state, page));
    }
    uint64_t idle_sliding = uma_round_up(kinds->n[1], group) - kinds->n[1];
    padding = uma_times(idle_full, uma_times(kinds->row[0], context));
    return uma_plus(padding, uma_times(idle_sliding, uma_times(kinds->row[1], kinds->window)));
}

void uma_kv_cache(const struct uma_model *model, const struct uma_kv_options *options, struct uma_kv *ret_kv) {
    struct uma_kv kv = { 0 };
    struct kinds kinds = { 0 };
    uint64_t context = context_tokens(options), sequences = options->sequences ? options->sequences : 1;
    uint64_t step = 0;         /* once for all sequences */
    uint64_t extra_256ths = 0; /* of bytes a token, for entries that are not kept for every token */
    for (uint32_t i = 0; i < model->layer_count; i++) {
        struct cost cost = layer_cost(model, i, options);
        uint64_t kept = cost.window ? MIN_OF(context, window_tokens(options, cost.window)) : context;
        step = uma_plus(step, step_bytes(options, &cost, context, kept));
        unsigned kind = cost.state ? 2 : cost.window ? 1 : 0;
        kv.per_token = uma_plus(kv.per_token, cost.row);
        if (!cost.window)
            kv.growing = uma_plus(kv.growing, cost.row);
        kv.per_sequence = uma_plus(kv.per_sequence, cost.state);
        kv.sequence = uma_plus(kv.sequence, uma_plus(uma_times(cost.row, kept), cost.state));
        if (cost.extra_every) {
            kv.sequence = uma_plus(kv.sequence, uma_times(cost.extra_row, uma_divide_up(context, cost.extra_every)));
            extra_256ths = uma_plus(extra_256ths, uma_times(cost.extra_row, 256) / cost.extra_every);
        }
        if (cost.window)
            kinds.window = MAX_OF(kinds.window, kept);
        if (cost.row || cost.state) {
            kinds.n[kind]++;
            kinds.row[kind] = MAX_OF(kinds.row[kind], cost.state ? cost.state : cost.row);
        }
    }
    kv.per_token = uma_plus(kv.per_token, extra_256ths / 256);
    kv.growing = uma_plus(kv.growing, extra_256ths / 256);
    if (options->engine == UMA_ENGINE_VLLM && !model->details.o_lora_rank) {
        uint64_t padding = hybrid_padding(&kinds, context);
        kv.sequence = uma_plus(kv.sequence, padding);
        kv.padding = uma_times(padding, sequences);
    }
    kv.total = uma_plus(uma_times(kv.sequence, sequences), step);
    *ret_kv = kv;
}
