/* SPDX-License-Identifier: MIT */
/*
 * dry_run.h - what a guard that does nothing may say that it would have done. A decision goes on from what was done before it; on a machine where nothing was, only the first action of an episode says something, and all that would follow
 * (whom it would stop next, whom it would kill because the stop did not help) would be decided of a machine that there never was. So one action is told, with those that were decided at the same moment, and then nothing on anybody until the
 * danger is over: headroom is back, or has sunk no further for a minute. Requests for room are told whenever they would be made. Pure.
 */
#pragma once

#include "guard/decide.h"

struct uma_guard_dry_run { /* zeroed at the start */
    bool in_episode;
    uint64_t from, lowest; /* headroom at the first action, and since */
    int64_t lowest_at;
};

/*
 * After each decision: leaves in it what may be told, and has the state say that nobody was stopped, warned or ended. `headroom` as the decision saw it. True: an episode is over with this decision; dry_run->lowest is what it came to.
 */
bool uma_guard_dry_run_follow(struct uma_guard_dry_run *dry_run, const struct uma_guard_policy *policy, uint64_t headroom, int64_t now,
                              struct uma_guard_state *state, struct uma_guard_decision *decision);
