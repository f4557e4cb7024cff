/* SPDX-License-Identifier: MIT */
/*
 * watch.h - what wakes the guard: its own clock, the kernel's triggers on memory pressure where there are some, signals, the control socket, and the end of a victim. One epoll set, nothing opened after the start but the victim's pidfd.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum uma_guard_woke {
    UMA_GUARD_WOKE_TIMER = 1u << 0,
    UMA_GUARD_WOKE_PRESSURE = 1u << 1,
    UMA_GUARD_WOKE_SIGNAL = 1u << 2,
    UMA_GUARD_WOKE_CONTROL = 1u << 3,
    UMA_GUARD_WOKE_VICTIM = 1u << 4,
};

struct uma_guard_watch {
    int epoll, timer, signals, control, victim, pressure[2];
    const char *pressure_note; /* what the triggers are, for the log */
};

/* `prefix`: of a machine that is a folder there are no triggers. -errno. */
int uma_guard_watch_open(struct uma_guard_watch *watch, const char *prefix);
void uma_guard_watch_close(struct uma_guard_watch *watch);
/* Takes the descriptor. */
int uma_guard_watch_control(struct uma_guard_watch *watch, int fd);
/* Wake when this process has ended; 0: nobody any more. Without a pidfd the clock wakes all the same. */
void uma_guard_watch_victim(struct uma_guard_watch *watch, int32_t pid);
/* Wake at this moment of CLOCK_MONOTONIC. */
void uma_guard_watch_arm(struct uma_guard_watch *watch, int64_t at);
/* Waits; bits of enum uma_guard_woke. */
uint32_t uma_guard_watch_wait(struct uma_guard_watch *watch);
/* The next signal that came, 0: none. */
int uma_guard_watch_signal(struct uma_guard_watch *watch);
