/* SPDX-License-Identifier: MIT */
/*
 * load_window.h - `umactl run --load-window` and `--keep-free`: the job's load is followed (cache/follow.h) by a thread of umactl, which writes what came of it into the record and
 * says one line when loading is over. Nothing that fails here is felt by the job.
 */
#pragma once

#include "base/error.h"
#include "job/watch.h"
#include "job/window_helper.h"

struct uma_load_window_options {
    uint64_t window, keep_free; /* bytes, 0: not asked for */
    enum uma_window_helper_when helper;
    bool quiet;
};

struct uma_load_window;

/* Before the job and any thread. NULL: not asked for, or no memory (told). Fills run->load; what the job needs for it is put into its environment. */
struct uma_load_window *uma_load_window_prepare(const struct uma_load_window_options *options, struct uma_job_environment *environment,
                                                struct uma_run *run);
/* The job runs: follow it. */
void uma_load_window_start(struct uma_load_window *load, pid_t pid);
/* At every sample: when loading has come to its end, tell it and write it down, once. */
void uma_load_window_check(struct uma_load_window *load, struct uma_watch *watch);
/* The job has ended (or never began: watch NULL): end the following, write it down, remove the socket. Waits at most two seconds. NULL is fine. */
struct uma_load_window *uma_load_window_stop(struct uma_load_window *load, struct uma_watch *watch);
