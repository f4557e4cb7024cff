/* SPDX-License-Identifier: MIT */
/* kinds.h - the kinds of machines that the decision is tried on, each with what is true of it. */
#pragma once

#include "guard/machine.h"

enum { GUARD_SLEEPS_MOST = 1000 };

struct trial {
    struct machine m;
    struct uma_guard_policy policy;
    bool healthy;                /* nobody is to be touched */
    bool brakes_spared;          /* healthy, and nearer to the floor than the horizon: a stop is no mistake, an end is */
    double must_by;              /* the guilty one is to be stopped before headroom is here */
    bool hopeless;               /* the machine may freeze: what counts is who is left alone */
    bool envelopes;              /* the machine's envelope is told */
    int64_t warm, most;          /* until everything begins, until it ends */
    int64_t sleep_at, sleep_for; /* the guard itself is kept waiting */
    int server;                  /* the large innocent one; -1: none */
};

struct kind {
    const char *name, *words;
    void (*make)(struct trial *t);
};
extern const struct kind kinds[];
extern const size_t n_kinds;

/* A machine of some size with what stands on every one, and a trial that nothing happens in yet. */
void trial_begin(struct trial *t, uint64_t seed);
