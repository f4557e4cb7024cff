/* SPDX-License-Identifier: MIT */
/* warn.h - hand a warning on to the jobs of a tree that asked for one: to their umactl, by a signal and nothing else (guard/warn_marker.h). */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct uma_helper_warned {
    unsigned told;   /* umactl runs that got the signal */
    unsigned failed; /* marks of the tree whose umactl could not be told */
};

/* Those whose umactl is in the tree of `pid` (with this start), is it, or is above it. -ESRCH: that process is gone. */
int uma_helper_warn(const char *folder, int32_t pid, uint64_t start, struct uma_helper_warned *ret_warned, struct uma_error *err);
