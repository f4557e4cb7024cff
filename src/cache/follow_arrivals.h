/* SPDX-License-Identifier: MIT */
/*
 * follow_arrivals.h - which of a file's chunks that came into memory were read, when only the count of bytes read is known (pread(2) in an order of the job's own).
 * The kernel reads ahead of every jump, up to megabytes for a tensor, so more comes than is read. What came first is taken for read first, and no more than the
 * count covers: what was just read ahead is not yet. A guess that was wrong evicts what the job comes to later, and costs reading it from the disk again; but each
 * byte is paid for once, so what comes back takes nothing from the count, and the rest gets what it lacked. A function of what was seen; touches nothing.
 */
#pragma once

#include "cache/follow_decide.h"

#include <stddef.h>
#include <stdint.h>

struct uma_follow_arrival {
    size_t chunk;
    uint32_t since; /* set by uma_follow_attribute(): the look that saw it first */
    uint32_t bytes; /* of it that are in memory, without what stayed when it was evicted */
};

/*
 * One look: `list` is every chunk of which something is in memory, in any order, and is sorted here. `*budget` is what was read since, and is lowered by what was found. Returns the
 * bytes that are new among those held.
 */
uint64_t uma_follow_attribute(struct uma_follow_window *window, struct uma_follow_file *file, struct uma_follow_arrival *list, size_t n,
                              uint64_t *budget, int64_t now_ns);
