/* SPDX-License-Identifier: MIT */
/*
 * Loading the model that a training job starts from: what the frameworks' loaders hold beside the weights. All of today's map the files
 * (transformers and what is built on it open safetensors with safe_open; torchtune's safe_torch_load and litgpt's lazy_load pass mmap=True or
 * open safetensors, torchtune/training/checkpointing/_utils.py, litgpt/utils.py), so that the copy in host memory is page cache. It becomes
 * memory of the process where the loader changes the format: see growth_bytes.
 */
#include "plan/training.h"

#include "plan/loading.h"
#include "plan/training_parts.h"

/* The widest layer's linears in 16 bits. */
static uint64_t layer_bytes(const struct uma_model *model) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
        size_t n = uma_model_linears(model, i, linears);
        uint64_t params = 0;
        for (size_t k = 0; k < n; k++)
            params = uma_plus(params, uma_times(uma_times(linears[k].in, linears[k].out), linears[k].copies > 0 ? linears[k].copies : 1));
        largest = params > largest ? params : largest;
    }
    return uma_times(largest, 2);
}

/* All ranks' weights in the format of the job, as one process holds them before FSDP divides them. */
static uint64_t whole_model(const struct uma_model *model, enum uma_format format) {
    uint64_t bytes = 0;
    for (unsigned c = 0; c < UMA_CLASS_COUNT; c++) {
        bool linear = c == UMA_CLASS_ATTENTION || c == UMA_CLASS_MIXER || c == UMA_CLASS_MLP || c == UMA_CLASS_EXPERTS;
        uint64_t params = c == UMA_CLASS_MTP ? 0 : model->totals[c].params;
        bytes = uma_plus(bytes, format == UMA_FORMAT_F32 ? uma_times(params, 4)
                                : linear                 ? uma_format_bytes(format, params)
                                                         : uma_times(params, 2));
    }
    return bytes;
}

/*
 * Memory that is not of the files and is gone after the load:
 * - quantising on load: the 16-bit weights of what is quantised in one go, beside the result. bitsandbytes takes matrix by matrix, and
 *   transformers 5 joins the experts of a layer before it: a layer is the upper bound of both.
 * - fp32 from a 16-bit checkpoint: transformers converts on the host and moves parameter by parameter (torch's Module.to frees each as it
 *   goes), so one tensor exists twice.
 * - FSDP gives out a model that its first rank has whole in host memory (accelerate's fsdp_cpu_ram_efficient_loading; fsdp_qlora says that a
 *   70B model needs more than 128 GB of host memory at the start). In the checkpoint's own format those are the files' pages; quantised or
 *   widened they are the process' own.
 */
static uint64_t growth_bytes(const struct uma_model *model, const struct uma_train *train) {
    enum uma_format format = uma_training_weight_format(model, train);
    bool own = true; /* the checkpoint's format is the job's */
    for (unsigned c = UMA_CLASS_ATTENTION; c <= UMA_CLASS_EXPERTS; c++)
        if (model->totals[c].params > 0 && format != UMA_FORMAT_UNKNOWN && format != model->class_format[c] &&
            !(uma_format_bits(format) == 16 && !uma_training_is_quantised(model->class_format[c])))
            own = false;
    if (own)
        return 0;
    if (train->shard == UMA_SHARD_FSDP && uma_training_data_parallel(train) > 1 && train->loader != UMA_LOADER_STREAMED)
        return whole_model(model, format);
    return uma_training_is_quantised(format) ? layer_bytes(model) : uma_times(uma_load_largest_tensor(model), 2);
}

void uma_training_load(const struct uma_model *model, const struct uma_train *train, struct uma_estimate *estimate) {
    if (train->loader == UMA_LOADER_DEFAULT) /* random weights: nothing is read */
        return;
    struct uma_load load;
    uma_plan_load(model, UMA_ENGINE_TRANSFORMERS, train->loader, uma_plus(estimate->groups[UMA_TERM_WEIGHTS], estimate->context),
                  train->read_bytes_per_second, &load);
    load.growth = growth_bytes(model, train);
    load.peak = uma_plus(load.peak, load.growth);
    load.needs_free = uma_plus(load.peak, load.page_cache);
    estimate->load = load;
    uma_load_warn(estimate);
}
