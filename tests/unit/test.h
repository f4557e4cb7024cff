/* SPDX-License-Identifier: MIT */
/* What every unit test includes: cmocka and the headers it needs before it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/*
 * End a test that this machine cannot run, and say why. cmocka's own skip() prints "not ok # SKIP" in TAP, which readers take for a
 * failure; tests/tally.py counts these lines as skipped.
 */
#define SKIP_BECAUSE(reason)                                                                                                               \
    do {                                                                                                                                   \
        (void)printf("# SKIP %s: %s\n", __func__, reason);                                                                                 \
        return;                                                                                                                            \
    } while (0)

/*
 * End a test of this machine's own kernel where an emulator stands before it: user-mode emulation lacks cachestat(2), process_madvise(2), openat2(2) and filters, and makes up
 * mincore(2) and /proc/self/maps.
 */
#define SKIP_UNDER_EMULATION()                                                                                                             \
    do {                                                                                                                                   \
        if (getenv("UMA_EMULATED"))                                                                                                        \
            SKIP_BECAUSE("it asks the kernel what an emulator answers otherwise");                                                         \
    } while (0)
