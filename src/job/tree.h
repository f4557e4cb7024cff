/* SPDX-License-Identifier: MIT */
/*
 * tree.h - the processes of one job and what they hold. Two ways to find them, used together: the job's own cgroup, and descent (umactl is the
 * subreaper of the job, so a descendant whose parent ended becomes umactl's child and stays findable; setsid and double forks do not get
 * it out). A reading costs one listing of /proc, two small files per process of the job, and one per process that is new on the machine.
 *
 * What is counted: `memory` is what the job took from the pool and only it can give back: anonymous memory and shared memory, each page once.
 * From the cgroup's memory.stat where there is one; else from the processes, where pages shared between them (forked workers, tensors in
 * /dev/shm) are counted by their proportional share (smaps_rollup), read as rarely as its cost asks.
 */
#pragma once

#include "act/cgroup_scope.h"
#include "base/error.h"
#include "uma.h"

#include <stdbool.h>
#include <sys/types.h>

enum { UMA_TREE_MAX = 65536 }; /* processes of one job that are followed */

/* One process of the job. */
struct uma_tree_process {
    pid_t pid, ppid;
    char state;
    uint64_t start_ticks;
    char name[64];
    struct uma_u64 rss, rss_peak, anon, file, shmem, swap;
    double cpu_seconds;
};

/* /proc/PID/stat: pid, state, parent, start, user and system time with those of waited-for children, in ticks. -EINVAL. Pure. */
int uma_tree_stat_parse(const char *text, size_t length, struct uma_tree_process *ret_process, uint64_t *ret_cpu_ticks);
/* /proc/PID/status: VmRSS, VmHWM, RssAnon, RssFile, RssShmem, VmSwap. What is not there (a zombie, a kernel before 4.5) stays unknown. Pure. */
void uma_tree_status_parse(const char *text, size_t length, struct uma_tree_process *process);

struct uma_tree_reading {
    struct uma_u64 memory, anon, shmem, swap, rss, cgroup;
    /* of anonymous and shared memory at the highest moment since the last reading: at least; at most; and the latter as the group alone says it, unknown without one that
     * counts all (job/high_mark.h) */
    struct uma_u64 memory_peak, memory_peak_most, group_most;
    struct uma_u64 rss_peak;
    struct uma_u64 cgroup_peak, oom_kill; /* since the job began */
    uint64_t processes;
    double cpu_seconds; /* of processes that were seen; includes children they waited for */
};

/* A tree that is NULL, because there was no memory for one, has nobody in it and cannot be read: the job goes on unwatched. */
struct uma_tree;
/* `root_pid`: the job. `scope` may have no group; it must outlive the tree. */
struct uma_tree *uma_tree_new(pid_t root_pid, pid_t umactl_pid, const struct uma_cgroup_scope *scope);
struct uma_tree *uma_tree_free(struct uma_tree *tree);
int uma_tree_read(struct uma_tree *tree, struct uma_tree_reading *ret_reading, struct uma_error *err);
/* Between two readings: what the job's group holds now counts for the next one's peak. Cheap; without a group nothing. */
void uma_tree_look(struct uma_tree *tree);
/* The processes of the last reading, by pid. Zombies are not among them. */
size_t uma_tree_processes(const struct uma_tree *tree, const struct uma_tree_process **ret_list);
bool uma_tree_contains(const struct uma_tree *tree, pid_t pid);
