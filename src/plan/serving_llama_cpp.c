/* SPDX-License-Identifier: MIT */
/*
 * serving_llama_cpp.c - llama-server, llama-cli, ik_llama.cpp and Ollama, which runs the same graphs: everything is allocated before the
 * first token and does not grow after it, so the estimate is a sum of buffers that the program prints itself.
 */
#include "plan/serving_llama_cpp.h"

#include "base/units.h"
#include "plan/loading.h"

#include <inttypes.h>
#include <math.h>

/*
 * CUDA context and the modules of the backend. llama.cpp prints them as "unaccounted": 451 to 456 MiB on an RTX 4090, 749 MiB on an RTX PRO
 * 6000 (ggml-org/llama.cpp#15860); 741,326,848 bytes after the first CUDA call of a process on GB10 (vllm-project/vllm#55828).
 */
#define CONTEXT (707 * UMA_MIB)
#define CONTEXT_HIGH (800 * UMA_MIB)

static const char *const stage_names[UMA_LLAMA_STAGE_COUNT] = {
    [UMA_LLAMA_OUTPUT] = "logits of a ubatch", [UMA_LLAMA_ATTENTION] = "attention of a ubatch",  [UMA_LLAMA_FFN] = "feed-forward",
    [UMA_LLAMA_EXPERTS] = "chosen experts",    [UMA_LLAMA_LATENT] = "K and V out of the latent",
};

/*
 * What a file of this type takes of the type's own bits. llama-quantize keeps embeddings, output, and some of attention and of the down
 * projections at more bits (llama-quant.cpp); "Q4_K" alone is understood as its medium recipe, as llama.cpp understands `Q4_K`.
 */
static double recipe(enum uma_format format) {
    static const struct {
        enum uma_format format;
        const char *file_type;
    } recipes[] = { { UMA_FORMAT_Q3_K, "Q3_K_M" }, { UMA_FORMAT_Q4_K, "Q4_K_M" }, { UMA_FORMAT_Q5_K, "Q5_K_M" } };
    const char *name = uma_format_name(format);
    for (size_t i = 0; i < ELEMENTS(recipes); i++)
        if (recipes[i].format == format)
            name = recipes[i].file_type;
    double own = uma_format_bits(format), file = uma_file_type_bits(name);
    return own > 0 && file > own ? file / own : 1;
}

static bool is_asked_for(const struct uma_model *model, const struct uma_serve *serve) {
    return serve->weights != UMA_FORMAT_UNKNOWN && uma_format_bits(serve->weights) < 16 &&
           (model->basis != UMA_BASIS_TENSORS || uma_serve_is_converted(model, serve));
}

/* Of a type that ggml quantises: the whole file is, embeddings and output matrix too; only vectors and the router stay in fp32. */
static uint64_t gguf_bytes(const struct uma_model *model, const struct uma_serve *serve, enum uma_class class_) {
    const struct uma_tensor_total *total = &model->totals[class_];
    if (!is_asked_for(model, serve))
        return uma_serve_class_bytes(model, serve, class_);
    if (class_ == UMA_CLASS_NORM || class_ == UMA_CLASS_ROUTER)
        return uma_times(4, total->params);
    return uma_scale(uma_format_bytes(serve->weights, total->params), recipe(serve->weights));
}

static bool uses_mmap(const struct uma_serve *serve) {
    enum uma_loader loader = serve->loader == UMA_LOADER_DEFAULT ? uma_load_default(serve->engine) : serve->loader;
    return loader == UMA_LOADER_MMAP;
}

static void add_weights(struct uma_estimate *e, const struct uma_model *model, const struct uma_serve *serve) {
    uint64_t bytes = 0, mtp = gguf_bytes(model, serve, UMA_CLASS_MTP), tower = gguf_bytes(model, serve, UMA_CLASS_VISION);
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++)
        if (i != UMA_CLASS_MTP && i != UMA_CLASS_VISION)
            bytes = uma_plus(bytes, gguf_bytes(model, serve, (enum uma_class)i));
    if (model->basis == UMA_BASIS_TENSORS || serve->engine == UMA_ENGINE_OLLAMA)
        bytes = uma_plus(bytes, tower); /* in the files at hand, or loaded with the model whether or not images come */
    else if (tower > 0 && serve->projector_bytes == 0)
        uma_estimate_warn(e, "without the image tower, a file of its own (mmproj) of some %.2f GiB: --projector adds it",
                          (double)tower / 0x1p30);
    if (!serve->no_mtp)
        bytes = uma_plus(bytes, mtp);
    uint64_t ranks = uma_times(serve->tp, serve->pp);
    double span = uma_serve_weight_span(model, serve);
    enum uma_format most = serve->weights != UMA_FORMAT_UNKNOWN         ? serve->weights
                           : model->totals[UMA_CLASS_EXPERTS].bytes > 0 ? model->class_format[UMA_CLASS_EXPERTS]
                                                                        : model->class_format[UMA_CLASS_MLP];
    if ((model->basis != UMA_BASIS_TENSORS || is_asked_for(model, serve)) && most != UMA_FORMAT_UNKNOWN && uma_format_bits(most) < 8)
        span = fmax(span, 0.12); /* files that carry a type's name differ by what else is in them (DeepSeek and Qwen3 files: up to 15 %) */
    uma_estimate_add(e, UMA_TERM_WEIGHTS, uma_divide_up(bytes, ranks), span, span, "GGUF tensor table", "weights",
                     "%" PRIu64 " B / %" PRIu64 ", token embedding in the host's buffer counted once", bytes, ranks);
    if (serve->projector_bytes > 0)
        uma_estimate_add(e, UMA_TERM_WEIGHTS, serve->projector_bytes, 0, 0.1, "mmproj file", "projector", "its tensors");
    if (serve->draft_bytes > 0)
        uma_estimate_add(e, UMA_TERM_WEIGHTS, serve->draft_bytes, 0, 0.1, "draft model's file", "draft model", "weights and cache");
    /* A tied GGUF has one tensor for both ends: the token embedding is looked up on the host, the output matrix is a second copy on the
     * device (llama-model.cpp, TENSOR_DUPLICATED: llama-model-loader.cpp makes it again unless both are in one buffer type). Mapped, the
     * host's copy is page cache; read, it is memory. */
    uint64_t embedding = gguf_bytes(model, serve, UMA_CLASS_EMBEDDING);
    if (model->tied && !uses_mmap(serve) && embedding > 0)
        uma_estimate_add(e, UMA_TERM_OVERHEAD, embedding, 1, 0, "llama-model.cpp: TENSOR_DUPLICATED", "second copy of the embedding",
                         "tied, and read instead of mapped: %" PRIu64 " B", embedding);
}

static void add_buffers(struct uma_estimate *e, const struct uma_model *model, const struct uma_serve *serve,
                        const struct uma_llama_buffers *b) {
    /* Exact for dense and expert models that are wholly on one device (logged buffers agree to 0.1 %); the allocator's gaps and the linear
     * mixers' chunks are not in the stages. */
    double below = b->largest == UMA_LLAMA_OUTPUT ? 0.05 : 0.25;
    double above = b->largest == UMA_LLAMA_OUTPUT ? 0.2 : 0.5;
    uma_estimate_add(e, UMA_TERM_COMPUTE_BUFFERS, b->device, below, above, "llama-context.cpp graph_reserve, ggml-alloc.c",
                     "compute buffer, device",
                     "largest stage: %s; ubatch %" PRIu64 ", vocab %" PRIu64 ", hidden %u, masks %" PRIu64 ", copied %" PRIu64,
                     stage_names[b->largest], b->ubatch, model->vocab, model->hidden, b->masks, b->copied_layer);
    uma_estimate_add(e, UMA_TERM_OVERHEAD, b->host, 0.1, 0.3, "llama-graph.cpp: inputs of the graph", "compute buffer, host",
                     "mask and embeddings of %" PRIu64 " tokens in fp32", b->ubatch);
    uma_estimate_add(e, UMA_TERM_OVERHEAD, b->output, 0.1, 0.3, "llama-context.cpp output_reserve", "output buffer, host",
                     "logits of %" PRIu64 " sequences", serve->sequences);
    if (b->dequantised > 0)
        uma_estimate_add(e, UMA_TERM_OVERHEAD, b->dequantised, 1, 0.1, "ggml-cuda/fattn-common.cuh",
                         "fp16 copy of a layer's quantised cache", "%" PRIu64 " tokens x K and V of one layer x 2 B",
                         uma_times(serve->context, serve->sequences));
}

static void advise_llama(struct uma_estimate *e, const struct uma_model *model, const struct uma_serve *serve) {
    uma_estimate_flag(e, "-c %" PRIu64, uma_times(serve->context, serve->sequences)); /* all slots share it */
    if (serve->sequences > 1)
        uma_estimate_flag(e, "-np %" PRIu64, serve->sequences);
    /* `-ngl auto` with --fit is the default and takes layers off the device where free memory is short; any number above the layers is all. */
    uma_estimate_flag(e, "-ngl %" PRId64, serve->gpu_layers < 0 ? INT64_C(999) : serve->gpu_layers);
    if (serve->batch != 2048)
        uma_estimate_flag(e, "-b %u", serve->batch);
    if (serve->ubatch != MIN_OF(serve->batch, 512u))
        uma_estimate_flag(e, "-ub %u", serve->ubatch);
    if (serve->key_format != UMA_FORMAT_F16)
        uma_estimate_flag(e, "--cache-type-k %s", uma_format_name(serve->key_format));
    if (serve->value_format != UMA_FORMAT_F16)
        uma_estimate_flag(e, "--cache-type-v %s", uma_format_name(serve->value_format));
    /* a quantised V cache needs it on; it is on by default where the device can */
    if (serve->flash_attention == UMA_NO || uma_format_bits(serve->value_format) < 16)
        uma_estimate_flag(e, "-fa %s", serve->flash_attention == UMA_NO ? "off" : "on");
    if (serve->full_window)
        uma_estimate_flag(e, "--swa-full");
    if (serve->loader == UMA_LOADER_DIRECT)
        uma_estimate_flag(e, "--load-mode dio");
    else if (serve->loader == UMA_LOADER_MMAP)
        uma_estimate_flag(e, "--load-mode mmap");
    else if (serve->loader != UMA_LOADER_DEFAULT)
        uma_estimate_flag(e, "--load-mode none");
    /* --load-mode came with PR 20834 and --no-mmap went with PR 28334, both in 2026; ik_llama.cpp has --no-mmap alone */
    if (e->load.page_cache > 0)
        uma_estimate_warn(e, "--load-mode dio reads past the page cache, which is of the same pool; --no-mmap where that is not known");
    if (serve->flash_attention == UMA_NO)
        uma_estimate_warn(e, "without flash attention the scores of the whole context are kept, and V cannot be quantised: -fa on");
    if (model->mtp_layers > 0 && !serve->no_mtp)
        uma_estimate_warn(e, "the file's %u MTP layers are loaded whether or not they are used", model->mtp_layers);
}

/* All of the server's environment but num_batch and num_gpu, which are options of a request or of a model's file. */
static void advise_ollama(struct uma_estimate *e, const struct uma_serve *serve) {
    uma_estimate_flag(e, "OLLAMA_CONTEXT_LENGTH=%" PRIu64, serve->context);
    uma_estimate_flag(e, "OLLAMA_NUM_PARALLEL=%" PRIu64, serve->sequences); /* the cache is context x this */
    if (serve->key_format != UMA_FORMAT_F16)
        uma_estimate_flag(e, "OLLAMA_KV_CACHE_TYPE=%s", uma_format_name(serve->key_format));
    if (serve->flash_attention == UMA_NO || uma_format_bits(serve->key_format) < 16)
        uma_estimate_flag(e, "OLLAMA_FLASH_ATTENTION=%d", serve->flash_attention != UMA_NO);
    uma_estimate_flag(e, "OLLAMA_MAX_LOADED_MODELS=1"); /* by default 3 stay loaded, each for OLLAMA_KEEP_ALIVE (5 minutes) */
    if (serve->batch != 512)
        uma_estimate_warn(e, "a batch of %u is asked for by num_batch, an option of the request or of the Modelfile", serve->batch);
    uma_estimate_warn(e, "`ollama ps` shows what was predicted at the start, not what is used: 29 GB against 23 GiB (ollama/ollama#6160)");
}

/* Ollama's llama-server inherits its environment and gets no flag for this (llm/llama_server.go; ollama issue 18264: 8.3 GiB in a day). */
static void warn_of_prompt_cache(struct uma_estimate *e, enum uma_engine engine) {
    uma_estimate_warn(e,
                      "llama-server keeps caches of earlier prompts in host memory, up to 8 GiB that one pool has to find and that are not "
                      "in this estimate: %s turns it off (llama.cpp PR 16391)",
                      engine == UMA_ENGINE_OLLAMA ? "LLAMA_ARG_CACHE_RAM=0 in Ollama's environment" : "--cache-ram 0");
}

int uma_plan_serve_llama_cpp(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *ret_estimate,
                             struct uma_error *err) {
    (void)err;
    struct uma_estimate e = { 0 };
    add_weights(&e, model, serve);
    struct uma_kv kv;
    uma_serve_kv(model, serve, &kv);
    uint64_t state = uma_times(kv.per_sequence, serve->sequences), cells = uma_minus(kv.total, state);
    if (cells > 0)
        uma_estimate_add(&e, UMA_TERM_KV_CACHE, uma_divide_up(cells, serve->pp), 0.002, 0.005, "llama-kv-cache.cpp", "KV cache",
                         "%" PRIu64 " tokens x %" PRIu64 " B, x %" PRIu64 " sequences, %s/%s", serve->context, kv.per_token,
                         serve->sequences, uma_format_name(serve->key_format), uma_format_name(serve->value_format));
    if (state > 0)
        uma_estimate_add(&e, UMA_TERM_KV_CACHE, uma_divide_up(state, serve->pp), 0.002, 0.005, "llama-memory-recurrent.cpp",
                         "recurrent state", "%" PRIu64 " B x %" PRIu64 " sequences, whatever their length", kv.per_sequence,
                         serve->sequences);
    struct uma_llama_buffers b;
    uma_llama_buffers(model, serve, &b);
    add_buffers(&e, model, serve, &b);
    uma_estimate_sum(&e);
    e.reserved = e.total; /* buffers of their size, no caching allocator between */
    e.context = CONTEXT;
    e.host = 0; /* its host buffers are terms; the process itself is file pages */
    e.device = uma_plus(e.reserved, e.context);
    e.device_high = uma_plus(e.high, CONTEXT_HIGH);
    uma_load_into(model, serve, &e);
    if (serve->engine == UMA_ENGINE_OLLAMA)
        advise_ollama(&e, serve);
    else
        advise_llama(&e, model, serve);
    warn_of_prompt_cache(&e, serve->engine);
    *ret_estimate = e;
    return 0;
}
