/* SPDX-License-Identifier: MIT */
/*
 * cgroup_scope.h - a control group of a job's own, for exact accounting and for finding all of its processes. It only ever makes and
 * removes empty groups that it named itself, next to or below umactl's own group, sets no limit, and moves nobody: the job's first process
 * enters by itself. Where that is not possible there is no group, and a reason.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"
#include "uma.h"

#include <stdbool.h>
#include <sys/types.h>

struct uma_cgroup_scope {
    int version;     /* hierarchy of the memory controller: 1, 2; 0 none */
    bool memory;     /* memory.* files are there */
    int dir_fd;      /* -1: no group */
    int procs_fd;    /* open for writing: a process that writes "0" enters */
    char path[4200]; /* of the folder under the mount */
    char parent[4200];
    char name[128];
    char note[200]; /* why there is none, or none with memory accounting */
};

/* What the kernel says of the group. `anon` and `shmem` count a shared page once. */
struct uma_cgroup_usage {
    struct uma_u64 current, peak, anon, shmem, swap, oom_kill;
};

/* `name` must be a clean file name. Never fails: without a group dir_fd is -1 and note says why. Removes empty groups of umactl runs that
 * were killed. */
void uma_cgroup_scope_create(const char *name, struct uma_cgroup_scope *ret_scope);
/* The same below a folder that is laid out as a machine (proc/self/cgroup, sys/fs/cgroup); "": this machine. */
void uma_cgroup_scope_create_in(const char *root, const char *name, struct uma_cgroup_scope *ret_scope);
/*
 * A group of the unified hierarchy (cgroup v2), whatever the memory controller stands on, with the name as it is given: for what only that hierarchy has. Groups of that name are not
 * removed by the functions above.
 */
void uma_cgroup_scope_create_unified(const char *root, const char *name, struct uma_cgroup_scope *ret_scope);
void uma_cgroup_scope_usage(const struct uma_cgroup_scope *scope, struct uma_cgroup_usage *ret_usage);
/* Anonymous and shared memory alone, one small file: for whoever looks often. */
struct uma_u64 uma_cgroup_scope_memory(const struct uma_cgroup_scope *scope);
/* Calls `each` for every process in the group and in groups the job made right below it (at most 256). */
void uma_cgroup_scope_processes(const struct uma_cgroup_scope *scope, void (*each)(void *userdata, pid_t pid), void *userdata);
/* Remove the group when it is empty. 0, or -EBUSY: it holds processes still, and stays. */
int uma_cgroup_scope_remove(struct uma_cgroup_scope *scope);
