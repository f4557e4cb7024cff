/* SPDX-License-Identifier: MIT */
/* recording_table.h - a table of up to 4,096 processes made small enough to be kept: the largest trees, their largest members, and what is left of a tree added to its topmost process, so that what each tree has and grows by stays. Pure, no allocation. */
#pragma once

#include "guard/recording_code.h"

struct uma_guard_small_table {
    struct uma_guard_process list[UMA_GUARD_RECORDED_PROCESSES]; /* the topmost ones first: `tree` is always one before or itself */
    uint64_t sums[UMA_GUARD_PROCESS_MAX];                        /* scratch: what a tree has, at its topmost process */
    int16_t places[UMA_GUARD_PROCESS_MAX];                       /* scratch: in `list`; -1: not there */
};

/* The number of processes in `into->list`. */
size_t uma_guard_table_shrink(const struct uma_guard_process *list, size_t n, struct uma_guard_small_table *into);
