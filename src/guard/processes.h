/* SPDX-License-Identifier: MIT */
/*
 * processes.h - the table of processes: who they are, what only they can give back, how fast it grows, who belongs to whom and who must never be touched. Taken without an allocation, from one listing of
 * /proc and two small files per process (stat, statm; status of those that are large; cgroup of those that are new). 300 processes take about 2 ms, 2,000 about 15: `deadline_ns` bounds it, largest known first.
 * Growth is the difference to the table before, by pid and start. Not thread-safe.
 */
#pragma once

#include "guard/gpu_file.h"
#include "guard/policy.h"

struct uma_guard_processes {
    const char *prefix; /* "" for this machine */
    int proc;           /* folder, -1: not open */
    size_t n;
    int64_t time; /* of the table; 0: none yet */
    bool whole;   /* false: the deadline or the size of the table cut it */
    struct uma_guard_process list[UMA_GUARD_PROCESS_MAX];
    struct uma_guard_processes_before *before; /* private: the table before, and what was read once of each (processes.c) */
};

/* Allocates what is private; -errno. `self`: the guard's pid: it and its ancestors are protected. */
int uma_guard_processes_open(struct uma_guard_processes *processes, const char *prefix, int32_t self);
void uma_guard_processes_close(struct uma_guard_processes *processes);
/* `gpu` may be NULL. `now` and the deadline are CLOCK_MONOTONIC. 0; -errno: the table is as it was. */
int uma_guard_processes_take(struct uma_guard_processes *processes, const struct uma_guard_policy *policy, const struct uma_guard_gpu *gpu,
                             int64_t now, int64_t deadline);
/* The processes of one tree, by index of its root: those whose `tree` it is. At most `max` indices; the number there are. */
size_t uma_guard_processes_tree(const struct uma_guard_processes *processes, int32_t root, int32_t *ret_indices, size_t max);
/* By pid and start; -1. */
int32_t uma_guard_processes_find(const struct uma_guard_processes *processes, int32_t pid, uint64_t start);
