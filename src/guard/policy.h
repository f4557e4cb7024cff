/* SPDX-License-Identifier: MIT */
/*
 * policy.h - what the guard may do and when: plain data of fixed size, filled with defaults here, overlaid by /etc/umactl/guard.conf and its drop-ins (policy_file.h), and said again word for word by
 * `umactl guard policy`. Each default's reason stands beside it in policy.c and in share/guard.conf.
 */
#pragma once

#include "guard/reading.h"

enum { UMA_GUARD_PATTERNS = 64, UMA_GUARD_PATTERN_MAX = 64 };

/* Names of programs (comm), `*` and `?` allowed, or "unit:NAME" for a systemd unit or control group of that name. */
struct uma_guard_patterns {
    uint32_t n;
    char list[UMA_GUARD_PATTERNS][UMA_GUARD_PATTERN_MAX];
};

struct uma_guard_policy {
    /* [Floor] */
    uint64_t floor;      /* bytes of available memory below which the machine is in danger; 0: the default for its size */
    uint64_t hard_floor; /* bytes at which somebody must go if stopping did not help; 0: a quarter of the floor */
    double horizon;      /* seconds ahead: a fall that reaches the floor within them is acted on */
    /* [Brake] */
    bool brake;
    double brake_most;    /* seconds that a tree is kept stopped before the next rung */
    double brake_release; /* headroom, as a multiple of the floor, at which it goes on */
    uint32_t brake_times; /* times that one tree is stopped within brake_window before it is a victim */
    double brake_window;
    /* [Warn] */
    bool warn;
    double warn_grace; /* seconds a warned job has before TERM */
    /* [Kill] */
    bool terminate, kill;
    double term_grace;   /* seconds between TERM and KILL */
    double release_wait; /* seconds to wait for measured release before a victim is called unkillable */
    /* [Room] */
    bool room;           /* ask the helper to evict clean cache and compact */
    double room_every;   /* seconds between two requests */
    uint64_t free_floor; /* MemFree to keep for CUDA; 0: the floor */
    /* [LastResort] */
    bool last_resort;         /* sysrq f, then b: off */
    double last_resort_after; /* seconds below the hard floor with an unkillable victim */
    /* [Victims] */
    struct uma_guard_patterns protect, avoid, prefer, no_brake;
    /* [Guard] */
    bool dry_run;
};

/* All defaults. */
void uma_guard_policy_default(struct uma_guard_policy *ret_policy);
/* Fills what is 0 for "by the machine's size" from MemTotal, and puts what contradicts in order (hard floor below floor). Pure. */
void uma_guard_policy_settle(struct uma_guard_policy *policy, uint64_t total);
