/* SPDX-License-Identifier: MIT */
/*
 * gpu_share.h - what the GPUs hold of the system's pool, as far as drivers say so: by process and in total, and whether their answer is
 * complete enough to infer anything from what it leaves out. Pure; a GPU with memory of its own outside MemTotal has no share.
 */
#pragma once

#include "base/arena.h"
#include "uma.h"

struct uma_gpu_holder {
    int32_t pid;
    struct uma_u64 bytes; /* summed over the GPUs in the pool */
    bool compute;
};

struct uma_gpu_share {
    bool any;    /* a GPU draws on the pool */
    bool nvidia; /* one of them is driven by NVIDIA's driver */
    size_t n;
    struct uma_gpu_holder *list; /* by pid, one per process */
    uint64_t attributed;         /* bytes that drivers attribute: to processes, or to themselves as a whole (GTT, NvMap, TTM) */
    bool whole;                  /* the latter: more than the processes' sum */
    bool listed;                 /* every GPU in the pool, and one at least, told by process: who is not listed holds none */
    bool complete;               /* every NVIDIA GPU in the pool answered, now, with its list of processes, and that list shows all */
    bool compute_holds;          /* a compute process holds GPU memory */
    struct uma_u64 gtt_left;     /* AMD: gtt_total - gtt_used, summed; UMA_ABSENT without such a GPU */
};

/* Does this GPU draw on MemTotal? Unified ones, and those whose own memory the kernel has onlined as a NUMA node (GH200). */
bool uma_gpu_in_pool(const struct uma_snapshot *snapshot, const struct uma_gpu *gpu);
/* 0, or -ENOMEM. *ret_share points into `arena`. */
int uma_gpu_share_build(const struct uma_snapshot *snapshot, struct uma_arena *arena, struct uma_gpu_share *ret_share);
/*
 * Is there an NVIDIA GPU, whether its library answers or not? One that answered, a loaded kernel driver, or a machine that is nothing
 * without one.
 */
bool uma_nvidia_evident(const struct uma_snapshot *snapshot);
/* The entry of a process, or NULL. */
const struct uma_gpu_holder *uma_gpu_share_find(const struct uma_gpu_share *share, int32_t pid);
