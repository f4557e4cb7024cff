/* SPDX-License-Identifier: MIT */
/* release.h - what comes of a victim: whether its processes are gone, and how much of its memory came back, which on these machines is later than its end. */
#pragma once

#include "guard/loop.h"

/* It was told to end. */
void uma_guard_release_begin(struct uma_guard_loop *loop, const struct uma_guard_action *action, const struct uma_guard_candidate *who,
                             int64_t now);
/* Looks at it; tells the state when it is gone, and the log and the trail when its memory is back. */
void uma_guard_release_look(struct uma_guard_loop *loop, int64_t now);
