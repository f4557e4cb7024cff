/* SPDX-License-Identifier: MIT */
#include "plan/ladder.h"

#include "base/units.h"
#include "plan/serving.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    LENGTH_LEAST = 512,          /* shorter packing than this is another task, not a saving */
    CONTEXT_LEAST = 2048,        /* likewise for serving */
    BATCHED_TOKENS_LEAST = 2048, /* vLLM's own default for small GPUs; fewer only costs speed */
};

struct climb {
    const struct uma_model *model;
    struct uma_plan_job job; /* with the rungs so far */
    struct uma_estimate estimate;
    struct uma_fit fit;
    struct uma_u64 budget;
    struct uma_ladder *ladder;
    bool again; /* sizes once more, after a change of method: what was hidden behind the optimizer's step may now be the peak */
};

static bool judge(const struct climb *climb, const struct uma_model *model, const struct uma_plan_job *job,
                  struct uma_estimate *ret_estimate, struct uma_fit *ret_fit) {
    if (uma_plan_job_estimate(model, job, ret_estimate, NULL) < 0)
        return false;
    uma_fit_judge(ret_estimate, climb->budget, ret_fit);
    return true;
}

/* A rung that leads to this estimate. There must be room; the caller writes its action. */
static struct uma_advice *rung_add(struct climb *climb, enum uma_rung rung, uint64_t saves, const struct uma_estimate *estimate,
                                   const struct uma_fit *fit) {
    struct uma_advice *advice = &climb->ladder->advice[climb->ladder->count++];
    *advice = (struct uma_advice){
        .rung = rung, .saves = saves, .then_total = estimate->total, .then_need = fit->need, .then_fits = fit->fits == UMA_YES
    };
    return advice;
}

/* Take the changed job as the next rung if it saves anything. */
static bool rung_try(struct climb *climb, const struct uma_plan_job *changed, enum uma_rung rung, const char *format, ...) UMA_PRINTF(4, 5);
static bool rung_try(struct climb *climb, const struct uma_plan_job *changed, enum uma_rung rung, const char *format, ...) {
    struct uma_estimate estimate;
    struct uma_fit fit;
    if (climb->ladder->count == UMA_ADVICE_MAX || !judge(climb, climb->model, changed, &estimate, &fit) || fit.need >= climb->fit.need)
        return false;
    struct uma_advice *advice = rung_add(climb, rung, climb->fit.need - fit.need, &estimate, &fit);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(advice->action, sizeof advice->action, format, arguments);
    va_end(arguments);
    climb->job = *changed;
    climb->estimate = estimate;
    climb->fit = fit;
    return true;
}

/* ---- rungs of both kinds ------------------------------------------------------------------------------------ */

/* The driver takes whole free pages: what `available` counts as reclaimable must be free before, or be reclaimed in time. */
static void flush(struct climb *climb, struct uma_u64 now, struct uma_u64 reclaimable) {
    if (!uma_usable(now.validity) || !uma_usable(reclaimable.validity) || now.value >= climb->fit.need || reclaimable.value < UMA_GIB)
        return;
    struct uma_advice *advice = rung_add(climb, UMA_RUNG_FLUSH, reclaimable.value, &climb->estimate, &climb->fit);
    snprintf(advice->action, sizeof advice->action,
             "flush the page cache before the launch (umactl cache evict --all-models): CUDA allocates from free memory");
}

/* An engine takes its share whether it needs it or not: a smaller one is the first thing to try. In steps of 0.01, as they are given. */
static void share(struct climb *climb) {
    if (!climb->job.serving || !(climb->job.serve.fraction > 0) || climb->fit.fits == UMA_YES)
        return;
    struct uma_plan_job changed = climb->job;
    for (int percent = (int)(changed.serve.fraction * 100); percent-- > 1;) {
        struct uma_estimate estimate;
        struct uma_fit fit;
        changed.serve.fraction = percent / 100.0;
        if (!judge(climb, climb->model, &changed, &estimate, &fit) || fit.need >= climb->fit.need)
            return; /* below what the weights and the cache take nothing is saved */
        if (fit.fits == UMA_YES)
            break;
    }
    (void)rung_try(climb, &changed, UMA_RUNG_LOADER, "give the engine less of the pool (--fraction %.2f)", changed.serve.fraction);
}

static void loader(struct climb *climb) {
    share(climb);
    if (!climb->fit.load_decides)
        return;
    struct uma_plan_job changed = climb->job;
    if (changed.serving)
        changed.serve.loader = UMA_LOADER_STREAMED;
    else
        changed.train.loader = UMA_LOADER_STREAMED;
    (void)rung_try(climb, &changed, UMA_RUNG_LOADER, "load tensor by tensor instead of staging the model in host memory (--load streamed)");
}

static void smaller_model(struct climb *climb) {
    struct uma_shape half = { .params = uma_model_params(climb->model) / 2 };
    struct uma_model *model = NULL;
    struct uma_estimate estimate;
    struct uma_fit fit;
    if (climb->ladder->count == UMA_ADVICE_MAX || half.params == 0 || uma_model_from_shape(&half, &model, NULL) < 0)
        return;
    if (judge(climb, model, &climb->job, &estimate, &fit) && fit.need < climb->fit.need) {
        struct uma_advice *advice = rung_add(climb, UMA_RUNG_MODEL, climb->fit.need - fit.need, &estimate, &fit);
        snprintf(advice->action, sizeof advice->action, "a smaller model: one of half the size, %.3g B parameters",
                 (double)half.params / 1e9);
    }
    (void)uma_model_free(model);
}

/* Halve a size until the job fits, to `least`, or to where halving saves less than a hundredth. Returns the value to try, or the old one. */
static uint64_t halved(const struct climb *climb, uint64_t value, uint64_t least, void (*set)(struct uma_plan_job *, uint64_t)) {
    uint64_t need = climb->fit.need;
    while (value / 2 >= least) {
        struct uma_plan_job changed = climb->job;
        struct uma_estimate estimate;
        struct uma_fit fit;
        set(&changed, value / 2);
        if (!judge(climb, climb->model, &changed, &estimate, &fit) || fit.need > need - need / 100)
            break;
        value /= 2;
        need = fit.need;
        if (fit.fits == UMA_YES)
            break;
    }
    return value;
}

/* ---- training ----------------------------------------------------------------------------------------------- */

/* The same samples a step: what the micro batch loses goes into accumulation. */
static void set_batch(struct uma_plan_job *job, uint64_t value) {
    uint64_t samples = uma_times(MAX_OF(job->train.accumulation, 1u), job->train.batch);
    job->train.batch = value;
    job->train.accumulation = uma_divide_up(samples, value);
    job->train.tokens = 0;
}

static void train_sizes(struct climb *climb) {
    struct uma_plan_job changed = climb->job;
    uint64_t seq = changed.train.seq, batch = changed.train.batch;
    uint64_t shorter = halved(climb, seq, LENGTH_LEAST, uma_plan_job_set_length);
    if (shorter < seq) {
        uma_plan_job_set_length(&changed, shorter);
        (void)rung_try(climb, &changed, climb->again ? UMA_RUNG_METHOD : UMA_RUNG_LENGTH,
                       "shorten the packing length from %llu to %llu (--seq %llu)", (unsigned long long)seq, (unsigned long long)shorter,
                       (unsigned long long)shorter);
    }
    changed = climb->job;
    uint64_t fewer = climb->fit.fits == UMA_YES ? batch : halved(climb, batch, 1, set_batch);
    if (fewer < batch) {
        set_batch(&changed, fewer);
        (void)rung_try(climb, &changed, climb->again ? UMA_RUNG_METHOD : UMA_RUNG_BATCH,
                       "then the micro batch from %llu to %llu, with %llu accumulation steps for the same samples (--batch %llu)",
                       (unsigned long long)batch, (unsigned long long)fewer, (unsigned long long)changed.train.accumulation,
                       (unsigned long long)fewer);
    }
}

static void train_settings(struct climb *climb) {
    struct uma_plan_job changed = climb->job;
    if (changed.train.checkpointing == UMA_CHECKPOINTING_OFF || changed.train.checkpointing == UMA_CHECKPOINTING_SELECTIVE) {
        changed.train.checkpointing = UMA_CHECKPOINTING_ON;
        (void)rung_try(climb, &changed, UMA_RUNG_SETTING,
                       "gradient checkpointing: same result, about a third more time (--checkpointing on)");
    }
    changed = climb->job;
    if (changed.train.loss == UMA_LOSS_FULL || changed.train.loss == UMA_LOSS_FUSED) {
        changed.train.loss = UMA_LOSS_FUSED_LINEAR;
        (void)rung_try(climb, &changed, UMA_RUNG_SETTING,
                       "a fused linear loss (Liger, cut cross entropy): the logits are never whole (--loss fused-linear)");
    }
    changed = climb->job;
    if (changed.train.attention == UMA_ATTENTION_EAGER) {
        changed.train.attention = UMA_ATTENTION_FLASH;
        (void)rung_try(climb, &changed, UMA_RUNG_SETTING, "flash attention: the scores are never whole (--attention flash)");
    }
    changed = climb->job;
    if (changed.train.optimizer == UMA_OPTIMIZER_ADAMW) {
        changed.train.optimizer = UMA_OPTIMIZER_ADAMW_FUSED;
        (void)rung_try(climb, &changed, UMA_RUNG_SETTING,
                       "the fused AdamW: the same step without copies of all parameters (--optimizer adamw-fused)");
    }
    changed = climb->job;
    if (changed.train.optimizer == UMA_OPTIMIZER_ADAMW || changed.train.optimizer == UMA_OPTIMIZER_ADAMW_FUSED) {
        changed.train.optimizer = UMA_OPTIMIZER_ADAMW_8BIT;
        (void)rung_try(climb, &changed, UMA_RUNG_SETTING, "8-bit optimizer states (--optimizer adamw-8bit)");
    }
}

static void train_method(struct climb *climb) {
    struct uma_plan_job changed = climb->job;
    if (changed.train.method == UMA_METHOD_FULL && changed.train.objective != UMA_OBJECTIVE_PRETRAIN) {
        changed.train.method = UMA_METHOD_LORA;
        changed.train.master = changed.train.autocast = UMA_MAYBE;
        climb->again = rung_try(climb, &changed, UMA_RUNG_METHOD, "bf16 LoRA instead of a full fine-tune (--method lora)");
    }
    if (climb->again && climb->fit.fits == UMA_NO)
        train_sizes(climb);
    changed = climb->job;
    if (changed.train.method == UMA_METHOD_LORA && climb->fit.fits == UMA_NO) {
        changed.train.method = UMA_METHOD_QLORA;
        changed.train.weights = UMA_FORMAT_UNKNOWN;
        (void)rung_try(climb, &changed, UMA_RUNG_METHOD,
                       "QLoRA, last of the methods: its dequantised weights are transients that this total includes (--method qlora)");
    }
}

static void train_nodes(struct climb *climb) {
    struct uma_plan_job changed = climb->job;
    changed.train.nodes = MAX_OF(changed.train.nodes, 1u) * 2;
    changed.train.shard = UMA_SHARD_FSDP;
    (void)rung_try(climb, &changed, UMA_RUNG_NODES, "%u nodes with the states sharded (--nodes %u --shard fsdp)", changed.train.nodes,
                   changed.train.nodes);
}

/* ---- serving ------------------------------------------------------------------------------------------------ */

static void serve_sizes(struct climb *climb) {
    struct uma_plan_job changed = climb->job;
    uint64_t context = changed.serve.context, sequences = changed.serve.sequences;
    uint64_t shorter = halved(climb, context, CONTEXT_LEAST, uma_plan_job_set_length);
    if (shorter < context) {
        uma_plan_job_set_length(&changed, shorter);
        (void)rung_try(climb, &changed, UMA_RUNG_LENGTH, "shorten the context from %llu to %llu (--context %llu)",
                       (unsigned long long)context, (unsigned long long)shorter, (unsigned long long)shorter);
    }
    changed = climb->job;
    uint64_t fewer = climb->fit.fits == UMA_YES ? sequences : halved(climb, sequences, 1, uma_plan_job_set_sequences);
    if (fewer < sequences) {
        uma_plan_job_set_sequences(&changed, fewer);
        (void)rung_try(climb, &changed, UMA_RUNG_BATCH, "fewer sequences at once, %llu instead of %llu (--sequences %llu)",
                       (unsigned long long)fewer, (unsigned long long)sequences, (unsigned long long)fewer);
    }
}

static void serve_settings(struct climb *climb) {
    struct uma_plan_job changed = climb->job;
    bool ggml = uma_serve_reads_gguf(changed.serve.engine);
    enum uma_format eight = ggml ? UMA_FORMAT_Q8_0 : UMA_FORMAT_FP8;
    if (uma_format_bits(changed.serve.key_format) > 9 || changed.serve.key_format == UMA_FORMAT_UNKNOWN) {
        changed.serve.key_format = changed.serve.value_format = eight;
        (void)rung_try(climb, &changed, UMA_RUNG_SETTING, "the KV cache in 8 bits (--kv-dtype %s)", uma_format_name(eight));
    }
    changed = climb->job;
    if (!ggml && changed.serve.batched_tokens > BATCHED_TOKENS_LEAST) {
        changed.serve.batched_tokens = BATCHED_TOKENS_LEAST;
        (void)rung_try(climb, &changed, UMA_RUNG_SETTING, "smaller prefill steps: activations grow with them (--batched-tokens %d)",
                       BATCHED_TOKENS_LEAST);
    }
    changed = climb->job;
    if (!ggml && !changed.serve.no_mtp && climb->model->totals[UMA_CLASS_MTP].bytes > 0) {
        changed.serve.no_mtp = true;
        changed.serve.mtp = false;
        (void)rung_try(climb, &changed, UMA_RUNG_SETTING, "without the multi-token-prediction layers (--mtp no)");
    }
}

static void serve_method(struct climb *climb) {
    struct uma_plan_job changed = climb->job;
    uint64_t params = uma_model_params(climb->model);
    double bits = changed.serve.weights != UMA_FORMAT_UNKNOWN ? uma_format_bits(changed.serve.weights)
                  : params                                    ? (double)uma_model_bytes(climb->model) * 8 / (double)params
                                                              : 16;
    bool ggml = uma_serve_reads_gguf(changed.serve.engine);
    enum uma_format four = ggml ? UMA_FORMAT_Q4_K : UMA_FORMAT_NVFP4;
    if (bits > 9) {
        changed.serve.weights = ggml ? UMA_FORMAT_Q8_0 : UMA_FORMAT_FP8;
        changed.serve.stored = true; /* another checkpoint, not a conversion while loading */
        (void)rung_try(climb, &changed, UMA_RUNG_METHOD, "a checkpoint with 8-bit weights (--dtype %s)",
                       uma_format_name(changed.serve.weights));
    }
    changed = climb->job;
    if (bits > 6) {
        changed.serve.weights = four;
        changed.serve.stored = true;
        (void)rung_try(climb, &changed, UMA_RUNG_METHOD, "a checkpoint with 4-bit weights (--dtype %s)", uma_format_name(four));
    }
}

static void serve_nodes(struct climb *climb) {
    struct uma_plan_job changed = climb->job;
    changed.serve.nodes = MAX_OF(changed.serve.nodes, 1u) * 2;
    bool layers = changed.serve.engine == UMA_ENGINE_LLAMA_CPP; /* it divides layers over its RPC hosts */
    uint32_t *ranks = layers ? &changed.serve.pp : &changed.serve.tp;
    *ranks = MAX_OF(*ranks, 1u) * 2;
    (void)rung_try(climb, &changed, UMA_RUNG_NODES, "%u nodes, %s (--nodes %u --%s %u)", changed.serve.nodes,
                   layers ? "layers divided between them" : "tensor parallel", changed.serve.nodes, layers ? "pp" : "tp", *ranks);
}

/* ---- the climb ---------------------------------------------------------------------------------------------- */

void uma_ladder_climb(const struct uma_model *model, const struct uma_plan_job *job, struct uma_u64 budget, struct uma_u64 now,
                      struct uma_u64 reclaimable, struct uma_ladder *ret_ladder) {
    struct climb climb = { .model = model, .job = *job, .budget = budget, .ladder = ret_ladder };
    *ret_ladder = (struct uma_ladder){ 0 };
    if (climb.job.serving)
        uma_serve_defaults(model, &climb.job.serve);
    else
        uma_train_defaults(model, &climb.job.train);
    if (!uma_usable(budget.validity) || !judge(&climb, model, &climb.job, &climb.estimate, &climb.fit))
        return;
    flush(&climb, now, reclaimable);
    if (climb.fit.fits == UMA_YES && !climb.fit.close)
        return;
    static void (*const train[])(struct climb *) = { loader, train_sizes, train_settings, train_method, train_nodes, smaller_model };
    static void (*const serve[])(struct climb *) = { loader, serve_sizes, serve_settings, serve_method, serve_nodes, smaller_model };
    for (size_t i = 0; i < ELEMENTS(train); i++) {
        if (climb.fit.fits == UMA_YES && !climb.fit.close) /* what is above helps nobody */
            break;
        (job->serving ? serve : train)[i](&climb);
    }
}
