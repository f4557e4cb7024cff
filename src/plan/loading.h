/* SPDX-License-Identifier: MIT */
/*
 * loading.h - what loading a model's weights takes beside the weights themselves: staging memory, page cache, and second copies while
 * weights are repacked. The peak is what the pool must have (MemAvailable); the page cache comes on top of it for MemFree. Pure; reads no
 * file and never allocates. uma_plan_load (uma_plan.h) is the plain case of these functions.
 */
#pragma once

#include "plan/estimate.h"

/* Files of a Hugging Face checkpoint are cut at 5 GB (transformers PR 26942) or, since version 5, at 50 GB (PR 42734), but most published
 * checkpoints are of the older rule. Used only where no file was read. */
#define UMA_LOAD_SHARD_BYTES UINT64_C(5000000000)

/* The loader that an engine takes when none is asked for. */
enum uma_loader uma_load_default(enum uma_engine engine);

/* Bytes of the largest tensor: as read, else as computed from the structure. */
uint64_t uma_load_largest_tensor(const struct uma_model *model);

/*
 * The load of a serving job into its estimate, with warnings about what a loader does to one pool. Beside uma_plan_load it has what the engine
 * does with the weights while loading: the layer held twice while it is repacked (Marlin), the whole unquantised model where quantising comes
 * after the load. Call after the terms are added: weights are read from them.
 */
void uma_load_into(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate);
/* The warnings alone, of an estimate whose load is filled. */
void uma_load_warn(struct uma_estimate *estimate);
