/* SPDX-License-Identifier: MIT */
/*
 * safetensors_names.h - which tensor names were seen, and in which file: 12 bytes a name whatever its length. A name is kept as its keyed 64-bit
 * hash (SipHash-1-3, Aumasson and Bernstein, under a key of this process): whoever writes a file cannot make names that collide, so neither
 * the time nor the answer depends on who wrote it. By chance two of 1.5 million names collide once in 1.6e7 models.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Most names of one model: the largest checkpoints (92 layers of 896 experts, each with three matrices of four tensors) come to a million. The table
 * is then 24 MiB, three quarters full.
 */
enum { UMA_SAFETENSORS_NAMES_MAX = 3 << 19 };

struct uma_safetensors_names {
    uint64_t key[2];
    uint64_t *hashes; /* 0: free */
    uint32_t *files;
    size_t count, capacity; /* capacity: a power of two, at most three quarters full */
};

/* Starts zeroed. 0: new, and entered with this file. 1: it was there, and *ret_file is its file. -E2BIG, -ENOMEM. */
int uma_safetensors_names_add(struct uma_safetensors_names *names, const char *name, size_t length, uint32_t file, uint32_t *ret_file);
void uma_safetensors_names_done(struct uma_safetensors_names *names);
