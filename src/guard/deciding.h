/* SPDX-License-Identifier: MIT */
/* deciding.h - what the parts of one decision share: decide.c, brake.c, victim.c. Lives for one call, on its stack. */
#pragma once

#include "base/units.h"
#include "guard/choose.h"

struct uma_guard_deciding {
    struct uma_guard_state *state;
    const struct uma_guard_history *history;
    const struct uma_guard_policy *policy;
    const struct uma_guard_view *view;
    struct uma_guard_decision *decision;
    int64_t now;
    uint64_t release;    /* headroom at which stopped trees go on */
    bool alarm;          /* danger, and nothing excuses it */
    bool explained;      /* trees and fall are of a table that is fresh enough to act on */
    uint32_t unbrakable; /* culprits that may not be stopped */
    uint32_t endable;    /* those of them that may be ended */
    bool too_long,
        too_often; /* a stopped tree's time is over, and the machine is below the hard floor; stopped again and again, and below the line */
    struct uma_guard_danger danger;
    struct uma_guard_fall fall;
    size_t n;
    struct uma_guard_tree trees[UMA_GUARD_TREES];
};

/* False: there is no room for another in this decision. */
bool uma_guard_act(struct uma_guard_deciding *c, enum uma_guard_action_kind kind, enum uma_guard_reason reason, int32_t pid, uint64_t start,
                   uint64_t bytes);
int64_t uma_guard_nanoseconds(double seconds); /* bounded */

/* brake.c: lets go whoever may; stops whoever explains the fall. */
void uma_guard_brake_release(struct uma_guard_deciding *c);
void uma_guard_brake_culprits(struct uma_guard_deciding *c);
/* Stops one who may be to blame where nobody's growth is seen; false: there is nobody, or what the last stop did is to be seen first. */
bool uma_guard_brake_suspect(struct uma_guard_deciding *c);
/* Lets one go because of `reason`, where it is stopped. */
void uma_guard_brake_let_go(struct uma_guard_deciding *c, int32_t pid, uint64_t start, enum uma_guard_reason reason);
/* Whether what came of the last stop can be seen by now. */
bool uma_guard_brake_settled(const struct uma_guard_deciding *c);

/* victim.c: the next step with the one that there is; another one, where it is due. */
void uma_guard_victim_follow(struct uma_guard_deciding *c);
void uma_guard_victim_begin(struct uma_guard_deciding *c);
