/* SPDX-License-Identifier: MIT */
/*
 * tree.h - who is in a tree at this moment: every process of the machine with parent, start and state, from one listing of /proc and one small file each, without an allocation. The table of
 * processes.h is what a decision is made of, with sizes, bounds and a deadline; this is what it is carried out with: signals go out while the tree may still fork, and only a look after them
 * shows that nobody was missed. 300 processes take about 2 ms. Not thread-safe.
 */
#pragma once

#include "guard/reading.h"

enum {
    UMA_GUARD_SCAN_MAX = 8192
}; /* processes; a machine with more is scanned in part, and says so (200 bytes of the 2 MiB go to each thousand looked at) */

struct uma_guard_seen {
    int32_t pid, parent;
    uint64_t start;
    char state;    /* as in /proc/PID/stat */
    bool alone;    /* it has no thread beside the first */
    bool in;       /* of the tree that was marked and spread last */
    bool resolved; /* private: `in` is decided */
};

struct uma_guard_scan {
    int proc;   /* the folder, -1: not open */
    bool whole; /* false: cut by the size of the list */
    uint32_t n;
    struct uma_guard_seen list[UMA_GUARD_SCAN_MAX];
};

int uma_guard_scan_open(struct uma_guard_scan *scan, const char *prefix); /* -errno */
void uma_guard_scan_close(struct uma_guard_scan *scan);
/* 0; -errno: the folder could not be read, and the list is as far as it came. */
int uma_guard_scan_take(struct uma_guard_scan *scan);
/* By pid; NULL. */
struct uma_guard_seen *uma_guard_scan_find(struct uma_guard_scan *scan, int32_t pid);
/*
 * Marks (`in`) all that descend from those already marked: call uma_guard_scan_clear(), mark the roots, then this. `stays_out` says of a process that it is no part of it,
 * and so nothing below it either; may be NULL. How many are marked.
 */
void uma_guard_scan_clear(struct uma_guard_scan *scan);
uint32_t uma_guard_scan_spread(struct uma_guard_scan *scan, bool (*stays_out)(const struct uma_guard_seen *seen, void *userdata),
                               void *userdata);
/* One process; -ESRCH, -EINVAL (not a stat file). */
int uma_guard_scan_one(const struct uma_guard_scan *scan, int32_t pid, struct uma_guard_seen *ret_seen);

/* Is nothing of its memory left? A first thread that has ended while others run looks like a zombie, and is not gone. */
bool uma_guard_seen_gone(const struct uma_guard_seen *seen);
