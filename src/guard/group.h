/* SPDX-License-Identifier: MIT */
/*
 * group.h - SIGKILL to a whole control group in one call (cgroup.kill, cgroup v2 since 5.14), where that group holds nobody but the tree that is to end: the kernel kills what forks meanwhile too. No allocation.
 */
#pragma once

#include "guard/tree.h"

struct uma_guard_groups {
    int folder; /* of cgroup v2, -1: there is none */
};

void uma_guard_groups_open(struct uma_guard_groups *groups); /* /sys/fs/cgroup, or its unified/ where v1 is used beside it */
void uma_guard_groups_close(struct uma_guard_groups *groups);
/* Kills the group of `pid` when each of its processes is marked `in` in the scan, and no group is below it. 1: killed; 0: it is not alone there; -errno. `dry_run`: all but the kill. */
int uma_guard_groups_kill(const struct uma_guard_groups *groups, struct uma_guard_scan *scan, int32_t pid, bool dry_run);

/* The path of the v2 group in the text of /proc/PID/cgroup, NUL-terminated and without its leading '/'. False: none, the root, one that leads out, or one too long. Pure. */
bool uma_guard_group_path_parse(const char *text, size_t n, char *ret_path, size_t size);
