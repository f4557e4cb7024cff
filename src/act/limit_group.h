/* SPDX-License-Identifier: MIT */
/*
 * limit_group.h - the cgroup v2 groups that umactl makes for the driver's limits. Their names say whose they are (umactl_limit-PID-START-SERIAL), so that what a killed umactl
 * left is found by the next one: a group whose owner is gone and that holds nobody loses its limit and goes. One that holds processes still keeps both: their limit is what
 * was asked for. Only groups of that name are ever touched.
 */
#pragma once

#include "act/cgroup_scope.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A group of this process's own, `serial` apart from its others. Without one dir_fd is -1, and note says why. */
void uma_limit_group_create(unsigned serial, struct uma_cgroup_scope *ret_scope);
/* Does a process have it? Unknown counts as yes. */
bool uma_limit_group_is_used(const struct uma_cgroup_scope *scope);

/*
 * Every group below the mount of cgroup v2 whose owner is gone and that holds nobody: `each` with its full path, and then it is removed; false from it ends the search, and this one stays.
 * Looks at no more than 20,000 folders. The number removed. An owner in another PID namespace looks gone: its group is safe only once a process is in it.
 */
unsigned uma_limit_group_sweep(bool (*each)(void *userdata, const char *path), void *userdata);

/* Whose a group of this name is: true, and the owner's process number and start in clock ticks. Pure. */
bool uma_limit_group_name_parse(const char *name, pid_t *ret_pid, uint64_t *ret_start);
