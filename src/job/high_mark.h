/* SPDX-License-Identifier: MIT */
/*
 * high_mark.h - how much anonymous and shared memory a job had at its highest moment up to a reading. The kernel has no high mark of that. It has two of sums that
 * hold other things too: of a process' resident memory, with the files that it maps, and of what a group is charged for, with page cache and the kernel's own. How
 * much of such a sum was something else when it was highest is not kept: page cache that came and was evicted between two readings is in the mark and in
 * neither of them. So what was there is known from readings alone, and a mark is only ever a limit. Two answers: least, most. Pure.
 */
#pragma once

#include "uma.h"

/* What one reading saw. */
struct uma_high_mark {
    struct uma_u64
        memory; /* anonymous and shared, now; without a group an estimate, with the part that is shared as it was found some time ago */
    struct uma_u64
        counted; /* the same, but each page once, and as it is at this moment: the group's own figure, or the proportional shares just read */
    struct uma_u64 largest;    /* of one process alone, where a page is counted once in any case */
    uint64_t between;          /* the highest `counted` that was read since the reading before, 0: none */
    uint64_t fall;             /* so much more of one process was resident at some moment since the reading before: VmHWM less VmRSS */
    struct uma_u64 group_peak; /* the group's mark since the job began; unknown where the group does not count all of the job */
};

/* Never above what was there. Unknown where nothing was seen, which is not to say that nothing was there. */
struct uma_u64 uma_high_mark_least(const struct uma_high_mark *m);
/* With a group: memory was never above this, its mark. Without: as if all that was resident beyond now had been memory; what several processes, or some that ended
 * unseen, had at the same moment is not in it. */
struct uma_u64 uma_high_mark_most(const struct uma_high_mark *m);
/* The same from a group alone; unknown without one. */
struct uma_u64 uma_high_mark_group_most(const struct uma_high_mark *m);
