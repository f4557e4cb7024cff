/* SPDX-License-Identifier: MIT */
/*
 * cgroup_leaf.h - the cgroup v2 folder that a process is really in: for a container that is a leaf made when it started, which limits on the groups above do not always reach. Reads
 * /proc/PID/cgroup and the mount table; changes nothing.
 */
#pragma once

#include "base/root.h"

#include <sys/types.h>

/*
 * Full path of the folder ("/sys/fs/cgroup/system.slice/docker-ID.scope"). -ENOENT: no such process, or cgroup v2 is not mounted; -EXDEV: its group is not below the mount as it is seen from here (a container's view);
 * -EINVAL: it is in the root, which holds the whole machine.
 */
int uma_cgroup_leaf_of(struct uma_root *root, pid_t pid, char *ret_path, size_t size, struct uma_error *err);
/* A folder that was named by hand: below the mount of cgroup v2 and not its root. The same errors. */
int uma_cgroup_leaf_check(struct uma_root *root, const char *path, struct uma_error *err);
