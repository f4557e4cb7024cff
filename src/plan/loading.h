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
/* "mmap", "eager", "streamed", "direct"; "default" else. A literal. */
const char *uma_loader_name(enum uma_loader loader);
enum uma_loader uma_loader_from_name(const char *name); /* UMA_LOADER_DEFAULT for an unknown one */

/* How large the files and their largest tensor are: as read, else as computed from the structure. */
uint64_t uma_load_file_bytes(const struct uma_model *model);
uint64_t uma_load_largest_file(const struct uma_model *model);
uint64_t uma_load_largest_tensor(const struct uma_model *model);

/*
 * The load of a serving job: `resident` bytes of weights stay on this rank. Adds to uma_plan_load what the engine does with the weights
 * while loading: the layer held twice while it is repacked (Marlin), the whole unquantised model where quantising comes after the load.
 */
void uma_load_serve(const struct uma_model *model, const struct uma_serve *serve, uint64_t resident, struct uma_load *ret_load);
/* The same into an estimate, with warnings about what a loader does to one pool. Call after the terms are added: weights are read from them. */
void uma_load_into(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *estimate);
/* The warnings alone, of an estimate whose load is filled. */
void uma_load_warn(struct uma_estimate *estimate);
