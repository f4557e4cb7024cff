/* SPDX-License-Identifier: MIT */
#include "guard/policy.h"

#include "guard/names.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

void uma_guard_policy_default(struct uma_guard_policy *ret_policy) {
    *ret_policy = (struct uma_guard_policy){
        /*
         * Half a second. A stop is there within 20 ms of its decision, and a call that the driver is in the middle of ends about 100 ms later (a GiB at the 10 GB/s and more that were seen: 34.0 to
         * 12.7 GiB in 1.5 s); the rest is for a guard that the scheduler kept waiting, beside which the floor itself is another 0.2 s at 20 GB/s. A longer time would stop healthy loads: one of
         * 15 GB/s that ends with 11 GiB left never comes nearer than 0.5 s to a floor of 4.
         */
        .horizon = 0.5,
        .brake = true,
        /* A stopped tree's clients wait 10 to 30 s mostly, the heartbeats of collective libraries minutes; the helper makes room and another job ends within seconds (92 GB came back in 2 to 5). */
        .brake_most = 10,
        /* Half a floor above it: more than the noise of a large machine (1/96 of it, a third of a floor), so that it is not stopped again by that alone. */
        .brake_release = 1.5,
        /* Twice may be two phases of one load; who is in danger again a third time in five minutes does not fit. */
        .brake_times = 3,
        .brake_window = 300,
        .warn = true,
        .warn_grace =
            5, /* a request is refused and a cache dropped within it; a checkpoint mostly not, but the machine must last that long */
        .terminate = true,
        .kill = true,
        .term_grace = 5,    /* inference servers that hear SIGTERM end within about 3 s */
        .release_wait = 15, /* 2 to 5 s for 92 GB were measured, three times that */
        .room = true,
        .room_every = 10, /* an eviction of 4 GiB of clean files takes 0.01 to 0.5 s; what is evicted wrongly is read again at some GB/s */
        .last_resort = false,
        .last_resort_after = 30, /* twice release_wait: the driver had its time */
    };
    uma_guard_names_default(ret_policy);
}

/*
 * From 16 GiB on the reserve of `umactl status` and of the valve: a thirty-second, at most 4 GiB (account/headroom.c says where the figures come from). Between 8 and 16 GiB half a GiB, which the kernel, a shell and sshd need
 * whatever the size. Below 8 GiB that would be most of the machine: a sixteenth, which meets the other at 8 GiB; at least 32 MiB, above the 17 MiB at which a guest of 512 MiB was first seen to stall.
 */
static uint64_t default_floor(uint64_t total) {
    if (total >= 8 * GIB) {
        uint64_t share = total / 32;
        return share < GIB / 2 ? GIB / 2 : share > 4 * GIB ? 4 * GIB : share;
    }
    uint64_t share = total / 16, least = 32 * MIB;
    return share > least ? share : total / 4 < least ? total / 4 : least;
}

static double at_least(double value, double least) {
    return value >= least ? value : least; /* NAN too becomes the least */
}

void uma_guard_policy_settle(struct uma_guard_policy *policy, uint64_t total) {
    if (policy->floor == 0)
        policy->floor = default_floor(total);
    if (total > 0 && policy->floor > total / 2) /* a floor that no job leaves free would keep the guard in danger for ever */
        policy->floor = total / 2;
    if (policy->hard_floor == 0)
        policy->hard_floor = policy->floor / 4; /* 1 GiB of 4: healthy servers stand at 1.5 to 1.9 GiB for weeks */
    if (policy->hard_floor > policy->floor)
        policy->hard_floor = policy->floor;
    if (policy->free_floor == 0)
        policy->free_floor = policy->floor;
    if (total > 0 && policy->free_floor > total / 2)
        policy->free_floor = total / 2;
    policy->horizon = at_least(policy->horizon, 0);
    policy->brake_most = at_least(policy->brake_most, 0);
    policy->brake_release = at_least(policy->brake_release, 1);
    policy->brake_window = at_least(policy->brake_window, 0);
    policy->warn_grace = at_least(policy->warn_grace, 0);
    policy->term_grace = at_least(policy->term_grace, 0);
    policy->release_wait = at_least(policy->release_wait, 0);
    policy->room_every = at_least(policy->room_every, 0);
    policy->last_resort_after = at_least(policy->last_resort_after, 0);
    if (policy->brake_times == 0)
        policy->brake_times = 1;
}
