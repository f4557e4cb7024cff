/* SPDX-License-Identifier: MIT */
/* What actions and reasons are called wherever people read them. */
#include "guard/decide.h"

static const char *const actions[] = {
    [UMA_GUARD_NOTHING] = "nothing",
    [UMA_GUARD_ROOM] = "room",
    [UMA_GUARD_BRAKE] = "brake",
    [UMA_GUARD_RELEASE] = "release",
    [UMA_GUARD_WARN] = "warn",
    [UMA_GUARD_TERM] = "term",
    [UMA_GUARD_KILL] = "kill",
    [UMA_GUARD_UNKILLABLE] = "unkillable",
    [UMA_GUARD_LAST_RESORT] = "last resort",
};

static const char *const reasons[] = {
    [UMA_GUARD_NO_REASON] = "no reason",
    [UMA_GUARD_BELOW_FLOOR] = "below the floor and falling",
    [UMA_GUARD_WILL_REACH_FLOOR] = "will reach the floor",
    [UMA_GUARD_STALLED] = "below the floor, and programs wait for memory",
    [UMA_GUARD_CACHE_IN_THE_WAY] = "page cache is in the way",
    [UMA_GUARD_BLOCKS_SHORT] = "free memory is in small pieces",
    [UMA_GUARD_BRAKED_TOO_LONG] = "stopped too long",
    [UMA_GUARD_BRAKED_TOO_OFTEN] = "stopped too often",
    [UMA_GUARD_NOBODY_TO_BRAKE] = "whoever grows may not be stopped",
    [UMA_GUARD_BELOW_HARD_FLOOR] = "below the hard floor",
    [UMA_GUARD_HEADROOM_BACK] = "headroom is back",
    [UMA_GUARD_NOT_THE_ONE] = "it was another one",
    [UMA_GUARD_DID_NOT_END] = "did not end",
    [UMA_GUARD_NOT_RELEASED] = "its memory did not come back",
};

bool uma_guard_acts_on_somebody(enum uma_guard_action_kind kind) {
    return kind == UMA_GUARD_BRAKE || kind == UMA_GUARD_WARN || kind == UMA_GUARD_TERM || kind == UMA_GUARD_KILL ||
           kind == UMA_GUARD_LAST_RESORT;
}

const char *uma_guard_action_word(enum uma_guard_action_kind kind) {
    return (unsigned)kind < sizeof(actions) / sizeof(actions[0]) && actions[kind] ? actions[kind] : "unknown";
}

const char *uma_guard_reason_word(enum uma_guard_reason reason) {
    return (unsigned)reason < sizeof(reasons) / sizeof(reasons[0]) && reasons[reason] ? reasons[reason] : "unknown";
}
