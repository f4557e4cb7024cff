/* SPDX-License-Identifier: MIT */
/*
 * gpu_watch.h - GPU and board sensors at a steady pace, off the job's loop. A thread with an observer of its own asks once per period; whatever it
 * has to wait for (a probe that hangs, a slow firmware sensor), memory goes on being sampled and signals go on being forwarded. NVML stays in the probe process.
 */
#pragma once

#include "base/error.h"
#include "uma.h"

#include <stdbool.h>

enum { UMA_GPU_USERS_MAX = 256 }; /* processes with GPU memory that are looked at, largest machines run tens */

struct uma_gpu_user {
    int32_t pid;
    struct uma_u64 bytes;
    bool compute;
};

/* The last answer. Of several GPUs: heat, power and clocks of the first, bytes of all. */
struct uma_gpu_reading {
    enum uma_validity validity; /* KNOWN: answered; ABSENT: no GPU that can be asked; STALE, FAILED: no answer this time */
    bool hung;
    int64_t time_ns; /* when the values were read, 0: never */
    int64_t
        folder_ns; /* the machine is a folder: its time, against which the answer has its age; 0: this machine, whose time is the clock's */
    uint64_t answers; /* how many came: a new one is a new number */
    char detail[160];
    struct uma_f64 celsius, margin, watts, utilization;
    struct uma_u64 sm_hertz, sm_max_hertz, reasons;
    struct uma_i64 pstate;
    struct uma_f64 throttle_seconds[UMA_THROTTLE_MAX];
    struct uma_f64 board_celsius; /* the hottest thermal zone */
    enum uma_validity users_validity;
    unsigned n_users;
    struct uma_gpu_user users[UMA_GPU_USERS_MAX];
};

/* What a snapshot says, in this form; `reading->answers` and the time of the last answer are kept when it has no fresh one. `folder`: the snapshot is of
 * a folder (--root), not of this machine now. Pure. */
void uma_gpu_reading_update(struct uma_gpu_reading *reading, const struct uma_snapshot *snapshot, bool folder);
/* How old the last answer is at `now_ns` (CLOCK_REALTIME), in seconds. In a folder nothing ages: an answer is as old as it was when the folder was made. */
struct uma_f64 uma_gpu_reading_age(const struct uma_gpu_reading *reading, int64_t now_ns);

struct uma_gpu_watch;
/* All signals must be blocked in the caller, so that the thread gets none. NULL with err set: go on without. `by_process`: per-process bytes come from the process list
 * (amdgpu), which is then read too. */
struct uma_gpu_watch *uma_gpu_watch_start(const struct uma_observe_options *options, double period, bool by_process, struct uma_error *err);
void uma_gpu_watch_latest(struct uma_gpu_watch *watch, struct uma_gpu_reading *ret_reading);
/* Ends the thread. One that is waiting for a hung probe is left to itself after 0.2 s and ends with the process. Returns NULL. */
struct uma_gpu_watch *uma_gpu_watch_stop(struct uma_gpu_watch *watch);
