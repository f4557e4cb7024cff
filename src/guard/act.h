/* SPDX-License-Identifier: MIT */
/*
 * act.h - what the guard does to a tree of processes: stop it, let it go on, ask it to end, end it. Signals go by pidfd to a process whose start was compared after the pidfd was opened, so never to another that got its number. Who is in the
 * tree is what the table said, and whoever came from those since; whoever the table counts to another tree, or protects, is left out. No allocation; nothing is waited for longer than a few milliseconds.
 * Not thread-safe.
 */
#pragma once

#include "guard/group.h"
#include "guard/processes.h"
#include "guard/reaper.h"
#include "guard/spare.h"
#include "guard/tree.h"

enum { UMA_GUARD_HELD_MAX = 4096 }; /* processes that are stopped at one time, of all trees */

struct uma_guard_held {
    int32_t pid, root; /* root: of its tree */
    uint64_t start;
};
struct uma_guard_held_list {
    uint32_t n;
    struct uma_guard_held list[UMA_GUARD_HELD_MAX];
};

struct uma_guard_actor {
    bool dry_run;
    int32_t self, parent; /* never signalled, whatever the table says */
    const struct uma_guard_processes *processes;
    struct uma_guard_scan scan;
    struct uma_guard_groups groups;
    struct uma_guard_reaper reaper;
    struct uma_guard_spare spare;
    struct uma_guard_held_list stopped; /* by us, and not let go yet */
    struct uma_guard_held_list ended;   /* of the present victim: those that were told to end and are not known to be gone */
};

struct uma_guard_acted {
    int32_t result; /* 0; -ESRCH: nobody was left of it; -EPERM ...: what the first signal that failed said, when none came through */
    uint32_t n;     /* processes that were signalled */
    uint32_t left;  /* STOP: that still ran when the guard gave up looking (they wait in the kernel, and stop when they leave it) */
    bool by_group;  /* KILL: by its control group */
    int64_t at;     /* when all that the table knew had been signalled (CLOCK_MONOTONIC) */
};

/* -errno: not even /proc can be listed. The reaper's thread is not started by it. */
int uma_guard_actor_open(struct uma_guard_actor *actor, const struct uma_guard_processes *processes, const char *prefix, bool dry_run);
void uma_guard_actor_close(struct uma_guard_actor *actor);

/* SIGSTOP: its root first, who then starts no more; again until a look shows no process of it that was not stopped. Again on a tree that is stopped: whoever was missed. */
struct uma_guard_acted uma_guard_stop_tree(struct uma_guard_actor *actor, int32_t pid, uint64_t start);
/* SIGCONT to those of the tree that the guard stopped, not to those that somebody else had; 0: of all trees. Whom it could not be sent for want of a descriptor or of memory stays in the list. */
struct uma_guard_acted uma_guard_continue_tree(struct uma_guard_actor *actor, int32_t pid);
/* Of a guard that was ended between its signals and the words of them: whoever of the tree stands stopped counts as stopped by us. How many. */
uint32_t uma_guard_adopt_tree(struct uma_guard_actor *actor, int32_t pid, uint64_t start);
/* SIGTERM, and SIGCONT where it was stopped; or SIGKILL, and its memory taken back. It is the victim from now on. */
struct uma_guard_acted uma_guard_end_tree(struct uma_guard_actor *actor, int32_t pid, uint64_t start, int signal_number);
/* How many of the victim's processes are left. */
uint32_t uma_guard_victim_left(struct uma_guard_actor *actor);
/* Marks (scan.in) the present tree of the process. How many there are; -errno. */
int uma_guard_mark_tree(struct uma_guard_actor *actor, int32_t pid, uint64_t start);
