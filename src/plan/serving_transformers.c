/* SPDX-License-Identifier: MIT */
/*
 * serving_transformers.c - generate() of transformers and of what works like it: weights, a cache that grows with every token, and one
 * prefill of the whole prompt. There is no engine that plans memory: the peak is the larger of two moments.
 *
 * Checked on Qwen's published tables of transformers (qwen.readthedocs.io, "Speed Benchmark", v2.0, v2.5, v3); tests/accuracy runs them.
 */
#include "plan/serving.h"

#include "base/units.h"
#include "plan/loading.h"

#include <inttypes.h>
#include <math.h>

/* cuBLAS keeps a workspace per handle and stream: 32 MiB from compute capability 9.0 on, 8 MiB before (PyTorch, CUDABlas.cpp,
 * parseChosenWorkspaceSize). What is left over beside weights and cache in Qwen's tables: 33 to 48 MiB on H20, 20 to 90 MiB on A100. */
#define WORKSPACE (32 * UMA_MIB)
/* CUDA context and loaded kernels of a torch process on GB10: 741,326,848 bytes (NVML; vllm-project/vllm#55828). */
#define TORCH_CONTEXT UINT64_C(741326848)

static bool is_litgpt(const struct uma_serve *serve) {
    return serve->engine == UMA_ENGINE_LITGPT;
}

static enum uma_format linear_format(const struct uma_model *model, const struct uma_serve *serve) {
    return serve->weights != UMA_FORMAT_UNKNOWN ? serve->weights : model->class_format[UMA_CLASS_MLP];
}

/*
 * bitsandbytes replaces every linear layer of what it is given: transformers spares lm_head alone, so image towers become four bits, too;
 * LitGPT's generate scripts spare nothing (BitsandbytesPrecision of Lightning without ignore_modules).
 */
static uint64_t class_bytes(const struct uma_model *model, const struct uma_serve *serve, enum uma_class class_) {
    enum uma_format linear = linear_format(model, serve);
    bool on_load =
        model->basis != UMA_BASIS_TENSORS && (linear == UMA_FORMAT_NF4 || linear == UMA_FORMAT_NF4_DQ || linear == UMA_FORMAT_I8);
    if (on_load && class_ == UMA_CLASS_LM_HEAD && is_litgpt(serve)) /* there are two matrices, also of a tied model */
        return uma_format_bytes(linear, uma_times(model->vocab, model->hidden));
    return on_load && class_ == UMA_CLASS_VISION ? uma_format_bytes(linear, model->totals[class_].params)
                                                 : uma_serve_class_bytes(model, serve, class_);
}

static void add_weights(struct uma_estimate *e, const struct uma_model *model, const struct uma_serve *serve, uint64_t ranks) {
    uint64_t bytes = 0, ends = uma_plus(class_bytes(model, serve, UMA_CLASS_EMBEDDING), class_bytes(model, serve, UMA_CLASS_LM_HEAD));
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++)
        if (i != UMA_CLASS_MTP) /* transformers has no code for MTP layers: their keys are ignored on load */
            bytes = uma_plus(bytes, class_bytes(model, serve, (enum uma_class)i));
    uint64_t share = uma_divide_up(bytes, ranks);
    if (is_litgpt(serve) && ranks > 1) /* generate/sequentially.py: both ends on the first device; tp.py: on all */
        share = uma_plus(uma_divide_up(uma_minus(bytes, ends), ranks), ends);
    double span =
        fmax(uma_serve_weight_span(model, serve), 0.01); /* buffers beside parameters: rotary tables, masks, quantisers' indices */
    struct uma_plan_term *term =
        uma_estimate_add(e, UMA_TERM_WEIGHTS, share, span, span, "tensor headers, or the structure of the configuration", "weights",
                         "%" PRIu64 " B / %" PRIu64, bytes, ranks);
    if (serve->pp > 1 && !is_litgpt(serve)) /* the stages share the layers; embedding and lm_head are on one of them each */
        term->high = uma_plus(term->high, ends);
    enum uma_format linear = linear_format(model, serve);
    if (model->tied && (linear == UMA_FORMAT_FP8 || linear == UMA_FORMAT_FP8_BLOCK128)) {
        /* Qwen3-0.6B, 1.7B and 4B in FP8 take one embedding more than in bf16 and GPTQ; Qwen3-8B and 32B, not tied, do not. */
        uint64_t head = uma_divide_up(uma_times(2, uma_times(model->vocab, model->hidden)), ranks);
        uma_estimate_add(e, UMA_TERM_WEIGHTS, head, 1, 0, "Qwen3 speed benchmark: FP8 rows of tied models", "lm_head of its own",
                         "%" PRIu64 " vocab x %u hidden x 2 B: a tied FP8 checkpoint loads untied", model->vocab, model->hidden);
    }
}

/*
 * Bytes per prompt token of one decoder layer in flight, without autograd: the feed-forward holds gate, up and their product (6 B x ffn),
 * attention queries, keys, values and their rotated copies; around them residual, normed input and output, in 16 bits, and the norm's
 * fp32 copy (8 B x hidden). Fitted on the Qwen2.5 0.5B and 7B tables, checked on 1.5B, 3B, 14B, 32B and 72B.
 */
static uint64_t layer_bytes(const struct uma_model *model, const struct uma_widths *w) {
    uint64_t ffn = uma_times(6, w->ffn), attention = uma_times(4, uma_plus(w->q, w->kv));
    return uma_plus(MAX_OF(ffn, attention), uma_times(8, model->hidden));
}

/* transformers before 4.45 keeps cosines and sines of every layer to the model's full length, in 16 bits (modeling_qwen2.py at v4.38). */
static uint64_t rotary_cache(const struct uma_model *model) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].mixer == UMA_MIXER_ATTENTION)
            bytes = uma_plus(bytes, uma_times(4, uma_times(model->max_position, model->layers[i].head_dim)));
    return bytes;
}

/*
 * A four-bit matrix is unpacked to 16 bits before a large product (bitsandbytes matmul_4bit, AutoAWQ's GEMM, ExLlama's temp_dq). LitGPT's are:
 * quantised from fp16 whatever the model's type (Lightning, plugins/precision/bitsandbytes.py), so that the fp16 matrix is there beside its
 * copy in bf16; lm_head is one of them.
 */
static uint64_t dequantised(const struct uma_model *model, const struct uma_serve *serve, const struct uma_widths *w) {
    double bits = uma_format_bits(linear_format(model, serve));
    if (!(bits > 0 && bits < 6))
        return 0;
    uint64_t rows = is_litgpt(serve) ? MAX_OF(w->ffn, model->vocab) : w->ffn;
    return uma_times(is_litgpt(serve) ? 4 : 2, uma_times(rows, model->hidden));
}

/*
 * Which positions get logits: generate() asks for the last alone since 4.45 (PR 31292, first Llama and Mistral; num_logits_to_keep, since 4.49
 * logits_to_keep), before that all did and were converted to fp32.
 */
struct prefill {
    uint64_t tokens, chunk; /* of all sequences */
    uint64_t layer, scores, logits, hidden;
};

static void measure_prefill(const struct uma_model *model, const struct uma_serve *serve, const struct uma_widths *w, struct prefill *p) {
    p->tokens = uma_times(serve->prompt_tokens, serve->sequences);
    uint64_t per_sequence = MIN_OF(serve->prompt_tokens, serve->batched_tokens);
    p->chunk = uma_times(per_sequence, serve->sequences);
    p->layer = uma_times(p->chunk, layer_bytes(model, w));
    /* eager attention writes the scores of every head, in 16 bits and once more in fp32 for the softmax */
    p->scores = serve->flash_attention == UMA_NO ? uma_times(6 * w->heads, uma_times(p->chunk, serve->prompt_tokens)) : 0;
    uint64_t with_logits = serve->logits == UMA_LOGITS_LAST ? serve->sequences : p->chunk;
    uint64_t width = serve->logits == UMA_LOGITS_ALL ? 2 : 6;
    p->logits = uma_times(with_logits, uma_times(width, model->vocab));
    p->hidden =
        serve->logits == UMA_LOGITS_LAST ? 0 : uma_times(p->chunk, uma_times(4, model->hidden)); /* last hidden state and its norm */
}

static void add_prefill(struct uma_estimate *e, const struct uma_model *model, const struct uma_serve *serve, const struct prefill *p,
                        const struct uma_kv *kv, const struct uma_widths *w) {
    uint64_t layers = uma_plus(p->layer, p->scores), head = uma_plus(p->logits, p->hidden), peak = MAX_OF(layers, head);
    /* While the prompt is computed the cache has the prompt only: what is generated later has taken no memory yet. */
    uint64_t later = uma_times(uma_times(uma_minus(serve->context, serve->prompt_tokens), kv->growing), serve->sequences);
    uint64_t extra = uma_minus(peak, later);
    if (extra == 0) {
        uint64_t step = uma_times(serve->sequences, uma_times(6, model->vocab));
        uma_estimate_add(e, UMA_TERM_ACTIVATIONS, step, 0, 1, "one decoding step", "logits of a step",
                         "%" PRIu64 " sequences x %" PRIu64 " vocab x 6 B", serve->sequences, model->vocab);
        return;
    }
    double below = 1.0; /* published tables differ on whether the prefill is in them: Qwen3's (4.51) are without, Qwen2.5's (4.46) with */
    if (head > layers) {
        uma_estimate_add(e, UMA_TERM_ACTIVATIONS, extra, 0.1, 0.1, "transformers before 4.45, and model code without logits_to_keep",
                         "logits of the prompt",
                         "%" PRIu64 " tokens x %" PRIu64 " vocab x %d B + hidden states - cache not yet there %" PRIu64, p->chunk,
                         model->vocab, serve->logits == UMA_LOGITS_ALL ? 2 : 6, later);
        return;
    }
    uma_estimate_add(e, UMA_TERM_ACTIVATIONS, extra, below, 0.15, "fitted on Qwen2.5 0.5B and 7B, checked on 1.5B to 72B",
                     "prefill of the prompt",
                     "%" PRIu64 " tokens x (6 B x %" PRIu64 " ffn + 8 B x %u hidden) + scores %" PRIu64 " - cache not yet there %" PRIu64,
                     p->chunk, w->ffn, model->hidden, p->scores, later);
}

static void advise(struct uma_estimate *e, const struct uma_serve *serve, const struct prefill *p) {
    uint64_t new_tokens = uma_minus(serve->context, serve->prompt_tokens);
    if (is_litgpt(serve)) { /* arguments of its generate scripts */
        if (new_tokens > 0)
            uma_estimate_flag(e, "--max_new_tokens %" PRIu64, new_tokens);
        return;
    }
    if (new_tokens > 0) /* of generate(): the cache grows with every token, nothing else bounds it */
        uma_estimate_flag(e, "max_new_tokens=%" PRIu64, new_tokens);
    if (serve->batched_tokens < serve->prompt_tokens) /* of generate() */
        uma_estimate_flag(e, "prefill_chunk_size=%" PRIu64, serve->batched_tokens);
    else if (p->chunk > 4096)
        uma_estimate_warn(e, "prefill_chunk_size=2048 in generate() makes activations of %" PRIu64 " prompt tokens shrink to those of 2048",
                          p->chunk);
    /* of from_pretrained(); low_cpu_mem_usage, which asked for the same, is ignored since 2025 (transformers PR 36963, PR 38792) */
    uma_estimate_flag(e, "device_map=\"cuda\"");
    uma_estimate_warn(e, "device_map in from_pretrained() takes tensors to the device one by one; a model made on the CPU and moved with "
                         ".to(\"cuda\") is in the one pool twice");
    if (serve->logits != UMA_LOGITS_LAST)
        uma_estimate_warn(e, "this transformers computes logits of every prompt token; 4.45 and later only of the last");
}

int uma_plan_serve_transformers(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *ret_estimate,
                                struct uma_error *err) {
    (void)err;
    struct uma_estimate e = { 0 };
    uint64_t ranks = uma_times(serve->tp, serve->pp); /* device_map spreads layers, tp_plan their matrices: the share is the same */
    struct uma_widths w;
    uma_serve_widths(model, &w);
    add_weights(&e, model, serve, ranks);

    struct uma_kv kv;
    uma_serve_kv(model, serve, &kv);
    uint64_t cache = uma_divide_up(kv.total, serve->pp);
    uma_estimate_add(&e, UMA_TERM_KV_CACHE, cache, 0.01, 0.02, "transformers DynamicCache", "KV cache",
                     "%" PRIu64 " tokens x %" PRIu64 " B x %" PRIu64 " sequences / %u", serve->context, kv.per_token, serve->sequences,
                     serve->pp);
    if (serve->tuple_cache)
        /* The old tuple is held by generate() until the step that made the new one returns: all layers twice. Qwen-7B-Chat, Qwen-72B-Chat
         * (QwenLM/Qwen README, model code of transformers 4.32): 13 of 15 figures within 7 %, without it within 38 %. */
        uma_estimate_add(&e, UMA_TERM_KV_CACHE, cache, 0.25, 0.5,
                         "QwenLM/Qwen README, KV cache quantization; torch.cat in modeling_qwen.py", "cache of the step before",
                         "a tuple cache is there twice within a step");
    struct prefill p;
    measure_prefill(model, serve, &w, &p);
    add_prefill(&e, model, serve, &p, &kv, &w);
    if (serve->logits == UMA_LOGITS_ALL_FP32)
        uma_estimate_add(&e, UMA_TERM_OVERHEAD, uma_divide_up(rotary_cache(model), ranks), 1, 1, "modeling_qwen2.py at v4.38",
                         "cosines and sines per layer", "%" PRIu64 " positions x head_dim x 4 B x layers", model->max_position);
    uint64_t scratch = dequantised(model, serve, &w);
    double scratch_span = is_litgpt(serve) ? 0.1 : 1; /* which kernels unpack differs but for LitGPT, which has one */
    if (scratch > 0)
        uma_estimate_add(&e, UMA_TERM_OVERHEAD, scratch, scratch_span, scratch_span,
                         "bitsandbytes, AutoAWQ and ExLlama unpack before a large product", "one matrix in 16 bits",
                         "%u hidden x %" PRIu64 " x %d B", model->hidden, is_litgpt(serve) ? MAX_OF(w.ffn, model->vocab) : w.ffn,
                         is_litgpt(serve) ? 4 : 2);
    /* Its high end: what products of quantised and batched steps take for a moment, which grows with the model. */
    uma_estimate_add(&e, UMA_TERM_OVERHEAD, WORKSPACE, 0.75, 2, "PyTorch CUDABlas.cpp; Qwen's tables leave 20 to 90 MiB",
                     "cuBLAS workspace", "32 MiB")
        ->high = uma_plus(3 * WORKSPACE, uma_scale(e.terms[0].bytes, 0.04));
    uma_estimate_sum(&e);

    /* Every step's torch.cat makes a layer's cache anew, one token longer: blocks of every size stay in the caching allocator. Qwen-7B-Chat's
     * published figures are up to 1.1 x what is alive at once. */
    uint64_t holes = uma_plus(uma_scale(e.groups[UMA_TERM_KV_CACHE], 0.25), uma_scale(e.groups[UMA_TERM_ACTIVATIONS], 0.1));
    e.reserved = uma_plus(e.total, holes);
    e.context = TORCH_CONTEXT;
    e.host = UMA_PYTHON_HOST;
    e.device = uma_plus(uma_plus(e.reserved, e.context), e.host);
    e.device_high = uma_plus(uma_plus(uma_plus(e.high, uma_times(2, holes)), e.context), e.host);
    uma_load_into(model, serve, &e);
    advise(&e, serve, &p);
    *ret_estimate = e;
    return 0;
}
