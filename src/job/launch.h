/* SPDX-License-Identifier: MIT */
/*
 * launch.h - start the job: a process group of its own, its cgroup, the terminal, umactl's inherited signal state, and no descriptor of
 * umactl's. Standard streams are the very descriptors that umactl was given.
 */
#pragma once

#include "act/cgroup_scope.h"
#include "base/error.h"
#include "job/signals.h"
#include "job/terminal.h"

struct uma_launch {
    char *const *argv;
    char *const *environment; /* the job's; NULL: umactl's own */
    const struct uma_signals *signals;
    struct uma_terminal *terminal;
    const struct uma_cgroup_scope *scope;
    const struct uma_cgroup_scope *limit_scope; /* the group that the driver holds to a limit; NULL: none */
    bool limit_needed;                          /* nothing else holds it: outside of that group the job does not begin */
    bool die_with_umactl;                       /* PR_SET_PDEATHSIG */
};

struct uma_launched {
    pid_t pid;
    int exec_errno;   /* why it could not be executed, 0: it runs */
    int cgroup_errno; /* why it is not in its group, 0 */
    int limit_errno;  /* why the driver's limit does not reach it, 0; where it is needed, exec_errno says the same */
};

/* 0 also when exec failed (the child is reaped then). -errno: no process could be made. */
int uma_job_launch(const struct uma_launch *launch, struct uma_launched *ret_launched, struct uma_error *err);
/* What env(1) and shells answer: 127 not found, 126 not executable. */
int uma_exec_status(int exec_errno);
