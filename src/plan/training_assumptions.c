/* SPDX-License-Identifier: MIT */
/*
 * How sure the estimate is, and what it had to assume: the interval widens with every decision that the user left to a framework's default and
 * with every part of the code that no published measurement covers.
 */
#include "plan/training_parts.h"

static bool moe(const struct uma_model *model) {
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].ffn == UMA_FFN_MOE)
            return true;
    return false;
}

static bool recurrent(const struct uma_model *model) {
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].mixer > UMA_MIXER_MLA)
            return true;
    return false;
}

static void warnings(const struct uma_training_job *job, const struct uma_train *given, struct uma_estimate *estimate) {
    const struct uma_train *train = job->train;
    if (given->batch == 0 && given->tokens == 0)
        uma_estimate_warn(estimate, "no batch given: 1 sequence a step and rank taken");
    if (given->seq == 0 && given->tokens == 0)
        uma_estimate_warn(estimate, "no length given: 2048 tokens taken; activations and logits grow in proportion");
    if (train->checkpointing == UMA_CHECKPOINTING_OFFLOAD)
        uma_estimate_warn(estimate,
                          "offloaded checkpoints go to host memory: on a machine with one pool they leave the same pool and free nothing");
    if (estimate->host > 0 && train->checkpointing != UMA_CHECKPOINTING_OFFLOAD)
        uma_estimate_warn(
            estimate, "paged optimizer states are managed memory outside torch's figures: on a machine with one pool they count in full");
    enum uma_format format = uma_training_weight_format(job->model, train);
    if (moe(job->model) && (format == UMA_FORMAT_NF4 || format == UMA_FORMAT_NF4_DQ || format == UMA_FORMAT_INT8))
        uma_estimate_warn(
            estimate,
            "bitsandbytes quantises nn.Linear only: experts that the model's code holds as one tensor stay in 16 bits, %.1f GiB instead of %.1f",
            (double)job->model->totals[UMA_CLASS_EXPERTS].params * 2 / (double)(1 << 30),
            (double)job->states.class_bytes[UMA_CLASS_EXPERTS] / (double)(1 << 30));
    if (train->objective == UMA_OBJECTIVE_GRPO && train->generation_bytes == 0)
        uma_estimate_warn(estimate, "no size given for the generation engine (--generation): not counted");
    if (job->model->has_vision && train->images == 0)
        uma_estimate_warn(
            estimate, "images not given (--images): the vision tower's activations are not counted, their tokens must be in the length");
    if (train->attention == UMA_ATTENTION_EAGER)
        uma_estimate_warn(estimate, "eager attention keeps scores of every pair of tokens: they grow with the square of the length");
}

void uma_training_assume(const struct uma_training_job *job, const struct uma_train *given, struct uma_estimate *estimate) {
    const struct uma_train *train = job->train;
    double below = 0.04, above = 0.05;
    if (given->loss == UMA_LOSS_DEFAULT)
        above += 0.11, below += 0.05;
    if (given->autocast == UMA_MAYBE)
        above += 0.03, below += 0.02;
    if (train->framework != UMA_FRAMEWORK_TORCH)
        above += 0.04, below += 0.04;
    if (given->checkpointing == UMA_CHECKPOINTING_DEFAULT)
        above += 0.1, below += 0.05;
    if (train->method != UMA_METHOD_FULL && (given->rank == 0 || given->targets == 0))
        above += 0.03, below += 0.02;
    if (train->method == UMA_METHOD_FULL && given->optimizer == UMA_OPTIMIZER_ADAMW && job->ranks > 1)
        above += 0.02;
    if ((given->batch == 0 || given->seq == 0) && given->tokens == 0)
        above += 0.35, below += 0.15;
    if (moe(job->model) || job->model->has_vision || recurrent(job->model))
        above += 0.05, below += 0.05;
    if (job->model->basis == UMA_BASIS_GUESS || !job->model->architecture_known)
        above += 0.1, below += 0.1;
    uint64_t low = uma_scale(estimate->total, 1 - below), high = uma_scale(estimate->total, 1 + above);
    if (low < estimate->low)
        estimate->low = low;
    if (high > estimate->high)
        estimate->high = high;
    if (estimate->device_high < uma_plus(high, estimate->context))
        estimate->device_high = uma_plus(high, estimate->context);
    warnings(job, given, estimate);
}
