/* SPDX-License-Identifier: MIT */
/*
 * reaper.h - takes back a killed process's memory before it has come to its own end (process_mrelease(2), 5.15): of 2 GiB of 4 KiB pages in a third of the time that its exit needs, and also of one that
 * hangs in a driver. The call can block, on the process's lock or for long in its pages: so it is made by a thread of its own, and the guard never waits for it. It gives back nothing of a driver's memory.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { UMA_GUARD_REAPED_MAX = 16 }; /* processes of one tree that wait for it: the largest are what matters */

struct uma_guard_reaper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool running, stop;
    uint32_t n;
    int waiting[UMA_GUARD_REAPED_MAX]; /* pidfds, owned */
};

int uma_guard_reaper_start(struct uma_guard_reaper *reaper); /* -errno: without it memory comes back when processes end */
void uma_guard_reaper_stop(struct uma_guard_reaper *reaper);
/* Takes the pidfd of a process that was sent SIGKILL. */
void uma_guard_reaper_give(struct uma_guard_reaper *reaper, int pidfd);
