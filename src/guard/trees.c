/* SPDX-License-Identifier: MIT */
/* The table of processes as trees, and what is kept of earlier ones. */
#include "guard/choose.h"

#include "base/units.h"

#include <string.h>

/* What holds of a tree if it holds of one process in it, and what only if it holds of all. */
enum {
    OF_ONE = UMA_GUARD_PROTECTED | UMA_GUARD_NO_BRAKE | UMA_GUARD_AVOID | UMA_GUARD_PREFER | UMA_GUARD_DECLARED | UMA_GUARD_WARNS |
             UMA_GUARD_HOLDS_GPU,
    OF_ALL = UMA_GUARD_STOPPED | UMA_GUARD_STOPPED_BY_US | UMA_GUARD_EXITING,
};

static size_t n_processes(const struct uma_guard_view *view) {
    if (!view->processes)
        return 0;
    return view->n_processes < UMA_GUARD_PROCESS_MAX ? view->n_processes : UMA_GUARD_PROCESS_MAX;
}

static size_t root_of(const struct uma_guard_process *p, size_t i, size_t n) {
    return p->tree >= 0 && (size_t)p->tree < n ? (size_t)p->tree : i;
}

static uint64_t weight(const struct uma_guard_process *p) {
    return p->anon + p->shmem + p->swap + p->gpu + (p->grown > 0 ? 2 * (uint64_t)p->grown : 0);
}

/* The least weight at which no more than UMA_GUARD_TREES trees are left. Bisection, because sorting 4096 takes longer than all else here. */
static uint64_t least_weight(const uint64_t *sums, size_t n) {
    uint64_t low = 0, high = UINT64_MAX;
    for (int i = 0; i < 64 && low < high; i++) {
        uint64_t middle = low + (high - low) / 2;
        size_t count = 0;
        for (size_t k = 0; k < n; k++)
            count += sums[k] > middle;
        if (count > UMA_GUARD_TREES)
            low = middle + 1;
        else
            high = middle;
    }
    return high;
}

static void begin_tree(struct uma_guard_tree *tree, const struct uma_guard_process *root, int32_t index) {
    *tree = (struct uma_guard_tree){ .root = index, .envelope = -1, .flags = OF_ALL, .youngest = root->start };
}

/*
 * A fork has its parent's pages once more in its figures and takes none. A child of the same name has not called execve(2) mostly: what it has beyond its parent is its own. Only of those whose pages matter (1/4096 of the
 * memory), so that it costs nothing in a storm of small ones.
 */
static uint64_t own_anon(const struct uma_guard_view *view, size_t n, const struct uma_guard_process *p) {
    if (p->parent == 0 || p->anon < view->now->total / 4096)
        return p->anon;
    for (size_t i = 0; i < n; i++) {
        const struct uma_guard_process *parent = &view->processes[i];
        if (parent->pid == p->parent)
            return memcmp(parent->name, p->name, sizeof(p->name)) != 0 ? p->anon : p->anon > parent->anon ? p->anon - parent->anon : 0;
    }
    return p->anon;
}

static void add_process(const struct uma_guard_view *view, size_t n, struct uma_guard_tree *tree, const struct uma_guard_process *p) {
    tree->n++;
    tree->flags = (tree->flags & OF_ONE) | (p->flags & OF_ONE) | (tree->flags & p->flags & OF_ALL);
    tree->anon += own_anon(view, n, p);
    tree->swap += p->swap;
    tree->gpu += p->gpu;
    if (p->shmem > tree->shmem) /* the processes of a tree mostly share one segment: the largest, not the sum */
        tree->shmem = p->shmem;
    tree->gpu_known |= p->gpu_known;
    tree->gpu_new |= p->gpu > 0 && p->gpu_grown_ns == 0;
    if (p->gpu_grown_ns > 0)
        tree->gpu_rate += (double)p->gpu_grown * (double)UMA_SECOND_NS / (double)p->gpu_grown_ns;
    if (tree->envelope < 0 && (p->flags & UMA_GUARD_DECLARED))
        tree->envelope = p->envelope;
}

size_t uma_guard_trees(const struct uma_guard_view *view, struct uma_guard_tree *ret_trees) {
    uint64_t sums[UMA_GUARD_PROCESS_MAX] = { 0 };
    int16_t slots[UMA_GUARD_PROCESS_MAX];
    size_t n = n_processes(view), n_trees = 0, n_roots = 0;
    for (size_t i = 0; i < n; i++)
        sums[root_of(&view->processes[i], i, n)] += weight(&view->processes[i]) + 1;
    for (size_t i = 0; i < n; i++)
        n_roots += sums[i] > 0;
    uint64_t least = n_roots > UMA_GUARD_TREES ? least_weight(sums, n) : 0;
    memset(slots, 0xff, sizeof(slots));
    for (size_t i = 0; i < n; i++) {
        size_t root = root_of(&view->processes[i], i, n);
        if (sums[root] <= least)
            continue;
        if (slots[root] < 0) {
            if (n_trees >= UMA_GUARD_TREES)
                continue;
            slots[root] = (int16_t)n_trees;
            begin_tree(&ret_trees[n_trees++], &view->processes[root], (int32_t)root);
        }
        add_process(view, n, &ret_trees[slots[root]], &view->processes[i]);
    }
    return n_trees;
}

/* ---- the past --------------------------------------------------------------------------------------------------- */

/*
 * Ten tables, from a moment ago to hours: the one to drop is that whose neighbours are nearest to each other beside its age, so that their ages grow about as powers of two, whatever the times between two tables.
 * The newest two are kept: growth is a difference to one of them mostly.
 */
static uint32_t to_drop(const struct uma_guard_state *s, int64_t now) {
    uint32_t best = 0;
    double least = 0;
    for (uint32_t i = 1; i + 2 < s->n_past; i++) {
        double gap = (double)(s->past[i + 1].time - s->past[i - 1].time) / ((double)(now - s->past[i].time) + (double)UMA_SECOND_NS / 10);
        if (best == 0 || gap < least) {
            best = i;
            least = gap;
        }
    }
    return best;
}

static void keep_tree(struct uma_guard_past *past, const struct uma_guard_tree *tree, const struct uma_guard_process *root) {
    uint32_t at = past->n;
    if (past->n == UMA_GUARD_PAST_TREES) { /* full: in the place of the smallest */
        at = 0;
        for (uint32_t i = 1; i < past->n; i++)
            if (past->trees[i].anon + past->trees[i].shmem + past->trees[i].gpu <
                past->trees[at].anon + past->trees[at].shmem + past->trees[at].gpu)
                at = i;
        if (uma_guard_tree_held(tree) <= past->trees[at].anon + past->trees[at].shmem + past->trees[at].gpu)
            return;
    } else {
        past->n++;
    }
    past->trees[at] = (struct uma_guard_past_tree){ .pid = root->pid,
                                                    .gpu_known = tree->gpu_known,
                                                    .start = root->start,
                                                    .anon = tree->anon + tree->swap,
                                                    .shmem = tree->shmem,
                                                    .gpu = tree->gpu };
}

void uma_guard_past_add(struct uma_guard_state *s, const struct uma_guard_view *view, uint64_t headroom, const struct uma_guard_tree *trees,
                        size_t n) {
    const struct uma_guard_reading *now = view->now;
    if (s->n_past > UMA_GUARD_PAST)
        s->n_past = 0; /* a state file that is none */
    if (n == 0 || (s->n_past > 0 && s->past[s->n_past - 1].time == view->processes_time))
        return;
    if (s->n_past > 0 && view->processes_time < s->past[s->n_past - 1].time)
        s->n_past = 0; /* a clock that jumped */
    if (s->n_past == UMA_GUARD_PAST) {
        uint32_t drop = to_drop(s, now->time);
        memmove(&s->past[drop], &s->past[drop + 1], (size_t)(s->n_past - 1 - drop) * sizeof(s->past[0]));
        s->n_past--;
    }
    struct uma_guard_past *past = &s->past[s->n_past++];
    past->time = view->processes_time;
    past->gpu_time = now->known & UMA_GUARD_KNOWS_GPU ? now->time - now->gpu_age_ns : 0;
    past->headroom = headroom;
    past->anon = now->anon + (now->swap_total - now->swap_free);
    past->shmem = now->shmem;
    past->n = 0;
    for (size_t i = 0; i < n; i++)
        keep_tree(past, &trees[i], &view->processes[trees[i].root]);
}
