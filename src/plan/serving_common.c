/* SPDX-License-Identifier: MIT */
#include "plan/serving_common.h"

#include "plan/loading.h"
#include "plan/serving.h"

#include <math.h>

static const char weights_source[] = "tensors of the checkpoint, split as vllm/model_executor/layers/linear.py does";

static uint32_t at_least_one(uint32_t n) {
    return n ? n : 1;
}

/* What a class is held in: a checkpoint in 16 or 32 bits may be quantised on load; what is quantised already stays as it is. */
static enum uma_format format_of(const struct uma_model *model, const struct uma_serve *serve, enum uma_class c) {
    enum uma_format stored = model->class_format[c];
    return serve->weights == UMA_FORMAT_UNKNOWN || !uma_serve_is_wide(stored) ? stored : serve->weights;
}

/*
 * The part of the attention matrices that a rank holds. Column- and row-parallel linears are divided; K and V by whole heads, of which each
 * rank keeps at least one (QKVParallelLinear replicates them where kv_heads < tp); the down projections of MLA and the indexer are
 * ReplicatedLinear: their outputs feed every head.
 */
static double attention_share(const struct uma_model *model, uint32_t tp) {
    double all = 0, kept = 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
        size_t n = uma_model_linears(model, i, linears);
        uint32_t kv_heads = at_least_one(model->layers[i].kv_heads);
        for (size_t k = 0; k < n; k++) {
            if (linears[k].class_ != UMA_CLASS_ATTENTION)
                continue;
            double size = (double)linears[k].in * (double)linears[k].out * linears[k].copies, part = size / tp;
            if (linears[k].role == UMA_LINEAR_K || linears[k].role == UMA_LINEAR_V)
                part = size * (double)uma_divide_up(kv_heads, tp) / kv_heads;
            else if (linears[k].role == UMA_LINEAR_Q_A || linears[k].role == UMA_LINEAR_KV_A || linears[k].role == UMA_LINEAR_INDEX)
                part = size;
            all += size;
            kept += part;
        }
    }
    return all > 0 ? kept / all : 1.0 / tp;
}

/* Layers of the fullest pipeline stage over all layers: what does not divide goes one each to some of the stages, in every engine. */
static double stage_share(const struct uma_model *model, uint32_t pp) {
    return model->layer_count ? (double)uma_divide_up(model->layer_count, pp) / model->layer_count : 1.0 / pp;
}

/*
 * With a pipeline the first stage has the embedding and the last the head: what the fullest stage has of the two, in bytes of layers less
 * than a middle stage's. vLLM gives layers that do not divide to the middle stages as long as there are enough of those
 * (vllm/distributed/utils.py, get_pp_indices), so an end stage has one layer less. TensorRT-LLM gives them to the first stages
 * (tensorrt_llm/mapping.py, pp_layers; PR 4399), the embedding's among them. SGLang of 2026 gives them to the last (srt/distributed/utils.py),
 * but its one published figure is nearer to a stage of layers alone (issue 8337: 13.73 GB; 13.9 of layers, 14.1 with the head), which is
 * what is taken.
 */
static uint64_t stage_ends(const struct uma_model *model, const struct uma_serve *serve, uint64_t embedding, uint64_t head,
                           uint64_t layers_bytes) {
    uint64_t larger = embedding > head ? embedding : head;
    uint32_t pp = serve->pp, rest = model->layer_count % pp;
    if (serve->engine == UMA_ENGINE_TRT_LLM || rest == 0 || rest + 2 > pp)
        return larger;
    return uma_minus(larger, layers_bytes / uma_divide_up(model->layer_count, pp));
}

/*
 * MXFP4 experts are padded to what the kernels take: Marlin wants the rank's share of the intermediate size in multiples of 128 and the
 * hidden size in multiples of 256 (vllm/model_executor/layers/fused_moe/oracle/mxfp4.py, mxfp4_round_up_hidden_size_and_intermediate_size;
 * quantization/mxfp4.py before). That vLLM picks Marlin on a GB10 is not confirmed; the TensorRT-LLM kernels' 256 and 256 come to more,
 * FlashInfer's CUTLASS kernels' 128 and 128 to less.
 */
static double mxfp4_growth(const struct uma_model *model, uint32_t tp) {
    double stored = 0, padded = 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct uma_model_layer *layer = &model->layers[i];
        if (layer->ffn != UMA_FFN_MOE || layer->ffn_size == 0)
            continue;
        uint64_t width = layer->expert_input ? layer->expert_input : model->hidden, part = uma_divide_up(layer->ffn_size, tp);
        stored += (double)part * (double)width * layer->experts;
        padded += (double)uma_round_up(part, 128) * (double)uma_round_up(width, 256) * layer->experts;
    }
    return stored > 0 ? padded / stored - 1 : 0;
}

/* kv_b_proj is folded into q and o at decode: W_UK_T and W_UV are a transposed and a permuted view of it, of a quantised one views of its
 * dequantised copy (process_weights_after_loading of vllm/model_executor/layers/attention/mla_attention.py, in older releases of
 * v1/attention/backends/mla/common.py). A backend that makes them contiguous holds a copy of a 16-bit matrix as well; that CUDA's
 * do not is not confirmed. */
static uint64_t absorbed_bytes(const struct uma_model *model, const struct uma_serve *serve, uint32_t tp) {
    uint64_t bytes = 0;
    if (uma_serve_is_wide(format_of(model, serve, UMA_CLASS_ATTENTION)))
        return 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct uma_model_layer *layer = &model->layers[i];
        if (layer->mixer != UMA_MIXER_MLA)
            continue;
        uint64_t per_head = uma_times(model->kv_lora_rank, uma_plus(model->qk_nope_dim, layer->v_head_dim));
        bytes = uma_plus(bytes, uma_times(2, uma_times(per_head, uma_divide_up(layer->heads, tp))));
    }
    return bytes;
}

void uma_serve_rank_weights(const struct uma_model *model, const struct uma_serve *serve, struct uma_rank_weights *ret_weights) {
    uint32_t tp = at_least_one(serve->tp), pp = at_least_one(serve->pp);
    double stage = stage_share(model, pp);
    struct uma_rank_weights w = { 0 };
    for (unsigned c = 0; c < UMA_CLASS_COUNT; c++) {
        uint64_t bytes = uma_serve_class_bytes(model, serve, (enum uma_class)c);
        double share = stage / tp;
        switch ((enum uma_class)c) {
        case UMA_CLASS_NORM:
        case UMA_CLASS_ROUTER: /* ReplicatedLinear */
            share = stage;
            break;
        case UMA_CLASS_ATTENTION:
            share = stage * attention_share(model, tp);
            break;
        case UMA_CLASS_EMBEDDING:
        case UMA_CLASS_LM_HEAD:
        case UMA_CLASS_VISION: /* all on one stage */
            share = 1.0 / tp;
            break;
        case UMA_CLASS_MTP: /* loaded by those who speculate with them; every engine skips them else */
            if (!serve->mtp || serve->no_mtp) {
                w.unloaded = bytes;
                share = 0;
            } else
                share = 1.0 / tp;
            break;
        default:
            break;
        }
        w.classes[c] = uma_scale(bytes, share);
    }
    if (pp > 1) {
        uint64_t layers = 0;
        for (unsigned c = UMA_CLASS_NORM; c <= UMA_CLASS_ROUTER; c++)
            layers = uma_plus(layers, w.classes[c]);
        /* a tied head is a copy of the embedding on the last stage */
        w.classes[UMA_CLASS_EMBEDDING] = stage_ends(model, serve, w.classes[UMA_CLASS_EMBEDDING], w.classes[UMA_CLASS_LM_HEAD], layers);
        w.classes[UMA_CLASS_LM_HEAD] = 0;
    }
    if (model->vocab && serve->engine != UMA_ENGINE_TRT_LLM) { /* DEFAULT_VOCAB_PADDING_SIZE of vocab_parallel_embedding.py is 64 */
        uint64_t both = uma_plus(w.classes[UMA_CLASS_EMBEDDING], w.classes[UMA_CLASS_LM_HEAD]);
        w.vocab_padding = uma_scale(both, (double)(uma_round_up(model->vocab, 64) - model->vocab) / (double)model->vocab);
    }
    if (serve->engine == UMA_ENGINE_VLLM && format_of(model, serve, UMA_CLASS_EXPERTS) == UMA_FORMAT_MXFP4)
        w.kernel_padding = uma_scale(w.classes[UMA_CLASS_EXPERTS], mxfp4_growth(model, tp));
    w.absorbed = uma_scale(absorbed_bytes(model, serve, tp), stage);
    for (unsigned c = 0; c < UMA_CLASS_COUNT; c++)
        w.total = uma_plus(w.total, w.classes[c]);
    w.total = uma_plus(w.total, uma_plus(w.vocab_padding, uma_plus(w.kernel_padding, w.absorbed)));
    *ret_weights = w;
}

uint64_t uma_serve_add_weights(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate) {
    static const struct {
        const char *what;
        enum uma_class classes[4];
        unsigned count;
    } parts[] = {
        { "embedding and output head", { UMA_CLASS_EMBEDDING, UMA_CLASS_LM_HEAD }, 2 },
        { "attention and mixers", { UMA_CLASS_ATTENTION, UMA_CLASS_MIXER }, 2 },
        { "feed-forward", { UMA_CLASS_MLP, UMA_CLASS_ROUTER }, 2 },
        { "routed experts", { UMA_CLASS_EXPERTS }, 1 },
        { "vision and audio towers", { UMA_CLASS_VISION }, 1 },
        { "MTP layers", { UMA_CLASS_MTP }, 1 },
        { "norms and the rest", { UMA_CLASS_NORM, UMA_CLASS_OTHER }, 2 },
    };
    struct uma_rank_weights w;
    uma_serve_rank_weights(model, serve, &w);
    double span = uma_serve_weight_span(model, serve);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        uint64_t bytes = 0;
        for (unsigned k = 0; k < parts[i].count; k++)
            bytes = uma_plus(bytes, w.classes[parts[i].classes[k]]);
        if (bytes)
            uma_estimate_add(estimate, UMA_TERM_WEIGHTS, bytes, span, span, weights_source, parts[i].what, "share of a rank, tp %u, pp %u",
                             at_least_one(serve->tp), at_least_one(serve->pp));
    }
    if (w.vocab_padding)
        uma_estimate_add(estimate, UMA_TERM_WEIGHTS, w.vocab_padding, 0, 0, "vllm vocab_parallel_embedding.py: multiples of 64",
                         "padding of the vocabulary", "%llu rows to a multiple of 64", (unsigned long long)model->vocab);
    if (w.kernel_padding)
        uma_estimate_add(estimate, UMA_TERM_WEIGHTS, w.kernel_padding, 1, 0, "vllm mxfp4.py: Marlin takes n % 256 == 0, k % 128 == 0",
                         "padding of MXFP4 experts", "hidden %u to a multiple of 256, expert size of a rank to one of 128", model->hidden);
    if (w.absorbed)
        uma_estimate_add(estimate, UMA_TERM_WEIGHTS, w.absorbed, 0, 0, "vllm mla_attention.py, process_weights_after_loading",
                         "MLA projections kept in bf16", "latent %u x (%u + v) x heads of a rank x 2 B per layer", model->kv_lora_rank,
                         model->qk_nope_dim);
    uint64_t extra = uma_plus(serve->draft_bytes, serve->projector_bytes);
    if (extra)
        uma_estimate_add(estimate, UMA_TERM_WEIGHTS, extra, 0, 0.02, "as given", "drafter and projector", "given sizes");
    if (w.unloaded)
        uma_estimate_warn(estimate, "MTP layers (%.2f GiB) are not loaded: the engine takes them only when it speculates with them",
                          (double)w.unloaded / 0x1p30);
    return uma_plus(w.total, extra);
}

/*
 * Activations of an inference step die with their layer, so its peak is the widest layer, not a sum over layers. In bf16, per token: the
 * residual stream and the layer's input (2 x 2 h) and beside them the larger of
 *   attention: q, k, v and the kernel's output               2 (q + k + v + out) / tp
 *   SwiGLU: gate and up in one, and their product             2 (2 f + f) / tp
 *   routed experts: that and the output for each copy of it   k x (2 (2 f + f) / tp + 2 h), with the shared experts and the router's logits
 * Sources: vllm/model_executor/models/llama.py and fused_moe.py (intermediate_cache1..3). AIConfigurator's coefficients for TensorRT-LLM,
 * 2 x tokens x h x (11, 6.5, 5) at tp 1, 2, 4, are 22 h, 13 h, 10 h; this gives 25 h, 14.5 h, 9.25 h where f = 3.5 h.
 */
static uint64_t attention_token_bytes(const struct uma_model *model, const struct uma_model_layer *layer, uint32_t tp) {
    uint64_t q = uma_times(layer->heads, layer->head_dim), out = uma_times(layer->heads, layer->v_head_dim);
    uint64_t kv = uma_times(layer->kv_heads, uma_plus(layer->head_dim, layer->v_head_dim));
    switch (layer->mixer) {
    case UMA_MIXER_NONE:
    case UMA_MIXER_LINEAR:
        return 0;
    case UMA_MIXER_ATTENTION:
        break;
    case UMA_MIXER_MLA: /* prefill multiplies the latent out to all heads */
        kv = uma_plus(q, out);
        break;
    case UMA_MIXER_MAMBA1:
    case UMA_MIXER_MAMBA2: /* x, z and the output */
        q = kv = out = model->ssm_inner;
        break;
    default: /* linear attention: q and k, v and the gate, the output */
        q = uma_times(2 * (uint64_t)model->linear_key_heads, model->linear_key_dim);
        out = uma_times(model->linear_value_heads, model->linear_value_dim);
        kv = uma_times(2, out);
    }
    return uma_divide_up(uma_times(2, uma_plus(q, uma_plus(kv, out))), tp);
}

static uint64_t ffn_token_bytes(const struct uma_model *model, const struct uma_model_layer *layer, uint32_t tp) {
    uint64_t per_column = layer->ffn_gated ? 6 : 4;
    if (layer->ffn != UMA_FFN_MOE)
        return uma_divide_up(uma_times(per_column, layer->ffn_size), tp);
    uint64_t width = layer->expert_input ? layer->expert_input : model->hidden;
    uint64_t copy = uma_plus(uma_divide_up(uma_times(per_column, layer->ffn_size), tp), uma_times(2, width));
    uint64_t shared = uma_divide_up(uma_times(per_column, layer->shared_ffn_size), tp);
    return uma_plus(uma_times(layer->experts_per_token, copy), uma_plus(shared, uma_times(4, layer->experts)));
}

uint64_t uma_serve_token_bytes(const struct uma_model *model, uint32_t tp) {
    uint64_t widest = 0;
    tp = at_least_one(tp);
    for (uint32_t i = 0; i < model->layer_count; i++) {
        uint64_t attention = attention_token_bytes(model, &model->layers[i], tp), ffn = ffn_token_bytes(model, &model->layers[i], tp);
        uint64_t larger = attention > ffn ? attention : ffn;
        widest = larger > widest ? larger : widest;
    }
    return uma_plus(uma_times(4, model->hidden), widest);
}

/* vLLM's default block, SGLang's page, TensorRT-LLM's tokens_per_block. */
static uint64_t page_tokens(enum uma_engine engine) {
    return engine == UMA_ENGINE_VLLM ? 16 : engine == UMA_ENGINE_TRT_LLM ? 32 : 1;
}

uint64_t uma_serve_kv_bytes(const struct uma_model *model, const struct uma_serve *serve, uint64_t context, uint64_t sequences) {
    struct uma_kv_options options = {
        .engine = serve->engine,
        .key_format = serve->key_format,
        .value_format = serve->value_format,
        .context = uma_round_up(context, page_tokens(serve->engine)),
        .sequences = sequences ? sequences : 1,
        .tp = at_least_one(serve->tp),
        .full_window = serve->full_window,
        .batched_tokens = serve->batched_tokens,
    };
    struct uma_kv kv;
    uma_kv_cache(model, &options, &kv);
    return uma_scale(kv.total, stage_share(model, at_least_one(serve->pp)));
}

/* The part of the cache that does not depend on the length, of serve->sequences. */
static uint64_t state_bytes(const struct uma_model *model, const struct uma_serve *serve) {
    struct uma_kv kv;
    uma_serve_kv(model, serve, &kv);
    return uma_scale(uma_times(kv.per_sequence, serve->sequences), stage_share(model, at_least_one(serve->pp)));
}

/* AIConfigurator's systems (h100_sxm.yaml, gb300.yaml ...: nccl_mem): 342 MiB with two ranks, 392 MiB with four or eight. */
uint64_t uma_serve_nccl_bytes(const struct uma_serve *serve) {
    uint64_t ranks = uma_times(at_least_one(serve->tp), at_least_one(serve->pp));
    return ranks <= 1 ? 0 : ranks == 2 ? UINT64_C(342) << 20 : UINT64_C(392) << 20;
}

uint64_t uma_serve_budget_kv(const struct uma_serve_budget *budget, double fraction) {
    return uma_minus(uma_scale(budget->of, fraction), budget->fixed);
}

/*
 * vLLM: 0.92 (vllm/config/cache.py, seen at v0.25 and v0.30; 0.9 in 2025). TensorRT-LLM: 0.9 (commands/serve.py; _util.py,
 * _get_free_gpu_memory_fraction). SGLang (server_args.py, _handle_gpu_memory_settings): what is left after a reserve of 512 MiB, 1.5 MiB a
 * token of a prefill chunk and of 2048 at least, 2 MiB for each sequence of the largest captured batch and 1 GiB for each eight ranks, of
 * 10 GiB at least on a device of more than 60 GiB; 0.88 where the device is not known. It takes more off for images, speculation and data
 * parallel attention, which is not counted here.
 */
double uma_serve_default_fraction(const struct uma_serve *serve) {
    const double mib = 0x1p20;
    switch (serve->engine) {
    case UMA_ENGINE_VLLM:
        return 0.92;
    case UMA_ENGINE_TRT_LLM:
        return 0.9;
    case UMA_ENGINE_SGLANG: {
        if (serve->pool == 0)
            return 0.88;
        double pool = (double)serve->pool / mib, ranks = (double)at_least_one(serve->tp) * at_least_one(serve->pp);
        double chunk = serve->batched_tokens > 2048 ? (double)serve->batched_tokens : 2048;
        double reserve = 512 + 1.5 * chunk + ranks / 8 * 1024 + 2.0 * uma_serve_graph_batch(serve);
        if (pool > 60 * 1024 && reserve < 10 * 1024)
            reserve = 10 * 1024;
        return pool > reserve ? (pool - reserve) / pool : 0;
    }
    default:
        return 1;
    }
}

double uma_serve_fraction(uint64_t needed, uint64_t of) {
    if (of == 0)
        return 0;
    double r = ceil((double)needed / (double)of * 100) / 100;
    return r < 1 ? r : 1;
}

/* Written from whole numbers: an option has a '.' in every locale. */
void uma_serve_flag_fraction(const struct uma_serve *serve, const char *option, uint64_t needed, uint64_t of,
                             struct uma_estimate *estimate) {
    const double most = 0.95;
    bool given = serve->fraction > 0;
    double fraction = given ? serve->fraction : uma_serve_fraction(needed, of);
    if (!given && (of == 0 || needed > of || fraction > most + 1e-9))
        return;
    unsigned parts = (unsigned)lround(fraction * 10000), digits = 4;
    for (; digits > 2 && parts % 10 == 0; digits--)
        parts /= 10;
    unsigned one = digits == 4 ? 10000 : digits == 3 ? 1000 : 100;
    uma_estimate_flag(estimate, "%s %u.%0*u", option, parts / one, (int)digits, parts % one);
}

/* The largest captured batch by the size of the device and the tensor-parallel ranks (server_args.py, _handle_gpu_memory_settings). */
uint32_t uma_serve_graph_batch(const struct uma_serve *serve) {
    const uint64_t gib = UINT64_C(1) << 30;
    bool many = serve->tp >= 4;
    if (serve->pool && serve->pool < 20 * gib)
        return 8;
    if (serve->pool && serve->pool < 35 * gib)
        return many ? 80 : 24;
    if (serve->pool && serve->pool < 60 * gib)
        return many ? 160 : 32;
    return many || serve->pool >= 160 * gib ? 512 : 256;
}

static bool fills(const struct uma_serve *serve, const struct uma_serve_budget *budget) {
    return serve->fraction > 0 && budget->of > 0;
}

void uma_serve_add_kv(const struct uma_model *model, const struct uma_serve *serve, const struct uma_serve_budget *budget, uint64_t needed,
                      struct uma_estimate *estimate) {
    static const char source[] = "layers, heads and formats of the KV cache, in whole pages";
    if (!fills(serve, budget)) {
        uint64_t state = MIN_OF(needed, state_bytes(model, serve));
        if (needed > state)
            uma_estimate_add(estimate, UMA_TERM_KV_CACHE, needed - state, 0.005, 0.02, source, "KV cache", "%llu sequences x %llu tokens",
                             (unsigned long long)serve->sequences, (unsigned long long)serve->context);
        if (state)
            uma_estimate_add(estimate, UMA_TERM_KV_CACHE, state, 0.005, 0.02, "states of linear layers", "recurrent state",
                             "%llu sequences, whatever their length", (unsigned long long)serve->sequences);
    } else {
        uint64_t kv = uma_serve_budget_kv(budget, serve->fraction), one = uma_serve_kv_bytes(model, serve, serve->context, 1);
        if (kv) { /* it makes up for what the terms before it turn out to be; TensorRT-LLM's for a fraction of that */
            double part = budget->fixed ? 1 : serve->fraction;
            struct uma_plan_term *term = uma_estimate_add(estimate, UMA_TERM_KV_CACHE, kv, 0, 0, source,
                                                          "KV cache: what the fraction leaves", "%.3f x %.2f GiB - %.2f GiB",
                                                          serve->fraction, (double)budget->of / 0x1p30, (double)budget->fixed / 0x1p30);
            term->low = uma_minus(kv, uma_scale(uma_minus(estimate->high, estimate->total), part));
            term->high = uma_plus(kv, uma_scale(uma_minus(estimate->total, estimate->low), part));
        }
        if (kv < one)
            uma_estimate_warn(
                estimate,
                "a fraction of %.2f leaves %.2f GiB for KV cache and one sequence of %llu tokens takes %.2f: the engine will not "
                "start; raise the fraction or shorten the context",
                serve->fraction, (double)kv / 0x1p30, (unsigned long long)serve->context, (double)one / 0x1p30);
        else if (kv < needed)
            uma_estimate_warn(estimate,
                              "a fraction of %.2f leaves %.2f GiB for KV cache, %llu sequences of %llu tokens take %.2f: some will wait",
                              serve->fraction, (double)kv / 0x1p30, (unsigned long long)serve->sequences,
                              (unsigned long long)serve->context, (double)needed / 0x1p30);
    }
    uma_estimate_sum(estimate);
}

void uma_serve_sum_within(const struct uma_serve *serve, const struct uma_serve_budget *budget, uint32_t terms_within,
                          struct uma_estimate *estimate) {
    uma_estimate_sum(estimate);
    if (fills(serve, budget))
        uma_estimate_span(estimate, terms_within);
}

void uma_serve_finish(const struct uma_model *model, const struct uma_serve *serve, uint64_t host, uint64_t host_high,
                      struct uma_estimate *estimate) {
    estimate->reserved = uma_plus(estimate->reserved, estimate->total);
    estimate->context = UMA_SERVE_CONTEXT_BYTES;
    estimate->host = host;
    uint64_t outside = uma_plus(estimate->context, host);
    estimate->device = uma_plus(estimate->reserved, outside);
    uint64_t high = estimate->high > estimate->reserved ? estimate->high : estimate->reserved;
    estimate->device_high = uma_plus(high, uma_plus(estimate->context, host_high));
    uma_load_into(model, serve, estimate);
}
