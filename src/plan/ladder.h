/* SPDX-License-Identifier: MIT */
/*
 * ladder.h - what to change when a job does not fit, in the order in which people on these machines climb it: flush the
 * page cache; a loader without the double peak; packing length, then batch; what costs nothing but time; bf16 LoRA before QLoRA; more nodes
 * or a smaller model. Each rung is the job estimated again with all rungs below it climbed. Pure.
 */
#pragma once

#include "plan/fit.h"

enum uma_rung {
    UMA_RUNG_FLUSH = 1, /* the numbers are the answer's "step" */
    UMA_RUNG_LOADER,    /* and the engine's share of the pool */
    UMA_RUNG_LENGTH,
    UMA_RUNG_BATCH,
    UMA_RUNG_SETTING,
    UMA_RUNG_METHOD,
    UMA_RUNG_NODES,
    UMA_RUNG_MODEL,
};

enum { UMA_ADVICE_MAX = 20 };

struct uma_advice {
    enum uma_rung rung;
    char action[UMA_PLAN_TEXT]; /* "shorten the packing length from 4096 to 2048 (--seq 2048)" */
    uint64_t saves;             /* of what leaves the pool; a flush: of page cache, which the total never counted */
    uint64_t then_total;        /* the estimate's total with this and all rungs above it in the list */
    uint64_t then_need;         /* and what the verdict compares: device or load peak */
    bool then_fits;
};

struct uma_ladder {
    struct uma_advice advice[UMA_ADVICE_MAX];
    uint32_t count;
};

/*
 * `reclaimable`: page cache that could be flushed now; unknown where no machine was read. Nothing is advised for a job that fits with its
 * interval's upper end, but for a flush where MemFree (`now`) is less than the need: CUDA allocates from MemFree.
 */
void uma_ladder_climb(const struct uma_model *model, const struct uma_plan_job *job, struct uma_u64 budget, struct uma_u64 now,
                      struct uma_u64 reclaimable, struct uma_ladder *ret_ladder);
