/* SPDX-License-Identifier: MIT */
/*
 * last_resort.h - the kernel's own ways out (Documentation/admin-guide/sysrq.rst), only where the policy has [LastResort] on: it is off by default, because either takes what is innocent with it. The file is opened when the
 * policy is read, not when it is needed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct uma_guard_last_resort {
    int fd;        /* /proc/sysrq-trigger, -1: not allowed, or not to be had */
    uint32_t used; /* times */
};

/* Opens it where it is wanted, closes it where it is not. -errno: wanted and not to be had. */
int uma_guard_last_resort_allow(struct uma_guard_last_resort *resort, bool wanted);
/* The first time the kernel's OOM killer (f); when it comes to it again, what can be written is (s), file systems are made read-only (u), and the machine starts anew (b). -errno; -EPERM where not allowed. */
int uma_guard_last_resort_use(struct uma_guard_last_resort *resort, const char **ret_what);
