/* SPDX-License-Identifier: MIT */
/*
 * spare.h - open files that are kept only to be closed: where open(2) fails because the machine's or the process's table of files is full, closing one makes room for the one that is needed now.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    UMA_GUARD_SPARES = 4
}; /* the kill path has at most three open at a time beside those it keeps: a pidfd, a stat file, a folder of control groups */

struct uma_guard_spare {
    uint32_t n;
    int fds[UMA_GUARD_SPARES];
};

/* Opens what is missing; as many as can be had. */
void uma_guard_spare_fill(struct uma_guard_spare *spare);
/* Closes all, for an open that failed with `code` (a negative errno). True: it is worth trying again. */
bool uma_guard_spare_give(struct uma_guard_spare *spare, int code);
