/* SPDX-License-Identifier: MIT */
/* serving.c - what an engine does when nothing is asked for, what cannot be asked for, and which estimator answers. */
#include "plan/serving.h"

#include "base/error.h"
#include "base/units.h"

#include <inttypes.h>
#include <math.h>

/* Beyond these an answer has no meaning, and sums of products of them stay far from the end of 64 bits. */
enum { RANKS_MAX = 4096, SEQUENCES_MAX = 1 << 20 };
#define TOKENS_MAX (UINT64_C(1) << 32)

static enum uma_truth settle(enum uma_truth given, enum uma_truth usual) {
    return given == UMA_MAYBE ? usual : given;
}

/*
 * The context of one sequence when none is asked for.
 * - vLLM (--max-model-len), SGLang (--context-length), TRT-LLM (--max_seq_len): the model's own, max_position_embeddings.
 * - llama.cpp: the model's own (tools/server/README.md: `-c` is 0, "loaded from model"), which --fit takes back to 4096 at least where free
 *   memory says so (PR 16653).
 * - Ollama: what the model's file sets (PARAMETER num_ctx, which goes before the server's own default: server/routes.go, modelOptions),
 *   OLLAMA_CONTEXT_LENGTH, else by memory since v0.15.5 (server/routes.go): 4096 below 23 GiB of all GPUs together, 32768 below 47,
 *   262144 from there on; 4096 for all since v0.6.7, 2048 before. Never more than the model was trained for (server/sched.go,
 *   effectiveContext). One pool of 100 GiB and more is of the last class.
 * - transformers: what is generated; generate() without max_new_tokens makes 20, so a plan needs a number: 2048 beside the prompt.
 */
static uint64_t default_context(const struct uma_model *model, const struct uma_serve *serve) {
    enum { OLLAMA_LARGE = 262144, OLLAMA_MIDDLE = 32768, OLD = 4096, GENERATED = 2048 };
    switch (serve->engine) {
    case UMA_ENGINE_OLLAMA: {
        uint64_t wanted = model->default_context                            ? model->default_context
                          : serve->pool == 0 || serve->pool >= 47 * UMA_GIB ? OLLAMA_LARGE
                          : serve->pool >= 23 * UMA_GIB                     ? OLLAMA_MIDDLE
                                                                            : OLD;
        return model->max_position > 0 ? MIN_OF(model->max_position, wanted) : wanted;
    }
    case UMA_ENGINE_TRANSFORMERS:
    case UMA_ENGINE_LITGPT:
        return model->max_position > 0 && model->max_position >= serve->prompt_tokens
                   ? MIN_OF(model->max_position, uma_plus(serve->prompt_tokens, GENERATED))
                   : uma_plus(serve->prompt_tokens, GENERATED);
    default:
        return model->max_position > 0 ? model->max_position : OLD;
    }
}

/*
 * Tokens of one forward pass.
 * - vLLM --max-num-batched-tokens: 8192 for a server on a device of 70 GiB and more that is no A100, 2048 on others
 *   (vllm/engine/arg_utils.py, get_batch_defaults); one pool of a Spark counts as the former.
 * - SGLang --chunked-prefill-size (server_args.py, _handle_gpu_memory_settings): 2048 below 35 GiB, 4096 below 60, 8192 below 160, 16384
 *   above. Without a pool the class of a Spark is taken; SGLang itself takes 4096 where it cannot ask.
 * - TRT-LLM max_num_tokens: 8192 (tensorrt_llm/builder.py, BuildConfig, which trtllm-serve takes its default from).
 * - llama.cpp -b 2048, in pieces of -ub 512 (common/common.h); Ollama passes its num_batch, 512, as both (api/types.go,
 *   llm/llama_server.go: appendBatchArgs).
 * - transformers: the whole prompt at once.
 */
static uint64_t default_batched_tokens(const struct uma_serve *serve) {
    switch (serve->engine) {
    case UMA_ENGINE_VLLM:
        return serve->pool > 0 && serve->pool < 70 * UMA_GIB ? 2048 : 8192;
    case UMA_ENGINE_SGLANG:
        if (serve->pool == 0)
            return 8192;
        return serve->pool < 35 * UMA_GIB ? 2048 : serve->pool < 60 * UMA_GIB ? 4096 : serve->pool < 160 * UMA_GIB ? 8192 : 16384;
    case UMA_ENGINE_TRT_LLM:
        return 8192;
    case UMA_ENGINE_TRANSFORMERS:
    case UMA_ENGINE_LITGPT:
        return serve->prompt_tokens;
    default:
        return serve->batch;
    }
}

static bool asks_for_fp8_cache(const struct uma_model *model, enum uma_engine engine) {
    bool reads_it = engine == UMA_ENGINE_VLLM || engine == UMA_ENGINE_SGLANG || engine == UMA_ENGINE_TRT_LLM;
    return reads_it && model->kv_format == UMA_FORMAT_FP8;
}

/*
 * Nodes without ranks to fill them: the engines that run over several of them divide the model. vLLM, SGLang and TensorRT-LLM divide every
 * matrix where the attention heads come out even, as they insist on (vllm/config/model.py, verify_with_parallel_config), else the layers;
 * llama.cpp divides layers over its RPC hosts (tools/rpc/README.md). A rank without a node takes one: a machine of one pool has one GPU.
 */
static void divide_over_nodes(const struct uma_model *model, struct uma_serve *serve) {
    if (serve->tp == 0)
        serve->tp = 1;
    if (serve->pp == 0)
        serve->pp = 1;
    uint64_t ranks = uma_times(serve->tp, serve->pp);
    if (serve->nodes == 0)
        serve->nodes = (uint32_t)MIN_OF(ranks, (uint64_t)UINT32_MAX);
    if (ranks >= serve->nodes || serve->nodes % ranks != 0)
        return;
    uint32_t more = serve->nodes / (uint32_t)ranks;
    struct uma_widths w;
    uma_serve_widths(model, &w);
    switch (serve->engine) {
    case UMA_ENGINE_LLAMA_CPP:
        serve->pp *= more;
        break;
    case UMA_ENGINE_VLLM:
    case UMA_ENGINE_SGLANG:
    case UMA_ENGINE_TRT_LLM:
        if (serve->tp == 1 && w.heads % more == 0)
            serve->tp = more;
        else
            serve->pp *= more;
        break;
    default: /* one machine's */
        break;
    }
}

void uma_serve_defaults(const struct uma_model *model, struct uma_serve *serve) {
    bool ggml = uma_serve_reads_gguf(serve->engine);
    if (serve->sequences == 0)
        serve->sequences = 1; /* llama-server's 4 slots share one cache of `-c` (tools/server/server.cpp: `-np` auto is 4, kv_unified);
                               * Ollama's OLLAMA_NUM_PARALLEL is 1 since v0.10.0 (envconfig/config.go, PR 11330) */
    if (serve->context == 0)
        serve->context = serve->assumed_context = default_context(model, serve);
    if (serve->prompt_tokens == 0 || serve->prompt_tokens > serve->context)
        serve->prompt_tokens = serve->context;
    divide_over_nodes(model, serve);
    if (serve->batch == 0)
        serve->batch = serve->engine == UMA_ENGINE_OLLAMA ? 512 : 2048;
    if (serve->ubatch == 0)
        serve->ubatch = MIN_OF(serve->batch, 512);
    serve->ubatch = MIN_OF(serve->ubatch, serve->batch); /* llama-context.cpp: n_ubatch = min(n_batch, n_ubatch) */
    if (serve->batched_tokens == 0)
        serve->batched_tokens = default_batched_tokens(serve);
    /* f16 in llama.cpp (common.h, cache_type_k), the model's own 16 bits elsewhere; Ollama takes OLLAMA_KV_CACHE_TYPE, f16 without it. A
     * checkpoint that was quantised with scales for an FP8 cache gets one (vllm/model_executor/layers/attention/attention.py,
     * kv_cache_scheme; kv_cache_quant_algo of hf_quant_config.json in TensorRT-LLM and SGLang). */
    if (serve->key_format == UMA_FORMAT_UNKNOWN)
        serve->key_format = ggml ? UMA_FORMAT_F16 : asks_for_fp8_cache(model, serve->engine) ? UMA_FORMAT_FP8 : UMA_FORMAT_BF16;
    if (serve->value_format == UMA_FORMAT_UNKNOWN)
        serve->value_format = serve->key_format;
    /* `-fa auto` is the default (common/common.h) and turns it on where the device has kernels: CUDA has. Ollama passes the same
     * (llm/llama_server.go, appendFlashAttentionArgs). */
    serve->flash_attention = settle(serve->flash_attention, UMA_YES);
    /* vLLM, SGLang and TRT-LLM capture graphs unless told not to; llama.cpp captures the token graph of one batch. */
    serve->cuda_graphs =
        settle(serve->cuda_graphs, serve->engine == UMA_ENGINE_TRANSFORMERS || serve->engine == UMA_ENGINE_LITGPT ? UMA_NO : UMA_YES);
    serve->compile = settle(serve->compile, serve->engine == UMA_ENGINE_VLLM ? UMA_YES : UMA_NO); /* vLLM V1 compiles at -O2 by default */
}

uint64_t uma_serve_class_bytes(const struct uma_model *model, const struct uma_serve *serve, enum uma_class class_) {
    const struct uma_tensor_total *total = &model->totals[class_];
    if (serve->weights == UMA_FORMAT_UNKNOWN || serve->weights == model->class_format[class_])
        return total->bytes;
    double bits = uma_format_bits(serve->weights);
    if (bits >= 16)
        return uma_format_bytes(serve->weights, total->params);
    if (class_ != UMA_CLASS_ATTENTION && class_ != UMA_CLASS_MIXER && class_ != UMA_CLASS_MLP && class_ != UMA_CLASS_EXPERTS)
        return total->bytes;
    /* a checkpoint that is quantised already is loaded as it is */
    return uma_format_bits(model->class_format[class_]) >= 16 ? uma_format_bytes(serve->weights, total->params) : total->bytes;
}

bool uma_serve_is_converted(const struct uma_model *model, const struct uma_serve *serve) {
    return uma_serve_reads_gguf(serve->engine) && serve->weights != UMA_FORMAT_UNKNOWN && model->file_count > 0 && !model->gguf;
}

double uma_serve_weight_span(const struct uma_model *model, const struct uma_serve *serve) {
    if (model->basis == UMA_BASIS_GUESS)
        return 0.05; /* a parameter count is given in three digits, and the shape around it is a typical one */
    if (serve->weights != UMA_FORMAT_UNKNOWN && uma_format_bits(serve->weights) < 16)
        return 0.02; /* which tensors a quantiser leaves alone differs; GPTQ's g_idx and an AWQ file of the same model: 0.1 to 1.5 % */
    return model->basis == UMA_BASIS_TENSORS ? 0 : 0.005;
}

void uma_serve_kv(const struct uma_model *model, const struct uma_serve *serve, struct uma_kv *ret_kv) {
    uma_kv_cache(model,
                 &(struct uma_kv_options){ .engine = serve->engine,
                                           .key_format = serve->key_format,
                                           .value_format = serve->value_format,
                                           .context = serve->context,
                                           .sequences = serve->sequences,
                                           .tp = serve->tp,
                                           .ubatch = serve->ubatch,
                                           .full_window = serve->full_window,
                                           .mla_expanded = serve->mla_expanded,
                                           .mla_transposed = serve->mla_transposed,
                                           .batched_tokens = serve->batched_tokens },
                 ret_kv);
}

void uma_serve_widths(const struct uma_model *model, struct uma_widths *ret_widths) {
    struct uma_widths w = { 0 };
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct uma_model_layer *layer = &model->layers[i];
        if (layer->ffn == UMA_FFN_DENSE || layer->ffn == UMA_FFN_MOE)
            w.ffn = MAX_OF(w.ffn, uma_plus(layer->ffn_size, layer->shared_ffn_size));
        if (layer->ffn == UMA_FFN_MOE) {
            w.active = MAX_OF(w.active, layer->experts_per_token);
            w.experts = MAX_OF(w.experts, uma_times(layer->experts_per_token, layer->ffn_size));
        }
        if (layer->mixer == UMA_MIXER_GATED_DELTA || layer->mixer == UMA_MIXER_KDA)
            w.q = MAX_OF(w.q, uma_times(model->linear_value_heads, model->linear_value_dim));
        if (layer->mixer != UMA_MIXER_ATTENTION && layer->mixer != UMA_MIXER_MLA)
            continue;
        w.mla |= layer->mixer == UMA_MIXER_MLA;
        w.window |= layer->window > 0;
        w.full |= layer->window == 0;
        w.heads = MAX_OF(w.heads, layer->heads);
        w.q = MAX_OF(w.q, uma_times(layer->heads, layer->head_dim));
        w.kv = MAX_OF(w.kv, uma_times(layer->kv_heads, uma_plus(layer->head_dim, layer->v_head_dim)));
    }
    *ret_widths = w;
}

/* ---- the dispatch ------------------------------------------------------------------------------------------- */

static int check(const struct uma_model *model, const struct uma_serve *serve, struct uma_error *err) {
    if (serve->context > TOKENS_MAX)
        return uma_error_text(err, EINVAL, "a context of %" PRIu64 " tokens; at most %" PRIu64, serve->context, TOKENS_MAX);
    if (serve->sequences > SEQUENCES_MAX)
        return uma_error_text(err, EINVAL, "%" PRIu64 " sequences at once; at most %d", serve->sequences, SEQUENCES_MAX);
    if (serve->batched_tokens > TOKENS_MAX || serve->prompt_tokens > TOKENS_MAX)
        return uma_error_text(err, EINVAL, "more than %" PRIu64 " tokens in one pass", TOKENS_MAX);
    if (serve->tp > RANKS_MAX || serve->pp > RANKS_MAX || serve->nodes > MAX_OF((uint64_t)RANKS_MAX, uma_times(serve->tp, serve->pp)))
        return uma_error_text(err, EINVAL, "more than %d ranks or nodes", RANKS_MAX);
    if (serve->pp > 1 && serve->pp > model->layer_count)
        return uma_error_text(err, EINVAL, "%u pipeline stages for %u layers", serve->pp, model->layer_count);
    if (!isfinite(serve->fraction) || serve->fraction < 0 || serve->fraction > 1)
        return uma_error_text(err, EINVAL, "a fraction of memory is between 0 and 1");
    return 0;
}

/* What the answer stands on and its user may not know. */
static void warn_of_assumptions(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate) {
    uint64_t ranks = uma_times(serve->tp, serve->pp);
    if (ranks > 1)
        uma_estimate_warn(estimate,
                          "divided over %" PRIu64
                          " ranks (tensor parallel %u, pipeline stages %u): each rank is taken to have a pool of its "
                          "own, and this is what one rank takes",
                          ranks, serve->tp, serve->pp);
    else if (serve->nodes > 1)
        uma_estimate_warn(estimate, "this engine does not divide a model over nodes: each of the %u has to hold all of it", serve->nodes);
    if (serve->assumed_context > 0 && serve->context == serve->assumed_context)
        uma_estimate_warn(estimate, "no context was given: %" PRIu64 " tokens a sequence are assumed", serve->context);
    if (model->max_position > 0 && serve->context > model->max_position)
        uma_estimate_warn(estimate,
                          "a context of %" PRIu64 " tokens is longer than the %" PRIu64
                          " tokens the model states; engines refuse it unless "
                          "told otherwise",
                          serve->context, model->max_position);
    if (uma_serve_is_converted(model, serve))
        uma_estimate_warn(estimate, "the model's files must be converted to GGUF first; sizes are those of %s",
                          uma_format_name(serve->weights));
    else if (uma_serve_reads_gguf(serve->engine) && model->file_count > 0 && !model->gguf)
        uma_estimate_warn(
            estimate, "the model's files must be converted to GGUF first; sizes are those of the files as they are, --dtype plans those of "
                      "a GGUF type");
}

int uma_plan_serve(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *ret_estimate, struct uma_error *err) {
    static uma_plan_serve_fn *const engines[UMA_ENGINE_COUNT] = {
        [UMA_ENGINE_LLAMA_CPP] = uma_plan_serve_llama_cpp,
        [UMA_ENGINE_OLLAMA] = uma_plan_serve_llama_cpp,
        [UMA_ENGINE_TRANSFORMERS] = uma_plan_serve_transformers,
        [UMA_ENGINE_LITGPT] = uma_plan_serve_transformers,
        [UMA_ENGINE_VLLM] = uma_plan_serve_vllm,
        [UMA_ENGINE_SGLANG] = uma_plan_serve_sglang,
        [UMA_ENGINE_TRT_LLM] = uma_plan_serve_trt_llm,
    };
    if (serve->engine <= UMA_ENGINE_UNKNOWN || serve->engine >= UMA_ENGINE_COUNT || !engines[serve->engine])
        return uma_error_text(err, EINVAL, "no such engine; one of vllm, sglang, llama.cpp, ollama, trt-llm, transformers, litgpt");
    struct uma_serve filled = *serve;
    uma_serve_defaults(model, &filled);
    int r = check(model, &filled, err);
    if (r < 0)
        return r;
    r = engines[filled.engine](model, &filled, ret_estimate, err);
    if (r >= 0)
        warn_of_assumptions(model, &filled, ret_estimate);
    return r;
}
