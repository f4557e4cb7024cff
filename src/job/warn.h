/* SPDX-License-Identifier: MIT */
/*
 * warn.h - what a job wants to be told before the guard ends it (umactl run --warn): a signal, or a file that is written. The guard tells this umactl by a realtime signal (guard/warn_marker.h), and umactl
 * does it, with the job's own user's rights. A warning never ends a process: the signal goes to those of the job that catch or block it, and of these not to what is below another one.
 */
#pragma once

#include "base/error.h"
#include "guard/warn_marker.h"

#include <stdbool.h>
#include <stddef.h>

struct uma_job;
struct uma_tree_process;

struct uma_job_warn_options {
    int signal;       /* 0: none */
    const char *file; /* NULL: none */
};
static inline bool uma_job_warn_wanted(const struct uma_job_warn_options *options) {
    return options->signal || options->file;
}

/* "USR1", "SIGUSR1" or "10" is a signal; what has a '/' in it is a file. Each may be given once. -EINVAL. */
int uma_job_warn_parse(const char *s, struct uma_job_warn_options *options, struct uma_error *err);
/* Can the file be written, as far as can be told beforehand? 0, -errno. */
int uma_job_warn_file_check(const char *path, struct uma_error *err);

/* Before the first thread: the signal that the guard sends is taken, too. */
int uma_job_warn_take(struct uma_job *job, struct uma_error *err);
/* From here on the guard can tell. What goes wrong is told, and the job runs. */
void uma_job_warn_begin(struct uma_job *job);
/* The guard told: hand it on. */
void uma_job_warn(struct uma_job *job);
void uma_job_warn_end(struct uma_job *job);

/* Which of `n` processes (sorted by pid) get it: those that await it and are not below one that does. ret_chosen[i]; the number of them. Pure. */
size_t uma_job_warn_choose(const struct uma_tree_process *list, const bool *awaits, size_t n, bool *ret_chosen);
