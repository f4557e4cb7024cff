/* SPDX-License-Identifier: MIT */
/* guard_replay.h - readings through the decision once more: what a recording (guard_replay.c) and a series (guard_series.c) share. */
#pragma once

#include "cmd/guard.h"

struct uma_guard_replaying {
    int64_t since;
    const struct uma_guard_policy *given;
    struct uma_guard_policy policy; /* settled for the machine of the reading */
    uint64_t settled_for;
    struct uma_guard_state state;
    struct uma_guard_history history;
    struct uma_guard_decision decision;
    bool in_episode;
    uint64_t from, lowest; /* of the episode: headroom at its beginning and since */
    int64_t lowest_at;     /* CLOCK_REALTIME */
    struct uma_guard_replay *result;
    /* Where a table is wanted: puts one of this moment into the view, or says that there is none. NULL: there is what the view has. */
    bool (*take_table)(void *userdata, struct uma_guard_view *view);
    void *userdata;
};

/* The next reading. Returns 0; its type is that of those who call it. */
int uma_guard_replay_next(void *userdata, const struct uma_guard_view *view, int64_t real);
