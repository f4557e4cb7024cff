/* SPDX-License-Identifier: MIT */
#include "plan/loading.h"

#include "plan/names.h"
#include "plan/serving.h"

/*
 * What an engine does when nothing else is asked for, on a GPU that shares the pool (CUDA calls a GB10 integrated: llama.cpp issue 24933).
 * - vLLM maps (config/load.py: safetensors_load_strategy None is "memory-mapped (lazy) loading"), and so do transformers and SGLang, whose
 *   safetensors opens a file mapped (safetensors PR 760: `Backend::Mmap` is the default).
 * - TensorRT-LLM maps as well (checkpoints/hf/weight_loader.py, safetensors' load_file), after it has read all files once into the page cache
 *   where these are less than 0.9 of what is available.
 * - llama.cpp's `--load-mode auto` does not map for an integrated GPU since July 2026 (PR 26081) but reads tensors through four
 *   pinned buffers of 1 MiB; before, and on other GPUs, it maps. It has no way to read a file whole.
 * - Ollama passes `--load-mode dio` for an integrated CUDA GPU since v0.32.6 (llm/llama_server.go, appendLoadModeArgs).
 */
enum uma_loader uma_load_default(enum uma_engine engine) {
    if (engine == UMA_ENGINE_LLAMA_CPP)
        return UMA_LOADER_STREAMED;
    return engine == UMA_ENGINE_OLLAMA ? UMA_LOADER_DIRECT : UMA_LOADER_MMAP;
}

static uint64_t file_bytes(const struct uma_model *model) {
    return model->file_bytes ? model->file_bytes : uma_model_bytes(model);
}

static uint64_t largest_file(const struct uma_model *model) {
    if (model->largest_file)
        return model->largest_file;
    uint64_t bytes = file_bytes(model);
    return bytes < UMA_LOAD_SHARD_BYTES ? bytes : UMA_LOAD_SHARD_BYTES;
}

/* Of one class when no file says it: the embedding is one tensor; a routed expert's matrices are separate tensors in most checkpoints, and no
 * dense matrix is larger than hidden x ffn. */
uint64_t uma_load_largest_tensor(const struct uma_model *model) {
    if (model->largest_tensor)
        return model->largest_tensor;
    uint64_t largest = model->totals[UMA_CLASS_EMBEDDING].bytes;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        enum uma_class of = model->layers[i].ffn == UMA_FFN_MOE ? UMA_CLASS_EXPERTS : UMA_CLASS_MLP;
        uint64_t bytes = uma_format_bytes(model->class_format[of], uma_times(model->hidden, model->layers[i].ffn_size));
        if (bytes > largest)
            largest = bytes;
    }
    uint64_t all = file_bytes(model);
    return largest < all ? largest : all;
}

/* llama.cpp uploads through four pinned buffers, of 1 MiB, or of 64 MiB where it reads with O_DIRECT (src/llama-model-loader.cpp,
 * load_all_data). */
static const uint64_t llama_buffered_staging = UINT64_C(4) << 20, llama_direct_staging = UINT64_C(256) << 20;
/* A loader that reads with O_DIRECT keeps a pool of pinned buffers: InstantTensor's cost 4.43 GiB of KV cache beside the default loader
 * (MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks issue 204: 12.38..12.51 against 16.93..18.13 GiB). */
static const uint64_t direct_pool = UINT64_C(4757) << 20;

/* Anonymous memory beside the weights, which reclaim cannot take back. */
static uint64_t staging_bytes(const struct uma_model *model, enum uma_engine engine, enum uma_loader loader) {
    bool llama = uma_serve_reads_gguf(engine);
    uint64_t files = file_bytes(model);
    switch (loader) {
    case UMA_LOADER_EAGER:
        /* vLLM's --safetensors-load-strategy eager reads a shard whole (config/load.py); SGLang's own loaders: not confirmed */
        if (engine == UMA_ENGINE_VLLM || engine == UMA_ENGINE_SGLANG)
            return largest_file(model);
        return files; /* a state dict in host memory, then .to("cuda"): the whole model twice (ComfyUI PR 13609, Automodel issue 3532) */
    case UMA_LOADER_STREAMED:
        if (llama) /* --load-mode none */
            return MIN_OF(llama_buffered_staging, files);
        return uma_load_largest_tensor(model); /* safetensors PR 760 takes a tensor through one pinned buffer */
    case UMA_LOADER_DIRECT:
        return llama ? MIN_OF(llama_direct_staging, files) : MIN_OF(direct_pool, files);
    default: /* pages of the mapping are copied to the device as they are */
        return 0;
    }
}

void uma_plan_load(const struct uma_model *model, enum uma_engine engine, enum uma_loader loader, uint64_t resident,
                   double read_bytes_per_second, struct uma_load *ret_load) {
    if ((unsigned)loader >= UMA_LOADER_COUNT || loader == UMA_LOADER_DEFAULT)
        loader = uma_load_default(engine);
    if (loader == UMA_LOADER_EAGER && uma_serve_reads_gguf(engine))
        loader = UMA_LOADER_STREAMED; /* what it does unless it maps or reads directly */
    struct uma_load load = { .loader = uma_loader_names[loader], .staging = staging_bytes(model, engine, loader) };
    load.peak = uma_plus(resident, load.staging);
    load.page_cache = loader == UMA_LOADER_DIRECT ? 0 : file_bytes(model);
    load.needs_free = uma_plus(load.peak, load.page_cache);
    if (read_bytes_per_second > 0) {
        uint64_t unread = uma_minus(file_bytes(model), loader == UMA_LOADER_DIRECT ? 0 : model->file_cached);
        load.seconds = (struct uma_f64){ .validity = UMA_KNOWN, .value = (double)unread / read_bytes_per_second };
    }
    *ret_load = load;
}

/* Weights of the linears as stored: what a quantiser turns into something else. */
static uint64_t linear_bytes(const struct uma_model *model) {
    uint64_t bytes = 0;
    for (unsigned c = UMA_CLASS_ATTENTION; c <= UMA_CLASS_EXPERTS; c++)
        bytes = uma_plus(bytes, model->totals[c].bytes);
    return bytes;
}

/*
 * What an engine holds twice for a while:
 * - quantising on load (vLLM and SGLang --quantization fp8, bitsandbytes): the 16-bit layer beside its quantised one, layer by layer where the
 *   loader streams; releases that quantise after loading have the whole 16-bit model first (sglang issue 8337 kept both).
 * - Marlin repacking of 4-bit weights: a layer and its repacked copy (process_weights_after_loading goes layer by layer).
 */
static uint64_t growth_bytes(const struct uma_model *model, const struct uma_serve *serve, bool stored_so) {
    uint32_t ranks = (serve->tp ? serve->tp : 1), layers = model->layer_count ? model->layer_count : 1;
    uint64_t stored = linear_bytes(model) / ranks;
    if (serve->engine != UMA_ENGINE_VLLM && serve->engine != UMA_ENGINE_SGLANG)
        return 0;
    bool made = serve->weights != UMA_FORMAT_UNKNOWN && !uma_serve_is_wide(serve->weights) &&
                uma_serve_is_wide(model->class_format[UMA_CLASS_ATTENTION]);
    if (made && stored_so) /* repacked, but not made out of anything larger */
        return uma_format_bits(serve->weights) < 6 ? uma_scale(stored, uma_format_bits(serve->weights) / 16) / layers : 0;
    if (made)
        return uma_minus(stored, uma_scale(stored, uma_format_bits(serve->weights) / 16)); /* all of it still in 16 bits */
    bool four_bits = false;
    for (unsigned c = UMA_CLASS_ATTENTION; c <= UMA_CLASS_EXPERTS; c++)
        four_bits |=
            model->totals[c].bytes > 0 && !uma_serve_is_wide(model->class_format[c]) && uma_format_bits(model->class_format[c]) < 6;
    return four_bits ? stored / layers : 0;
}

/* The files are not those at hand but a checkpoint of which this rank reads so many bytes; its tensors keep their proportions. */
static void store_as(struct uma_model *model, uint64_t weights) {
    uint64_t all = uma_model_bytes(model), tensor = uma_load_largest_tensor(model);
    model->largest_tensor = all > weights ? uma_scale(tensor, (double)weights / (double)all) : MIN_OF(tensor, weights);
    model->file_bytes = weights;
    model->largest_file = model->file_cached = 0;
}

/*
 * The load of a serving job: `weights` bytes stay on this rank beside what the process has `before`, and what the engine does with them while
 * loading.
 */
static void load_serve(const struct uma_model *model, const struct uma_serve *serve, uint64_t weights, uint64_t before,
                       struct uma_load *ret_load) {
    struct uma_load load;
    bool stored_so = (serve->stored && serve->weights != UMA_FORMAT_UNKNOWN) || uma_serve_is_converted(model, serve);
    struct uma_model checkpoint = *model; /* borrows all that it points to */
    if (stored_so)
        store_as(&checkpoint, weights);
    uma_plan_load(&checkpoint, serve->engine, serve->loader, uma_plus(weights, before), serve->read_bytes_per_second, &load);
    load.growth = growth_bytes(model, serve, stored_so);
    load.peak = uma_plus(load.peak, load.growth);
    load.needs_free = uma_plus(load.peak, load.page_cache);
    *ret_load = load;
}

void uma_load_warn(struct uma_estimate *estimate) {
    const struct uma_load *load = &estimate->load;
    if (load->needs_free > uma_plus(estimate->device, estimate->device / 10) && load->page_cache)
        uma_estimate_warn(estimate,
                          "loading fills the page cache with %.1f GiB of files: MemAvailable does not fall by it, MemFree does, and GPU "
                          "allocations on a GB10 can fail for want of free pages",
                          (double)load->page_cache / 0x1p30);
    if (load->peak > estimate->device)
        uma_estimate_warn(
            estimate, "loading peaks at %.1f GiB, above the %.1f GiB the job needs later: %s loading holds %.1f GiB beside the weights%s",
            (double)load->peak / 0x1p30, (double)estimate->device / 0x1p30, load->loader,
            (double)uma_plus(load->staging, load->growth) / 0x1p30,
            load->growth ? ", of it what is quantised, converted or repacked after it was read" : "");
}

void uma_load_into(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate) {
    uint64_t resident = 0;
    for (uint32_t i = 0; i < estimate->term_count; i++)
        if (estimate->terms[i].group == UMA_TERM_WEIGHTS)
            resident = uma_plus(resident, estimate->terms[i].bytes);
    uint64_t before = uma_plus(estimate->context, estimate->host); /* the process stands before it loads */
    load_serve(model, serve, resident, before, &estimate->load);
    uma_load_warn(estimate);
}
