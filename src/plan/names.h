/* SPDX-License-Identifier: MIT */
/* names.h - what users call methods, optimizers, engines and frameworks: one table per enumeration, for options, answers and text. */
#pragma once

#include "uma_plan.h"

/* Index = the enumeration's value; NULL where a value has no name of its own (a default). Tables end with their ..._COUNT. */
extern const char *const uma_method_names[UMA_METHOD_QLORA + 1];
extern const char *const uma_objective_names[UMA_OBJECTIVE_COUNT];
extern const char *const uma_optimizer_names[UMA_OPTIMIZER_COUNT];
extern const char *const uma_checkpointing_names[UMA_CHECKPOINTING_COUNT];
extern const char *const uma_attention_names[UMA_ATTENTION_COUNT];
extern const char *const uma_loss_names[UMA_LOSS_COUNT];
extern const char *const uma_framework_names[UMA_FRAMEWORK_COUNT];
extern const char *const uma_shard_names[UMA_SHARD_COUNT];
extern const char *const uma_engine_names[UMA_ENGINE_COUNT];
extern const char *const uma_loader_names[UMA_LOADER_COUNT];
extern const char *const uma_logits_names[UMA_LOGITS_COUNT];
extern const char *const uma_term_names[UMA_TERM_COUNT]; /* "weights", "kv_cache": the keys of the answer's "steady" */
extern const char *const uma_basis_names[UMA_BASIS_GUESS + 1];

/* The index of `name` among `n` names, or -1. Case and '_' for '-' do not matter; what
 * other programs call the same thing is understood (adamw_torch, trl, llamacpp). */
int uma_name_find(const char *const *names, size_t n, const char *name);
/* names[value], or "default" where it has none. */
const char *uma_name_of(const char *const *names, size_t n, unsigned value);
