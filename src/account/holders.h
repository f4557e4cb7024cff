/* SPDX-License-Identifier: MIT */
/*
 * holders.h - who has the pool: processes ranked by GPU bytes + anonymous memory + mapped shared memory (shared memory counts for each
 * process that maps it: this is a ranking, not a sum). Listed are all that hold GPU memory of the pool, recognised engines and trainers
 * from 64 MiB on, and others from 0.5 % of the machine (at least 64 MiB) on; at most 64. A process that the driver still lists and /proc no longer does,
 * or only as a zombie, is `exited`: its memory is on its way back. Pure.
 */
#pragma once

#include "account/gpu_share.h"
#include "base/arena.h"
#include "uma.h"

enum { UMA_HOLDERS_MAX = 64 };
/* Parents that are followed. Process trees are shallow; a ring of parents (pids are reused while we read) ends here. */
enum { UMA_ANCESTORS_MAX = 16 };

/* Processes by pid, whatever order the snapshot has them in. */
struct uma_process_index {
    const struct uma_processes *processes;
    const uint32_t *order; /* NULL: the list is sorted */
    bool all_visible;      /* the reader saw other users' processes too (no hidepid) and its pids are the host's */
};

/* 0 or -ENOMEM. */
int uma_process_index_build(const struct uma_snapshot *snapshot, struct uma_arena *arena, struct uma_process_index *ret_index);
const struct uma_process *uma_process_find(const struct uma_process_index *index, int32_t pid);

/* 0 or -ENOMEM. */
int uma_holders_build(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share, const struct uma_process_index *index,
                      struct uma_arena *arena, struct uma_holder **ret_holders, size_t *ret_n);
/* GPU + anonymous + shared bytes, as far as they are known. */
uint64_t uma_holder_rank_bytes(const struct uma_holder *holder);
