/* SPDX-License-Identifier: MIT */
/*
 * decide.h - the guard's decision: history and policy in, action out. Pure: no system call, no clock, no allocation, nothing but its arguments; so that a recorded or generated history goes through the
 * same code as the live one. The state is what it decided before and what came of it, as the caller reports it.
 *
 * A call adds nothing to the history: the caller adds `view->now` first. It needs about 100 KiB of stack.
 *
 * One signal never decides alone. Danger takes a level (headroom below or about to reach the floor) and a movement that only unreclaimable memory explains, or a level and a stall. Page cache that fills
 * free memory, a load inside what a job declared, and a machine that has stood at a thin level for long are none.
 */
#pragma once

#include "guard/history.h"
#include "guard/policy.h"

enum uma_guard_action_kind {
    UMA_GUARD_NOTHING,     /* in a list of actions: told, because of its reason (NOBODY_TO_BRAKE) */
    UMA_GUARD_ROOM,        /* (0) ask the helper for `bytes` of clean cache, and compaction where `order` blocks are short */
    UMA_GUARD_BRAKE,       /* (1) SIGSTOP the tree of `pid` */
    UMA_GUARD_RELEASE,     /* SIGCONT it: headroom is back, its time is over, or it will be ended */
    UMA_GUARD_WARN,        /* (2) tell its job */
    UMA_GUARD_TERM,        /* (3) SIGTERM its tree (and SIGCONT, or a stopped one never hears of it) */
    UMA_GUARD_KILL,        /* SIGKILL it */
    UMA_GUARD_UNKILLABLE,  /* it was killed, and its memory did not come back in time: say so */
    UMA_GUARD_LAST_RESORT, /* (4) sysrq, only where the policy allows it */
};

/* Why: the first of these that holds is the reason told; `danger.c` has the rule of each. */
enum uma_guard_reason {
    UMA_GUARD_NO_REASON,
    UMA_GUARD_BELOW_FLOOR,      /* below the floor and falling */
    UMA_GUARD_WILL_REACH_FLOOR, /* at this rate within the horizon */
    UMA_GUARD_STALLED,          /* below the floor, and the machine waits for memory */
    UMA_GUARD_CACHE_IN_THE_WAY, /* MemFree is short while clean cache is plenty */
    UMA_GUARD_BLOCKS_SHORT,     /* free, but in pieces */
    UMA_GUARD_BRAKED_TOO_LONG,
    UMA_GUARD_BRAKED_TOO_OFTEN,
    UMA_GUARD_NOBODY_TO_BRAKE, /* danger, and whoever grows may not be stopped */
    UMA_GUARD_BELOW_HARD_FLOOR,
    UMA_GUARD_HEADROOM_BACK,
    UMA_GUARD_NOT_THE_ONE,  /* RELEASE: stopped on suspicion, and the fall went on until another one was */
    UMA_GUARD_DID_NOT_END,  /* after TERM */
    UMA_GUARD_NOT_RELEASED, /* after KILL */
};

struct uma_guard_action {
    enum uma_guard_action_kind kind;
    enum uma_guard_reason reason;
    int32_t pid;    /* root of the tree; 0: none */
    uint64_t start; /* of that process: whoever acts checks it */
    uint64_t bytes; /* ROOM: how much; others: what the tree holds that would come back */
    int32_t order;  /* ROOM: blocks wanted, -1: none */
};

struct uma_guard_candidate {
    int32_t pid;
    uint64_t start, gpu, anon, swap; /* of the whole tree */
    int64_t growth;                  /* bytes per second */
    double score;
    uint32_t flags;
    bool gpu_known;
    char name[UMA_GUARD_NAME_MAX];
};

/* The numbers that a decision stood on, for the trail. */
struct uma_guard_evidence {
    uint64_t headroom, floor, hard_floor, steady; /* bytes; headroom: available + per_cpu */
    double rate;                                  /* bytes per second of headroom over the window used */
    double time_to_floor;                         /* seconds; INFINITY: not falling */
    double psi_some, psi_full, allocstall;        /* NAN: not known */
    uint32_t signals;                             /* bits of enum uma_guard_signal (danger.h) */
};

struct uma_guard_decision {
    uint32_t n;
    struct uma_guard_action actions[UMA_GUARD_ACTIONS]; /* in the order in which they are to be done */
    uint32_t n_candidates;
    struct uma_guard_candidate candidates[UMA_GUARD_CANDIDATES];
    struct uma_guard_evidence evidence;
    int64_t
        wake_ns; /* look again after so long at the latest: 10 ms near the floor, 1 s far from it; 0: at once, when the table is there */
    bool want_processes; /* take a table of the processes before the next decision: one is needed, and this view had none fresh enough */
};

enum { UMA_GUARD_BRAKED = 32 };

/* One tree that is stopped, or was. */
struct uma_guard_braked {
    int32_t pid;
    uint64_t start;
    bool stopped;
    int64_t since, released; /* time of the stop, of the release */
    uint32_t times;          /* within the window */
    uint32_t confirmed;      /* 1: headroom stopped falling when it was stopped */
    uint32_t guessed;        /* 1: nobody's growth was measured, and it may be the one */
    int64_t first;           /* the first stop of the window */
    int64_t growth;          /* bytes that it had grown by when it was stopped */
    double rate;             /* how fast headroom fell at the worst of its stops */
    uint64_t headroom;       /* at its last stop */
    uint64_t overrun;        /* what fell on after the worst of its stops: its last call of the driver */
};

enum { UMA_GUARD_PAST = 10, UMA_GUARD_PAST_TREES = 64, UMA_GUARD_GIVEN_UP = 8 };

/* What the trees held at an earlier time: growth is measured over the fall, be it 100 ms or an hour long. */
struct uma_guard_past_tree {
    int32_t pid;
    uint32_t gpu_known;
    uint64_t start, anon, shmem, gpu; /* anon: with swap */
};
struct uma_guard_past {
    int64_t time, gpu_time; /* of the table; of the driver's answer, 0: none */
    uint64_t headroom, anon, shmem;
    uint32_t n;
    struct uma_guard_past_tree trees[UMA_GUARD_PAST_TREES]; /* the largest */
};
struct uma_guard_who {
    int32_t pid;
    uint64_t start;
};

/* What is under way. Zeroed at the start. Plain data: written to the state file, so that a guard that was killed goes on. */
struct uma_guard_state {
    struct uma_guard_braked braked[UMA_GUARD_BRAKED];
    uint32_t n_braked;
    int32_t victim;                      /* 0: none. Never a second one before this one's memory came back */
    uint64_t victim_start, victim_bytes; /* what should come back */
    uint64_t headroom_at_kill;
    int64_t warned, terminated, killed; /* times; 0: not yet */
    bool victim_gone;                   /* reported by the caller: no process of its tree is left */
    bool unkillable;
    int64_t last_room, hard_since, last_resort;
    int64_t danger_since; /* 0: none now */
    int64_t brake_last;   /* the last stop */
    double brake_rate;    /* how fast headroom fell then */
    bool brake_measured;  /* its growth was measured, and no guess */
    uint64_t lowest;      /* headroom since TERM */
    bool said;            /* NOBODY_TO_BRAKE was told, or UNKILLABLE */
    uint32_t n_given_up;  /* who was killed in vain: not chosen again */
    struct uma_guard_who given_up[UMA_GUARD_GIVEN_UP];
    uint32_t n_past; /* oldest first */
    struct uma_guard_past past[UMA_GUARD_PAST];
};

/* `state` is advanced as if the actions are done; what the caller could not do it says by uma_guard_failed(). */
void uma_guard_decide(struct uma_guard_state *state, const struct uma_guard_history *history, const struct uma_guard_policy *policy,
                      const struct uma_guard_view *view, struct uma_guard_decision *ret_decision);

/* Reports of what came of it. */
void uma_guard_victim_gone(struct uma_guard_state *state);
/* An action could not be done (the process was gone, another's, not permitted): the state forgets it. */
void uma_guard_failed(struct uma_guard_state *state, const struct uma_guard_action *action);

/* Does it stop, warn or end somebody, or the machine? */
bool uma_guard_acts_on_somebody(enum uma_guard_action_kind kind);
const char *uma_guard_action_word(enum uma_guard_action_kind kind); /* "brake" */
const char *uma_guard_reason_word(enum uma_guard_reason reason);    /* "will reach the floor" */
