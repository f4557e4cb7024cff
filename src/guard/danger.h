/* SPDX-License-Identifier: MIT */
/*
 * danger.h - is the machine in danger? A level and a movement that only memory which nobody can take back explains, or a level and a stall: never one of them alone. Pure.
 *
 * The level is that of the floor, or below it where the machine has stood for long (history.h): there the line is the lower end of what it wanders by itself.
 * The movement is that of available memory, never of free memory: page cache that grows takes only from the latter.
 */
#pragma once

#include "guard/decide.h"

enum uma_guard_signal {
    UMA_GUARD_SIGNAL_BELOW_LINE = 1u << 0,    /* headroom is below the line */
    UMA_GUARD_SIGNAL_BELOW_FLOOR = 1u << 1,   /* ... below the floor, whatever the line */
    UMA_GUARD_SIGNAL_BELOW_HARD = 1u << 2,    /* ... below the hard floor */
    UMA_GUARD_SIGNAL_FALLING = 1u << 3,       /* available memory falls by more than jitter */
    UMA_GUARD_SIGNAL_WILL_REACH = 1u << 4,    /* and is at the line within the horizon */
    UMA_GUARD_SIGNAL_DRIFT = 1u << 5,         /* it stood, below the floor or near it, and has sunk since by more than it wanders */
    UMA_GUARD_SIGNAL_FELL_OUT = 1u << 6,      /* it fell out of the level at which it had stood */
    UMA_GUARD_SIGNAL_ALLOCSTALL = 1u << 7,    /* programs wait in the allocator for pages to be freed */
    UMA_GUARD_SIGNAL_RECLAIM_VAIN = 1u << 8,  /* ... which finds little */
    UMA_GUARD_SIGNAL_PRESSURE = 1u << 9,      /* PSI says that work waits for memory */
    UMA_GUARD_SIGNAL_SWAP_IN = 1u << 10,      /* what was swapped out is wanted again */
    UMA_GUARD_SIGNAL_COMPACTION = 1u << 11,   /* programs wait for compaction */
    UMA_GUARD_SIGNAL_REFUSED = 1u << 12,      /* the driver was refused memory: evidence, and never more (healthy starts show it too) */
    UMA_GUARD_SIGNAL_STEADY = 1u << 13,       /* the machine stands where it has stood for long */
    UMA_GUARD_SIGNAL_FREE_SHORT = 1u << 14,   /* MemFree is below what is kept for CUDA, and clean cache is plenty */
    UMA_GUARD_SIGNAL_BLOCKS_SHORT = 1u << 15, /* free, but not in blocks of 2 MiB */
    UMA_GUARD_SIGNAL_EXPECTED = 1u << 16,     /* the fall is inside what a job declared */
};

struct uma_guard_danger {
    bool known;  /* there is a reading */
    bool danger; /* by its figures; whose growth it is may still excuse it (choose.h) */
    bool falling, stalled;
    bool drift; /* by nothing but a drift, which is one only where somebody is seen to have grown by it */
    uint32_t signals;
    enum uma_guard_reason reason;
    uint64_t headroom, line, floor, hard_floor, steady;
    double rate;                      /* bytes per second, negative: falling */
    double to_line, to_hard, to_zero; /* seconds at that rate; INFINITY: not falling */
    int64_t since_answer; /* bytes that it fell by since the driver's last answer about its processes; INT64_MAX: there is none */
    double psi_some, psi_full, allocstall;
};

/* What the guard's own stops mean for a history. */
struct uma_guard_stops {
    int64_t since;              /* only what was read from then on says how fast it falls: a tree was stopped then; 0: all */
    uint64_t steady, fell_from; /* the history's; 0 where stopped trees kept the machine at that level */
};
void uma_guard_danger_assess(const struct uma_guard_history *history, const struct uma_guard_policy *policy,
                             const struct uma_guard_stops *stops, struct uma_guard_danger *ret_danger);
/* When to look again: 10 ms near the line, 1 s far from it. */
int64_t uma_guard_danger_wake(const struct uma_guard_danger *danger, uint64_t total);
/* A fall of less than this is jitter. */
uint64_t uma_guard_jitter(uint64_t total);
