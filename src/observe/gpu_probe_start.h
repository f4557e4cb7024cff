/* SPDX-License-Identifier: MIT */
/*
 * gpu_probe_start.h - starting and ending the probe's process. By posix_spawn (vfork underneath), because libuma may live in a program with
 * many threads and gigabytes mapped, where fork is slow and unsafe. The process is named by a pidfd where the kernel has them (5.3), so
 * that a host program which waits for any child cannot make us signal a stranger.
 */
#pragma once

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct uma_probe_process {
    pid_t pid; /* 0: none */
    int pidfd; /* -1: none */
};

/*
 * Start umactl-probe: $UMACTL_PROBE, else in the folder of the running program, else in libexecdir. `library` as for uma_probe_new(). On
 * success the caller owns the process and *ret_fd, its end of the socket (non-blocking). -ENOENT with what was looked for.
 */
int uma_probe_start(const char *library, struct uma_probe_process *ret_process, int *ret_fd, struct uma_error *err);
/*
 * Where a program of umactl's own is that loads what no other process of it may: the place that the variable names is the only one; else beside
 * the running program, else in libexecdir. Nothing is searched in PATH or the current folder.
 */
int uma_probe_program_find(const char *name, const char *variable, char ret_path[PATH_MAX], struct uma_error *err);
/* SIGKILL, without waiting. */
void uma_probe_kill(const struct uma_probe_process *process);
/* True when it is over (or not ours to wait for any more); it is then forgotten, and *status (may be NULL) is as of waitpid, or -1. */
bool uma_probe_reap(struct uma_probe_process *process, int *status);
/* Wait at most `milliseconds` for it to be over: for a process that was killed or closed its socket. */
bool uma_probe_reap_within(struct uma_probe_process *process, int milliseconds, int *status);
