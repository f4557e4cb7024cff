/* SPDX-License-Identifier: MIT */
/*
 * fit.h - an estimate against what a new job can have: does it fit, by how much, and how far could the job grow. Pure.
 * What is compared is what leaves the pool (allocator's slack and contexts included), steady and while loading: the larger one decides.
 */
#pragma once

#include "uma_plan.h"

/* A job of either kind. */
struct uma_plan_job {
    bool serving;
    struct uma_train train;
    struct uma_serve serve;
};

/* Fill in the defaults and estimate. */
int uma_plan_job_estimate(const struct uma_model *model, const struct uma_plan_job *job, struct uma_estimate *ret_estimate,
                          struct uma_error *err);

/* Set the length of its sequences (packing length, context), or how many there are at once (serving). As many tokens as that makes. */
void uma_plan_job_set_length(struct uma_plan_job *job, uint64_t tokens);
void uma_plan_job_set_sequences(struct uma_plan_job *job, uint64_t sequences);

struct uma_fit {
    struct uma_u64 budget;
    uint64_t need;       /* the larger of device and load.peak */
    bool load_decides;   /* it is load.peak */
    enum uma_truth fits; /* UMA_MAYBE: the budget is not known */
    bool close;          /* fits, but not if the interval's upper end comes true; or does not, but its lower end would */
    int64_t margin;      /* budget - need, within the range of int64; 0 where the budget is not known */
};
void uma_fit_judge(const struct uma_estimate *estimate, struct uma_u64 budget, struct uma_fit *ret_fit);

/*
 * How far one size of the job could grow (or must shrink) to just fit the budget, all else as given: by bisection on the estimate itself,
 * between 1 and a bound of the field (the model's own context length; batches and sequences up to 65,536). Unknown where the budget is, or
 * where not even 1 fits. Lengths are whole multiples of 128 tokens, as packing lengths are chosen.
 */
void uma_plan_limits(const struct uma_model *model, const struct uma_plan_job *job, struct uma_u64 budget, struct uma_limits *ret_limits);
