/* SPDX-License-Identifier: MIT */
/*
 * driver_limit.h - the driver's own limit on what the processes of a cgroup v2 folder take (NVML SetMemoryLimits, driver r615 and newer; observe/driver_limits.h has the sources and what of them was
 * checked). Set on every GPU and read back; taken back with the soft limit first. Root's alone. It never makes, removes or fills a group, and believes nothing that was not read back;
 * whether the driver then really refuses is for whoever measures it (job/limit_probe.h).
 */
#pragma once

#include "observe/driver_limits.h"

#include <stdbool.h>

struct uma_driver_limit_place {
    const char *library; /* NULL: the loader's search */
    const char *cgroup;  /* full path of the folder */
};

/* `ret_limits`: what was read back, or the state of what failed. 0; -EIO: refused; -EBADMSG: taken, and another limit, or none, was read back. Then no limit that this call set is left, but a soft limit that was above it stays lowered. */
int uma_driver_limit_set(const struct uma_driver_limit_place *place, uint64_t limit, struct uma_driver_limits *ret_limits,
                         struct uma_error *err);
/* No limit any more: soft first, which was added to the groups above, then hard. 0; -EIO. */
int uma_driver_limit_release(const struct uma_driver_limit_place *place, struct uma_driver_limits *ret_limits, struct uma_error *err);

/* Is that what every GPU holds the folder to? A driver that keeps whole pages may have rounded down, by less than 2 MiB. Pure. */
bool uma_driver_limit_is(const struct uma_driver_limits *limits, uint64_t limit);
/* Why it was refused, and what to do about it, in words. Pure. */
void uma_driver_limit_explain(const struct uma_driver_limits *limits, char *ret_text, size_t size);
