/* SPDX-License-Identifier: MIT */
/*
 * Weights, adapters, gradients and optimizer states of a training job, as the stacks keep them: counted from the model's own parameters,
 * nothing fitted.
 */
#include "plan/training_parts.h"

#include <string.h>

/* Rank of GaLore's projections where its readme leaves it (rank 128); BAdam's readme trains one layer at a time. */
enum { GALORE_RANK = 128 };

static bool linear_class(enum uma_class class_) {
    return class_ == UMA_CLASS_ATTENTION || class_ == UMA_CLASS_MIXER || class_ == UMA_CLASS_MLP || class_ == UMA_CLASS_EXPERTS;
}

enum uma_format uma_training_weight_format(const struct uma_model *model, const struct uma_train *train) {
    if (train->weights != UMA_FORMAT_UNKNOWN)
        return train->weights;
    for (unsigned c = 0; c < UMA_CLASS_COUNT; c++) {
        if (!linear_class((enum uma_class)c) || model->totals[c].params == 0 || !uma_training_is_quantised(model->class_format[c]))
            continue;
        /* transformers cannot train through MXFP4 (quantizer_mxfp4.py: "please consider dequantizing", Mxfp4Config(dequantize=True)) */
        if (model->class_format[c] == UMA_FORMAT_MXFP4)
            return train->method == UMA_METHOD_QLORA && train->framework == UMA_FRAMEWORK_UNSLOTH ? UMA_FORMAT_NF4_DQ : UMA_FORMAT_BF16;
        return UMA_FORMAT_UNKNOWN; /* quantised already: the checkpoint's own bytes */
    }
    /* QLoRA of an unquantised checkpoint: NF4 with double quantisation, the paper's (arXiv:2305.14314) and every stack's default. */
    return train->method == UMA_METHOD_QLORA ? UMA_FORMAT_NF4_DQ : UMA_FORMAT_UNKNOWN;
}

bool uma_training_adapted(const struct uma_training_job *job, const struct uma_linear *linear) {
    if (job->train->method == UMA_METHOD_FULL)
        return false;
    return (job->train->targets & UMA_LINEAR_BIT(linear->role)) != 0;
}

/* Adam keeps two moments in the gradient's precision; the 8-bit ones (bitsandbytes, arXiv:2110.02861) a byte each and an fp32 scale per 256;
 * torchao's 4-bit half a byte each and a scale per 128; paged ones hold the same bytes in managed memory, which is the same pool here. Lion and
 * momentum keep one moment; Adafactor (arXiv:1804.04235) a row and a column per matrix; LOMO (arXiv:2306.09782) nothing. Muon keeps one moment. */
double uma_training_optimizer_bytes(enum uma_optimizer optimizer, unsigned precision) {
    switch (optimizer) {
    case UMA_OPTIMIZER_ADAMW_8BIT:
    case UMA_OPTIMIZER_PAGED_ADAMW_8BIT:
        return 2 + 2 * 4.0 / 256;
    case UMA_OPTIMIZER_ADAMW_4BIT:
        return 1 + 2 * 4.0 / 128;
    case UMA_OPTIMIZER_LION_8BIT:
        return 1 + 4.0 / 256;
    case UMA_OPTIMIZER_LION:
    case UMA_OPTIMIZER_SGD_MOMENTUM:
    case UMA_OPTIMIZER_MUON:
        return precision;
    case UMA_OPTIMIZER_SGD:
    case UMA_OPTIMIZER_LOMO:
        return 0;
    case UMA_OPTIMIZER_ADAFACTOR:
        return 0.01; /* (rows + columns) / (rows x columns) of matrices some thousand wide, fp32 */
    default:
        return 2.0 * precision;
    }
}

/* torch's foreach AdamW makes a square root of the second moments of all parameters at once, as large as they are (torchtune PR 389 says the
 * same; fms-acceleration's full fine-tuning rows: 10 bytes a parameter in bf16, 20 with fp32 masters). Up to torch 2.0 the sum with epsilon was
 * a second copy (torch/optim/adamw.py: _foreach_add, since 2.1 _foreach_add_). */
unsigned uma_training_step_copies(const struct uma_train *train) {
    bool second = train->torch_release > 0 && train->torch_release < 2001;
    if (train->optimizer == UMA_OPTIMIZER_ADAMW)
        return second ? 2 : 1;
    return train->optimizer == UMA_OPTIMIZER_LION ? 1 : 0;
}

static uint64_t step_temporary(const struct uma_training_job *job) {
    const struct uma_training_states *states = &job->states;
    if (uma_training_zero(job->train) && states->master > 0)
        return 0; /* training_deepspeed.c */
    uint64_t full = uma_times(states->full_params, states->master > 0 ? 4 : states->full_bytes);
    uint64_t once = uma_plus(full, uma_times(states->adapter_params, states->adapter_bytes));
    return uma_times(uma_training_step_copies(job->train), once);
}

/* Bytes that an adapter on this linear adds, in parameters: A of rank x in, B of out x rank; DoRA (arXiv:2402.09353) a magnitude per output. */
static uint64_t adapter_of(const struct uma_training_job *job, const struct uma_linear *linear) {
    uint64_t params = uma_times(job->train->rank, uma_plus(linear->in, linear->out));
    if (job->train->dora)
        params = uma_plus(params, linear->out);
    return uma_times(params, linear->copies > 0 ? linear->copies : 1);
}

static uint64_t layer_params(const struct uma_training_job *job, uint32_t layer, uint64_t *ret_adapter, uint64_t *ret_galore) {
    struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
    size_t n = uma_model_linears(job->model, layer, linears);
    uint64_t params = 0, adapter = 0, galore = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t copies = linears[i].copies > 0 ? linears[i].copies : 1;
        params = uma_plus(params, uma_times(uma_times(linears[i].in, linears[i].out), copies));
        if (uma_training_adapted(job, &linears[i]))
            adapter = uma_plus(adapter, adapter_of(job, &linears[i]));
        uint64_t narrow = linears[i].in < linears[i].out ? linears[i].in : linears[i].out;
        uint64_t wide = linears[i].in < linears[i].out ? linears[i].out : linears[i].in;
        uint64_t rank = narrow < GALORE_RANK ? narrow : GALORE_RANK;
        /* the projection and two moments of the projected gradient (arXiv:2403.03507, table 1: mr + 2nr) */
        galore = uma_plus(galore, uma_times(copies, uma_times(rank, uma_plus(narrow, uma_times(2, wide)))));
    }
    *ret_adapter = adapter;
    *ret_galore = galore;
    return params;
}

/* litgpt has an lm_head of its own even where the checkpoint ties it to the embedding (litgpt/model.py; convert_hf_checkpoint.py copies it),
 * unless tie_embeddings asks otherwise; its quantiser leaves it in 16 bits. */
static uint64_t untied_head(const struct uma_training_job *job) {
    return job->train->framework == UMA_FRAMEWORK_LITGPT && job->model->tied ? uma_times(job->model->vocab, job->model->hidden) : 0;
}

static void weights(struct uma_training_job *job) {
    const struct uma_model *model = job->model;
    struct uma_training_states *states = &job->states;
    enum uma_format format = uma_training_weight_format(model, job->train);
    bool quantise = uma_training_is_quantised(format);
    for (unsigned c = 0; c < UMA_CLASS_COUNT; c++) {
        uint64_t params = model->totals[c].params, bytes = model->totals[c].bytes;
        enum uma_format own = model->class_format[c];
        bool linear = linear_class((enum uma_class)c);
        if (format == UMA_FORMAT_UNKNOWN && uma_training_is_quantised(own))
            ; /* as stored */
        else if (quantise && linear)
            bytes = uma_format_bytes(format, params);
        else /* quantisers leave embeddings, lm_head, norms, routers and towers alone; torch loads them in 16 bits */
            bytes = uma_times(params, (!quantise && format == UMA_FORMAT_F32) ? 4 : 2);
        if (linear && (quantise || uma_training_is_quantised(own))) {
            states->quantised = true;
            /* one byte per 64 values (NF4, double quantisation) or two per 128 (GPTQ, AWQ) and the zeros: about 1/64 */
            if ((quantise ? format : own) != UMA_FORMAT_GPTQ4_CHANNEL) /* which has one scale for a whole row */
                states->quant_metadata = uma_plus(states->quant_metadata, params / 64);
        }
        if (c == UMA_CLASS_LM_HEAD)
            bytes = uma_plus(bytes, uma_times(untied_head(job), format == UMA_FORMAT_F32 ? 4 : 2));
        if (c == UMA_CLASS_MTP)
            bytes = 0; /* transformers has no modules for them and leaves these tensors in the file */
        states->class_bytes[c] = bytes;
        states->weights = uma_plus(states->weights, bytes);
    }
    states->root = uma_plus(states->class_bytes[UMA_CLASS_EMBEDDING], states->class_bytes[UMA_CLASS_LM_HEAD]);
}

static void trained(struct uma_training_job *job) {
    const struct uma_model *model = job->model;
    const struct uma_train *train = job->train;
    struct uma_training_states *states = &job->states;
    uint64_t largest = 0, linear_params = 0, galore = 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        uint64_t adapter = 0, projected = 0, params = layer_params(job, i, &adapter, &projected);
        linear_params = uma_plus(linear_params, params);
        states->adapter_params = uma_plus(states->adapter_params, adapter);
        galore = uma_plus(galore, projected);
        largest = params > largest ? params : largest;
    }
    uint64_t linear_bytes = 0;
    for (unsigned c = 0; c < UMA_CLASS_COUNT; c++)
        if (linear_class((enum uma_class)c))
            linear_bytes = uma_plus(linear_bytes, states->class_bytes[c]);
    double per_param = linear_params > 0 ? (double)linear_bytes / (double)linear_params : 2;
    states->largest_layer = uma_scale(largest, per_param < 4 ? per_param : 4);
    uint64_t ends = uma_plus(model->totals[UMA_CLASS_EMBEDDING].params, model->totals[UMA_CLASS_LM_HEAD].params);
    if (train->method != UMA_METHOD_FULL) {
        states->full_params = train->train_embeddings ? ends : 0;
        states->copied = uma_times(states->full_params, states->full_bytes);
    } else {
        states->full_params = uma_model_params(model);
        if (model->has_vision && train->freeze_vision)
            states->full_params = uma_minus(states->full_params, model->totals[UMA_CLASS_VISION].params);
        states->full_params = uma_plus(uma_minus(states->full_params, model->totals[UMA_CLASS_MTP].params), untied_head(job));
        if (train->optimizer == UMA_OPTIMIZER_BADAM)
            states->full_params = largest; /* one block at a time (arXiv:2404.02827) */
    }
    if (train->optimizer == UMA_OPTIMIZER_GALORE && train->method == UMA_METHOD_FULL)
        states->full_states = uma_times(uma_plus(galore, uma_times(2, ends)), states->full_bytes);
}

/* fms-acceleration leaves adapters of quantised models out of FSDP and in 16 bits (lora_adapters_switch_ddp_from_fsdp; its rows show 8 bytes a
 * parameter on every rank), for the architectures that its plugin for quantised adapters takes (framework_plugin_fast_quantized_peft.py:
 * restricted_model_archs); the adapters of others are sharded like the rest, as they are by whoever wraps them in units of their own. */
static bool adapters_left_out(const struct uma_model *model) {
    static const char *const taken[] = { "llama", "mistral", "mixtral", "granite" };
    for (size_t i = 0; model->architecture && i < sizeof taken / sizeof *taken; i++)
        if (strcmp(model->architecture, taken[i]) == 0)
            return true;
    return false;
}

void uma_training_states_of(struct uma_training_job *job) {
    const struct uma_train *train = job->train;
    struct uma_training_states *states = &job->states;
    *states = (struct uma_training_states){ 0 };
    weights(job);
    /* peft keeps adapters in fp32 (autocast_adapter_dtype); torchtune and litgpt in the model's own 16 bits */
    bool own = train->framework == UMA_FRAMEWORK_TORCHTUNE || train->framework == UMA_FRAMEWORK_LITGPT;
    states->adapter_bytes = own ? 2 : 4;
    bool zero = uma_training_zero(train);
    /* DeepSpeed's engine turns the whole module into 16 bits, adapters too, and its optimizer keeps fp32 masters of what is trained */
    bool zero_masters = zero && job->element == 2 && train->method != UMA_METHOD_FULL;
    if (zero_masters)
        states->adapter_bytes = 2;
    bool master = train->master == UMA_YES && train->method == UMA_METHOD_FULL;
    bool fp32 = train->weights == UMA_FORMAT_F32;
    /* accelerate's FSDP turns trained weights into fp32 and gathers them in 16 bits: the master is the weight itself */
    bool master_is_weight = master && !zero;
    states->full_bytes = fp32 || master_is_weight ? 4 : 2;
    states->gradient_bytes = states->full_bytes;
    trained(job);
    if (master_is_weight && train->optimizer != UMA_OPTIMIZER_BADAM) {
        states->weights = 0;
        for (unsigned c = 0; c < UMA_CLASS_COUNT; c++) {
            states->class_bytes[c] = c == UMA_CLASS_MTP ? 0 : uma_times(job->model->totals[c].params, 4);
            states->weights = uma_plus(states->weights, states->class_bytes[c]);
        }
    }
    if ((master && zero) || (train->optimizer == UMA_OPTIMIZER_BADAM && train->method == UMA_METHOD_FULL))
        states->master = uma_times(states->full_params, 4);
    if (zero_masters)
        states->master = uma_times(uma_plus(states->adapter_params, states->full_params), 4);
    unsigned precision = states->master > 0 ? 4 : states->full_bytes;
    if (states->full_states == 0)
        states->full_states = uma_scale(states->full_params, uma_training_optimizer_bytes(train->optimizer, precision));
    if (states->quantised && train->shard == UMA_SHARD_FSDP) {
        states->adapters_whole = adapters_left_out(job->model);
        states->adapter_bytes = 2;
    }
    unsigned adapter_precision = zero_masters ? 4 : states->adapter_bytes;
    states->adapter_states = uma_scale(states->adapter_params, uma_training_optimizer_bytes(train->optimizer, adapter_precision));
    states->step_temporary = step_temporary(job);
}
