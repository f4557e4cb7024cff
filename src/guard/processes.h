/* SPDX-License-Identifier: MIT */
/*
 * processes.h - the table of processes: who they are, what only they can give back, how fast it grows, who belongs to whom and who must never be touched. Taken without an allocation: one listing of /proc and
 * one small file per process (stat); status of those that are new, or whose memory moved; cgroup of those that are new, and now and then. processes.c has the figures. A deadline bounds it: first those with GPU
 * memory, then the largest known, then those that are new, then the rest. Not thread-safe.
 *
 * How true it is. The kernel counts the pages of a process in batches (64 pages for each thread until 6.2, for each processor since), so that what is read may be off by that; and memory that only the driver knows is in no file of a
 * process: it comes from the GPU's answers, with their age. Growth is taken over 50 to 100 ms where tables are taken that often, and from one table to the next where they are not, by pid and start. The first table costs four times
 * what the next ones do, and knows of no growth: it is best taken before it is needed.
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

/*
 * Allocates what is private (330 KiB, of which a page is touched for each 50 processes or so); -errno. `self`: the guard's pid: it and its ancestors are protected. Without /proc there is no error yet: taking the
 * table has it, and tries to open it again, at most once a second.
 */
int uma_guard_processes_open(struct uma_guard_processes *processes, const char *prefix, int32_t self);
void uma_guard_processes_close(struct uma_guard_processes *processes);
/*
 * `gpu` may be NULL. `now` and the deadline are CLOCK_MONOTONIC (INT64_MAX: none). 0; -errno: the table is as it was. Where it is not whole, the rows that were not reached are as they were, and new
 * processes may be missing; it goes on there the next time. All of flags is set anew: whoever adds others (UMA_GUARD_STOPPED_BY_US) does so after each table.
 */
int uma_guard_processes_take(struct uma_guard_processes *processes, const struct uma_guard_policy *policy, const struct uma_guard_gpu *gpu,
                             int64_t now, int64_t deadline);
/* By pid and start; -1. */
int32_t uma_guard_processes_find(const struct uma_guard_processes *processes, int32_t pid, uint64_t start);
/* The users' jobs: marks every process below an envelope's umactl (its `pid`, a process of that name and of the user in `uids`) with it; the nearest where jobs run in jobs. After each table. */
void uma_guard_processes_declare(struct uma_guard_processes *processes, const struct uma_guard_envelope *envelopes, const uint32_t *uids,
                                 size_t n);
