/* SPDX-License-Identifier: MIT */
/*
 * marks.h - what the guard itself knows of processes, and puts on a fresh table before it decides: whom it stopped, whom it may not signal (tried and refused), who was let go by hand and is not to be stopped again, and
 * all that are not below the one that --within named. No allocation; not thread-safe.
 */
#pragma once

#include "guard/act.h"
#include "guard/processes.h"

enum { UMA_GUARD_MARKS = 64 };

struct uma_guard_mark {
    int32_t pid;
    uint32_t flags; /* UMA_GUARD_PROTECTED, UMA_GUARD_NO_BRAKE */
    uint64_t start;
    int64_t until;
};
struct uma_guard_marks {
    uint32_t n;
    struct uma_guard_mark list[UMA_GUARD_MARKS];
};

/* A tree's root; when there is no place, the one that ends first gives its own. */
void uma_guard_marks_add(struct uma_guard_marks *marks, int32_t pid, uint64_t start, uint32_t flags, int64_t until);
/* Puts them on each process of those trees, and UMA_GUARD_STOPPED_BY_US. */
void uma_guard_marks_apply(struct uma_guard_marks *marks, const struct uma_guard_actor *actor, struct uma_guard_processes *processes,
                           int64_t now);
/* Protects all that is not below `within`, and makes those right below it roots of their trees. -errno: nobody may be touched. */
int uma_guard_marks_within(struct uma_guard_actor *actor, struct uma_guard_processes *processes, int32_t within, uint64_t start);
