/* SPDX-License-Identifier: MIT */
#include "guard/marks.h"

#include <errno.h>

void uma_guard_marks_add(struct uma_guard_marks *marks, int32_t pid, uint64_t start, uint32_t flags, int64_t until) {
    struct uma_guard_mark *place = NULL;
    for (uint32_t i = 0; i < marks->n; i++)
        if (marks->list[i].pid == pid && marks->list[i].start == start && marks->list[i].flags == flags)
            place = &marks->list[i];
    if (place == NULL && marks->n < UMA_GUARD_MARKS)
        place = &marks->list[marks->n++];
    if (place == NULL) {
        place = &marks->list[0];
        for (uint32_t i = 1; i < marks->n; i++)
            if (marks->list[i].until < place->until)
                place = &marks->list[i];
    }
    *place = (struct uma_guard_mark){ .pid = pid, .flags = flags, .start = start, .until = until };
}

static void put_on_tree(struct uma_guard_processes *processes, int32_t root, uint32_t flags) {
    for (size_t i = 0; i < processes->n; i++)
        if (processes->list[i].tree == root)
            processes->list[i].flags |= flags;
}

void uma_guard_marks_apply(struct uma_guard_marks *marks, const struct uma_guard_actor *actor, struct uma_guard_processes *processes,
                           int64_t now) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < marks->n; i++) {
        if (now >= marks->list[i].until)
            continue;
        /* who is not in this table may be in the next: one that took too long is cut */
        int32_t root = uma_guard_processes_find(processes, marks->list[i].pid, marks->list[i].start);
        if (root >= 0)
            put_on_tree(processes, root, marks->list[i].flags);
        marks->list[kept++] = marks->list[i];
    }
    marks->n = kept;
    for (uint32_t i = 0; i < actor->stopped.n; i++) {
        int32_t at = uma_guard_processes_find(processes, actor->stopped.list[i].pid, actor->stopped.list[i].start);
        if (at >= 0)
            processes->list[at].flags |= UMA_GUARD_STOPPED_BY_US;
    }
}

/* The topmost of its ancestors that is marked, itself when none is. */
static const struct uma_guard_seen *topmost(struct uma_guard_scan *scan, const struct uma_guard_seen *seen) {
    for (uint32_t steps = 0; steps < scan->n; steps++) {
        const struct uma_guard_seen *parent = uma_guard_scan_find(scan, seen->parent);
        if (parent == NULL || !parent->in)
            break;
        seen = parent;
    }
    return seen;
}

static void protect_all(struct uma_guard_processes *processes) {
    for (size_t i = 0; i < processes->n; i++)
        processes->list[i].flags |= UMA_GUARD_PROTECTED;
}

int uma_guard_marks_within(struct uma_guard_actor *actor, struct uma_guard_processes *processes, int32_t within, uint64_t start) {
    struct uma_guard_scan *scan = &actor->scan;
    int r = uma_guard_scan_take(scan);
    struct uma_guard_seen *top = r == 0 ? uma_guard_scan_find(scan, within) : NULL;
    if (top == NULL || top->start != start) { /* it ended, and another has its number */
        protect_all(processes);
        return r < 0 ? r : -ESRCH;
    }
    uma_guard_scan_clear(scan);
    top->in = true;
    (void)uma_guard_scan_spread(scan, NULL, NULL);
    top->in = false;
    for (size_t i = 0; i < processes->n; i++) {
        struct uma_guard_process *process = &processes->list[i];
        const struct uma_guard_seen *seen = uma_guard_scan_find(scan, process->pid);
        if (seen == NULL || !seen->in || seen->start != process->start) {
            process->flags |= UMA_GUARD_PROTECTED;
            continue;
        }
        const struct uma_guard_seen *root = process->tree >= 0 && (size_t)process->tree < processes->n
                                                ? uma_guard_scan_find(scan, processes->list[process->tree].pid)
                                                : NULL;
        if (root != NULL && root->in)
            continue;
        const struct uma_guard_seen *highest = topmost(scan, seen);
        int32_t at = uma_guard_processes_find(processes, highest->pid, highest->start);
        process->tree = at >= 0 ? at : (int32_t)i;
    }
    return 0;
}
