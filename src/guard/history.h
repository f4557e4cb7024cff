/* SPDX-License-Identifier: MIT */
/*
 * history.h - the readings of the last while, and what follows from several of them: rates, and the steady state that a machine has come to. Pure, of fixed size, no allocation; the same for the
 * live guard, a recorded history and a generated one. Not thread-safe.
 */
#pragma once

#include "guard/reading.h"

enum {
    UMA_GUARD_HISTORY = 512, /* readings; at 10 ms a reading near the floor this is five seconds, at 1 s eight minutes */
};

struct uma_guard_history {
    struct uma_guard_reading ring[UMA_GUARD_HISTORY];
    uint32_t at, n; /* next place, number kept */
    /* The level that the machine has kept without falling: learned slowly, forgotten at once when it falls out of it (history.c says how). 0: none yet. */
    uint64_t steady;
    int64_t steady_since;
    int64_t fell_since;        /* since when that one had been kept */
    uint64_t fell_from;        /* the steady level that it fell out of; 0: it did not, or it has come to another since */
    uint64_t first, low, high; /* of the level that is being learned */
    double mean;               /* of the same */
    uint32_t level_n;          /* readings in it, at most 32 */
    int64_t level_since;       /* when that began */
    bool above;                /* it rose out of the steady level, and a higher one is being learned */
    uint64_t lists;            /* the last known per_cpu: it is read less often than the rest */
    int64_t lists_time;
};

/* How far available memory wanders on a machine where nothing happens: 1/96 of it (history.c says why). */
uint64_t uma_guard_noise(uint64_t total);

/* Adds a copy. A reading that is not later than the newest (a clock that jumped) begins anew after a gap. */
void uma_guard_history_add(struct uma_guard_history *history, const struct uma_guard_reading *reading);
/* The i-th newest, 0 is the newest; NULL: there are not so many. */
const struct uma_guard_reading *uma_guard_history_get(const struct uma_guard_history *history, uint32_t i);
/* What can be had now: available and, where they were seen a short while ago, the lists of the processors. 0 without a reading. */
uint64_t uma_guard_history_headroom(const struct uma_guard_history *history);
/* What it has fallen by since `time` (or since the oldest reading, never across a gap); negative: risen. */
int64_t uma_guard_history_fallen(const struct uma_guard_history *history, int64_t time);

/* What changed over about `window_ns` up to the newest reading, never across a gap. */
struct uma_guard_rates {
    bool known; /* two readings at least half the window apart */
    int64_t span_ns;
    uint32_t n;       /* readings from the first to the last of them */
    double available; /* bytes per second of headroom (with the processors' lists where both ends know them), negative: falling */
    double free;
    double unreclaimable;                                                      /* of total - available: what nobody can take back */
    double allocstall, compact_stall, direct_scan, swap_in, swap_out, refault; /* events or pages per second; NAN: not known */
    double psi_some, psi_full;                                                 /* share of the time, 0 to 1; NAN: not known */
};
void uma_guard_history_rates(const struct uma_guard_history *history, int64_t window_ns, struct uma_guard_rates *ret_rates);
/* The same over the readings from `since` on alone: what came of something that was done then. */
void uma_guard_history_rates_since(const struct uma_guard_history *history, int64_t since, struct uma_guard_rates *ret_rates);
