/* SPDX-License-Identifier: MIT */
/*
 * high_mark.h - how much anonymous and shared memory a job had at its highest moment between two readings. The kernel keeps high marks of two sums only: of a process'
 * resident memory, which holds the files it maps, and of what a group is charged for, which holds page cache. So there are two answers: what is known to have been
 * there, and what it cannot have been above. Pure.
 */
#pragma once

#include "uma.h"

/* What one reading saw. All zeros: before the first. */
struct uma_high_mark {
    struct uma_u64 memory; /* anonymous and shared, now */
    uint64_t fall;         /* so much more of one process was resident at some moment since the reading before: VmHWM less VmRSS */
    struct uma_u64 group, group_peak; /* what the group is charged for now and at most; unknown where it does not count all of the job */
};

/*
 * `ret_least`: memory as it was read; and where the group's mark rose since `before`, that mark less what was charged for anything else, which is taken not to have
 * been more in between than at both readings. `ret_most`: as if all that was resident beyond now had been memory; and not above the group's mark less
 * what it was charged for anything else. A loader that maps a file and copies it is what sets them apart.
 */
void uma_high_mark(const struct uma_high_mark *before, const struct uma_high_mark *now, struct uma_u64 *ret_least,
                   struct uma_u64 *ret_most);
/* The group's part of the latter alone; unknown without a group. */
struct uma_u64 uma_high_mark_group_most(const struct uma_high_mark *before, const struct uma_high_mark *now);
