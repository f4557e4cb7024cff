/* SPDX-License-Identifier: MIT */
/*
 * Who must not be touched, and who belongs to whom. A tree is what is stopped or ended together: it begins at the topmost process that may be touched, below a shell, sshd, init, a container's shim or the
 * umactl that runs a job: none of these is in it. Parents are read one after the other while processes come and go, so that a chain of them may be of two times: a parent is younger than no child of its, and a ring ends.
 */
#include "guard/processes_private.h"

#include <string.h>

enum { ANCESTORS_MAX = 64 /* of the guard: two or three, under a test's runners some more */ };

/* ---- protection --------------------------------------------------------------------------------------------------- */

static uint32_t flags_of(const struct uma_guard_process *process, const struct uma_guard_row *row) {
    uint32_t kept = process->flags & (UMA_GUARD_STOPPED | UMA_GUARD_EXITING);
    bool never = process->pid == 1 || row->known & (ROW_KERNEL | ROW_SITS | ROW_UMACTL);
    return kept | (row->known >> ROW_FLAGS_AT & ROW_FLAGS) | (row->known >> ROW_UNIT_FLAGS_AT & ROW_FLAGS) |
           (never ? UMA_GUARD_PROTECTED : 0u);
}

/* Whoever is stopped above the guard may stop the guard, too: a shell that it was started from, a test's runner. */
static void protect_self(struct uma_guard_processes *p) {
    int32_t pid = p->before->self;
    for (int steps = 0; pid > 1 && steps < ANCESTORS_MAX; steps++) {
        int32_t i = uma_guard_row_find(p, pid);
        uint64_t bytes;
        if (i >= 0) {
            p->list[i].flags |= UMA_GUARD_PROTECTED;
            pid = p->before->rows[i].parent;
        } else if (!uma_guard_row_peek(p, pid, &bytes, &pid)) { /* no place in the table, or not reached yet */
            break;
        }
    }
}

void uma_guard_rows_flags(struct uma_guard_processes *processes) {
    for (size_t i = 0; i < processes->n; i++)
        processes->list[i].flags = flags_of(&processes->list[i], &processes->before->rows[i]);
    protect_self(processes);
}

/* ---- what goes down from parent to child -------------------------------------------------------------------------- */

static bool is_protected(const struct uma_guard_processes *p, int32_t i) {
    return p->list[i].flags & UMA_GUARD_PROTECTED;
}

static void find_parents(struct uma_guard_processes *p) {
    for (size_t i = 0; i < p->n; i++) {
        int32_t parent = p->before->rows[i].parent > 0 ? uma_guard_row_find(p, p->before->rows[i].parent) : -1;
        bool right = parent >= 0 && (size_t)parent != i && p->list[parent].start <= p->list[i].start;
        p->before->up[i] = right ? (int16_t)parent : (int16_t)-1;
    }
}

/* `value[i]` of each process is its own where that is not UNSET, else its parent's, else `none`: each row is walked over twice at the most, whatever the chains look like. */
enum { UNSET = -2 };
static void go_down(struct uma_guard_processes *p, int32_t *(*value_of)(struct uma_guard_process *), int32_t none) {
    struct uma_guard_process *list = p->list;
    for (size_t i = 0; i < p->n; i++) {
        int32_t at = (int32_t)i, value = none;
        for (size_t steps = 0; at >= 0 && steps < p->n; steps++, at = p->before->up[at])
            if (*value_of(&list[at]) != UNSET) {
                value = *value_of(&list[at]);
                break;
            }
        for (at = (int32_t)i; at >= 0 && *value_of(&list[at]) == UNSET; at = p->before->up[at])
            *value_of(&list[at]) = value;
    }
}

static int32_t *tree_of(struct uma_guard_process *process) {
    return &process->tree;
}

static int32_t *envelope_of(struct uma_guard_process *process) {
    return &process->envelope;
}

static void find_trees(struct uma_guard_processes *p) {
    for (size_t i = 0; i < p->n; i++) {
        int32_t up = p->before->up[i];
        bool root = up < 0 || is_protected(p, up) || is_protected(p, (int32_t)i);
        p->list[i].parent = up >= 0 && !is_protected(p, up) ? p->list[up].pid : 0;
        p->list[i].tree = root ? (int32_t)i : UNSET;
    }
    /* a ring that never was: whoever is in it stands for itself */
    go_down(p, tree_of, -1);
    for (size_t i = 0; i < p->n; i++)
        if (p->list[i].tree < 0)
            p->list[i].tree = (int32_t)i;
}

/* Everything below an umactl that wants a warning for its job. */
static void find_warned(struct uma_guard_processes *p) {
    bool any = false;
    for (size_t i = 0; i < p->n; i++) {
        bool marked = p->before->rows[i].known & ROW_MARKED;
        p->list[i].envelope = marked ? 1 : UNSET;
        any |= marked;
    }
    if (any)
        go_down(p, envelope_of, 0);
    for (size_t i = 0; i < p->n; i++) {
        if (any && p->list[i].envelope == 1)
            p->list[i].flags |= UMA_GUARD_WARNS;
        p->list[i].envelope = -1;
    }
}

void uma_guard_rows_trees(struct uma_guard_processes *processes) {
    find_parents(processes);
    find_trees(processes);
    find_warned(processes);
}

/* ---- for whoever has the table ------------------------------------------------------------------------------------- */

static int32_t claimed(const struct uma_guard_process *process, const struct uma_guard_row *row, const struct uma_guard_envelope *envelopes,
                       const uint32_t *uids, size_t n) {
    if (row->known & ROW_UMACTL) /* nobody else can make a claim, and only in his own name */
        for (size_t k = 0; k < n; k++)
            if (envelopes[k].pid == process->pid && uids[k] == process->uid)
                return (int32_t)k;
    return UNSET;
}

void uma_guard_processes_declare(struct uma_guard_processes *processes, const struct uma_guard_envelope *envelopes, const uint32_t *uids,
                                 size_t n) {
    for (size_t i = 0; i < processes->n; i++) {
        processes->list[i].flags &= ~(uint32_t)UMA_GUARD_DECLARED;
        processes->list[i].envelope = n ? claimed(&processes->list[i], &processes->before->rows[i], envelopes, uids, n) : -1;
    }
    if (n)
        go_down(processes, envelope_of, -1);
    for (size_t i = 0; i < processes->n; i++)
        if (processes->list[i].envelope >= 0)
            processes->list[i].flags |= UMA_GUARD_DECLARED;
}

int32_t uma_guard_processes_find(const struct uma_guard_processes *processes, int32_t pid, uint64_t start) {
    int32_t i = uma_guard_row_find(processes, pid);
    return i >= 0 && processes->list[i].start == start ? i : -1;
}
