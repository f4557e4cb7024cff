/* SPDX-License-Identifier: MIT */
#include "plan/fit.h"

#include "plan/estimate.h"

enum {
    LENGTH_STEP = 128,              /* packing lengths are chosen in such steps */
    LENGTH_MOST = 16 * 1024 * 1024, /* tokens; the longest published contexts are 10 M (Llama 4 Scout) */
    COUNT_MOST = 65536,
};

int uma_plan_job_estimate(const struct uma_model *model, const struct uma_plan_job *job, struct uma_estimate *ret_estimate,
                          struct uma_error *err) {
    return job->serving ? uma_plan_serve(model, &job->serve, ret_estimate, err) : uma_plan_train(model, &job->train, ret_estimate, err);
}

void uma_plan_job_set_length(struct uma_plan_job *job, uint64_t tokens) {
    if (job->serving) {
        job->serve.context = tokens;
        job->serve.prompt_tokens = MIN_OF(job->serve.prompt_tokens, tokens);
    } else {
        job->train.seq = tokens;
        job->train.tokens = 0;
    }
}

void uma_plan_job_set_sequences(struct uma_plan_job *job, uint64_t sequences) {
    job->serve.sequences = sequences;
}

static int64_t difference(uint64_t a, uint64_t b) {
    uint64_t d = a > b ? a - b : b - a;
    int64_t limited = d > INT64_MAX ? INT64_MAX : (int64_t)d;
    return a >= b ? limited : -limited;
}

void uma_fit_judge(const struct uma_estimate *estimate, struct uma_u64 budget, struct uma_fit *ret_fit) {
    struct uma_fit fit = { .budget = budget, .need = estimate->device };
    if (estimate->load.peak > fit.need) {
        fit.need = estimate->load.peak;
        fit.load_decides = true;
    }
    if (uma_usable(budget.validity)) {
        fit.fits = fit.need <= budget.value ? UMA_YES : UMA_NO;
        fit.margin = difference(budget.value, fit.need);
        uint64_t high = MAX_OF(fit.need, estimate->device_high);
        uint64_t low = uma_minus(fit.need, uma_minus(estimate->total, estimate->low));
        fit.close = fit.fits == UMA_YES ? high > budget.value : low <= budget.value;
    }
    *ret_fit = fit;
}

/* ---- limits ------------------------------------------------------------------------------------------------- */

typedef void (*set_size)(struct uma_plan_job *job, uint64_t value);

static void set_batch(struct uma_plan_job *job, uint64_t value) {
    job->train.batch = value;
    job->train.tokens = 0;
}

static bool fits_with(const struct uma_model *model, const struct uma_plan_job *job, set_size set, uint64_t value, uint64_t budget) {
    struct uma_plan_job changed = *job;
    set(&changed, value);
    struct uma_estimate estimate;
    struct uma_fit fit;
    if (uma_plan_job_estimate(model, &changed, &estimate, NULL) < 0)
        return false;
    uma_fit_judge(&estimate, (struct uma_u64){ budget, UMA_KNOWN }, &fit);
    return fit.fits == UMA_YES;
}

/* The largest multiple of `step` up to `most` that fits. */
static struct uma_u64 largest(const struct uma_model *model, const struct uma_plan_job *job, set_size set, uint64_t step, uint64_t most,
                              uint64_t budget) {
    step = most < step ? 1 : step; /* a model of shorter sequences than one step */
    if (most == 0 || !fits_with(model, job, set, step, budget))
        return (struct uma_u64){ 0, UMA_UNKNOWN };
    uint64_t low = 1, high = most / step; /* low fits */
    if (fits_with(model, job, set, high * step, budget))
        return (struct uma_u64){ high * step, UMA_KNOWN };
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (fits_with(model, job, set, middle * step, budget))
            low = middle;
        else
            high = middle;
    }
    return (struct uma_u64){ low * step, UMA_KNOWN };
}

void uma_plan_limits(const struct uma_model *model, const struct uma_plan_job *job, struct uma_u64 budget, struct uma_limits *ret_limits) {
    struct uma_limits limits = { 0 };
    uint64_t length = model->max_position && model->max_position < LENGTH_MOST ? model->max_position : LENGTH_MOST;
    if (length > LENGTH_STEP)
        length -= length % LENGTH_STEP;
    if (uma_usable(budget.validity)) {
        if (job->serving) {
            limits.max_context = largest(model, job, uma_plan_job_set_length, LENGTH_STEP, length, budget.value);
            limits.max_sequences = largest(model, job, uma_plan_job_set_sequences, 1, COUNT_MOST, budget.value);
        } else {
            limits.max_seq = largest(model, job, uma_plan_job_set_length, LENGTH_STEP, length, budget.value);
            limits.max_batch = largest(model, job, set_batch, 1, COUNT_MOST, budget.value);
        }
    }
    *ret_limits = limits;
}
