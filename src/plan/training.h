/* SPDX-License-Identifier: MIT */
/*
 * training.h - the parts a training estimate is made of. uma_plan_train checks the job, fills its defaults and hands it to the estimator of its
 * framework: Megatron's, torchtitan's, or the common one for everything that runs on transformers, PEFT, TRL and their relatives, torchtune and
 * litgpt. Each fills the terms of *ret_estimate; what the terms leave open (reserved, context, device) each finishes by its own allocator's habits.
 *
 * Pure; never allocates; never reads the machine.
 */
#pragma once

#include "plan/estimate.h"

/* `train` has been through uma_train_defaults and uma_training_check. Per rank; *ret_estimate is complete on success. */
int uma_plan_train_megatron(const struct uma_model *model, const struct uma_train *train, struct uma_estimate *ret_estimate,
                            struct uma_error *err);
int uma_plan_train_titan(const struct uma_model *model, const struct uma_train *train, struct uma_estimate *ret_estimate,
                         struct uma_error *err);

/* What loading the weights takes, into estimate->load, with its warnings; after the terms of the weights. Nothing where none are read. */
void uma_training_load(const struct uma_model *model, const struct uma_train *train, struct uma_estimate *estimate);

/* Megatron and torchtitan: their own estimators, expert parallelism, random weights to begin with. */
static inline bool uma_training_is_pretrainer(const struct uma_train *train) {
    return train->framework == UMA_FRAMEWORK_MEGATRON || train->framework == UMA_FRAMEWORK_TORCHTITAN;
}

/* Ranks of the job, those that divide the model (tp x pp x cp), and those that hold the same part of it (what these leave). At least 1. */
uint64_t uma_training_ranks(const struct uma_train *train);
uint64_t uma_training_model_parallel(const struct uma_train *train);
uint64_t uma_training_data_parallel(const struct uma_train *train);
/* Tokens of one micro batch on one rank. */
uint64_t uma_training_tokens(const struct uma_train *train);

/* What cannot be: sizes beyond all machines, tensor parallelism beyond the heads, ranks that do not divide. -EINVAL with a message that names the option. */
int uma_training_check(const struct uma_model *model, const struct uma_train *train, struct uma_error *err);
