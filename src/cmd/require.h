/* SPDX-License-Identifier: MIT */
/* require.h - the decisions of `umactl require`: pure functions of an account and of what was asked. */
#pragma once

#include "uma.h"

struct uma_requirement {
    uint64_t bytes;      /* of the budget */
    uint64_t contiguous; /* bytes in one piece as far as the kernel has such pieces; 0: not asked */
};

/*
 * Free bytes that can serve one request for `size` contiguous bytes. The kernel's allocator gives out blocks of a power of two pages, up
 * to a largest order (buddyinfo's last column), and nothing larger in one piece:
 *   - up to the largest order: the bytes in free blocks that are at least `size`, so 0 when there is none;
 *   - beyond it: the bytes in free blocks of the largest order, which drivers chain (met when they sum up to `size`).
 * The kernel may make larger blocks by compaction, so this is what is there without it; machines with 118 GiB available and no block of
 * 32 MiB have been seen to fail until they were rebooted, compaction or not (sparkring#173). Unknown without buddyinfo or page size.
 */
struct uma_u64 uma_contiguous_free(const struct uma_headroom *headroom, struct uma_u64 page_size, uint64_t size);

/* UMA_YES, UMA_NO, or UMA_MAYBE when a number that decides is unknown. One "no" is enough for no. */
enum uma_truth uma_require_verdict(const struct uma_headroom *headroom, struct uma_u64 page_size, const struct uma_requirement *need);

/*
 * Can no wait help? True when a need is beyond what the machine has at all: its memory less the reserve, or, in one piece, its memory.
 */
bool uma_require_never(const struct uma_headroom *headroom, const struct uma_requirement *need);

/*
 * Seconds until the next look. Released memory comes back within 2-5 s for 92 GB (engine-preflight) but also minutes later
 * (model-serving-minefield, trap 81): look every 0.2 s while the budget moves, back off by half to 1 s while it stands still.
 */
#define UMA_REQUIRE_DELAY_LEAST 0.2
double uma_require_delay(double previous_delay, uint64_t previous_budget, uint64_t budget);
