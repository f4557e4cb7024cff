/* SPDX-License-Identifier: MIT */
/*
 * window_helper.h - the helper that is preloaded into a job (src/window/): whether it is needed, the socket that it looks for, and the job's environment with it.
 * Changes nothing of umactl's own environment. What cannot be had is said in words, and the job runs without it.
 */
#pragma once

#include "base/error.h"
#include "cache/follow.h"
#include "job/job_environment.h"
#include "job/window_folder.h"
#include "record/run_record.h"

#include <stdbool.h>

enum uma_window_helper_when {
    UMA_WINDOW_HELPER_AUTO, /* where umactl may not page out of its own child */
    UMA_WINDOW_HELPER_ALWAYS,
    UMA_WINDOW_HELPER_NEVER
};

struct uma_window_helper {
    const char *use;                    /* static, for the record: "preloaded", "not needed", "never", "unavailable" */
    char note[UMA_RUN_LOAD_NOTE];       /* why it is preloaded, why it cannot be, or what is not done without it; "" */
    bool failed;                        /* it cannot be used, and the note says why: somebody should know */
    struct uma_follow_helpers *helpers; /* NULL: it is not preloaded */
    struct uma_window_folder folder;    /* of the socket */
};

/* Never fails. Before the job and before any thread: it makes a child for a moment, to ask the kernel what umactl may do to one. What the helper needs is put into the job's environment. */
void uma_window_helper_prepare(enum uma_window_helper_when when, struct uma_job_environment *environment,
                               struct uma_window_helper *ret_helper);
/* Close the socket, remove the folder. A zeroed one is done. */
void uma_window_helper_done(struct uma_window_helper *helper);

/* "auto", "always", "never"; -EINVAL. */
int uma_window_helper_parse(const char *s, enum uma_window_helper_when *ret_when, struct uma_error *err);
