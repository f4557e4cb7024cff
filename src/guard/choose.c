/* SPDX-License-Identifier: MIT */
/* Who is to go. */
#include "guard/choose.h"

#include <string.h>

/*
 * What it holds counts once, what it grew by four times: between two that grew, the one that grew more goes, and between two that grew alike the one whose end gives more back. (A tree that did not grow is not among them while another did.)
 * `Prefer` is before others of its size, up to eight times it; `Avoid` is taken out before, not weighed.
 */
#define GROWTH_WEIGHT 4.0
#define PREFER_WEIGHT 8.0

/* A victim that holds less than 1/1024 of the memory (125 MiB of 122 GiB) would end for nothing. */
enum { WORTH_SHARE = 1024 };
#define LATER_GROUP 1e6

static const struct uma_guard_braked *braked(const struct uma_guard_state *s, const struct uma_guard_process *p) {
    for (uint32_t i = 0; i < s->n_braked && i < UMA_GUARD_BRAKED; i++)
        if (s->braked[i].pid == p->pid && s->braked[i].start == p->start)
            return &s->braked[i];
    return NULL;
}

static bool given_up(const struct uma_guard_state *s, const struct uma_guard_process *p) {
    for (uint32_t i = 0; i < s->n_given_up && i < UMA_GUARD_GIVEN_UP; i++)
        if (s->given_up[i].pid == p->pid && s->given_up[i].start == p->start)
            return true;
    return false;
}

/* In which order whole groups are looked at: who grew, who may have, and only where neither is, everybody. */
enum group { NOBODY, AVOIDED, EVERYBODY, GUESSED, GREW };

static enum group group_of(const struct uma_guard_state *s, const struct uma_guard_view *view, const struct uma_guard_tree *t,
                           uint64_t worth, int64_t *ret_growth) {
    const struct uma_guard_process *root = &view->processes[t->root];
    const struct uma_guard_braked *b = braked(s, root);
    *ret_growth = t->growth > 0 ? t->growth : 0;
    if (b && b->growth > *ret_growth)
        *ret_growth = b->growth;
    if ((t->flags & (UMA_GUARD_PROTECTED | UMA_GUARD_EXITING)) || given_up(s, root) || root->pid <= 1)
        return NOBODY;
    bool unseen = (b && b->stopped) || ((t->flags & UMA_GUARD_HOLDS_GPU) && !(view->now->known & UMA_GUARD_KNOWS_GPU));
    if (uma_guard_tree_held(t) < worth && *ret_growth < (int64_t)worth && !unseen)
        return NOBODY;
    if (t->flags & UMA_GUARD_AVOID)
        return AVOIDED;
    if (b && (b->stopped || b->confirmed))
        return b->guessed && !b->confirmed ? GUESSED : GREW;
    if (t->culprit)
        return t->expected ? EVERYBODY : GREW;
    return EVERYBODY;
}

static bool is_confirmed(const struct uma_guard_state *s, const struct uma_guard_view *view, const struct uma_guard_tree *t) {
    const struct uma_guard_braked *b = braked(s, &view->processes[t->root]);
    return b && b->confirmed;
}

int uma_guard_choose_victim(const struct uma_guard_state *state, const struct uma_guard_view *view, const struct uma_guard_danger *danger,
                            const struct uma_guard_fall *fall, bool anybody, struct uma_guard_tree *trees, size_t n) {
    uint64_t worth = view->now->total / WORTH_SHARE;
    enum group best_group = NOBODY, groups[UMA_GUARD_TREES];
    int best = -1;
    (void)danger;
    for (size_t i = 0; i < n; i++) {
        int64_t growth;
        enum group group = group_of(state, view, &trees[i], worth, &growth);
        if (group == GREW && fall->guess && trees[i].culprit && !is_confirmed(state, view, &trees[i]))
            group =
                braked(state, &view->processes[trees[i].root]) ? GUESSED : EVERYBODY; /* a guess that was not even stopped yet is none */
        groups[i] = group;
        if (!anybody && group < GUESSED)
            groups[i] = group = NOBODY;
        trees[i].score = group == NOBODY ? 0 : (double)uma_guard_tree_held(&trees[i]) + GROWTH_WEIGHT * (double)growth;
        if (trees[i].flags & UMA_GUARD_PREFER)
            trees[i].score *= PREFER_WEIGHT;
        if (group != NOBODY && (best < 0 || group > best_group || (group == best_group && trees[i].score > trees[best].score))) {
            best = (int)i;
            best_group = group;
        }
    }
    for (size_t i = 0; i < n; i++)
        if (groups[i] < best_group)
            trees[i].score /= LATER_GROUP; /* so that the list for the trail begins with whoever is chosen */
    return best;
}

void uma_guard_candidates(const struct uma_guard_view *view, const struct uma_guard_fall *fall, const struct uma_guard_tree *trees,
                          size_t n, struct uma_guard_decision *decision) {
    bool used[UMA_GUARD_TREES] = { false };
    double span = fall->span_ns > 0 ? (double)fall->span_ns / 1e9 : 1;
    decision->n_candidates = 0;
    while (decision->n_candidates < UMA_GUARD_CANDIDATES) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (!used[i] && (best == n || trees[i].score > trees[best].score ||
                             (trees[i].score == trees[best].score && trees[i].growth > trees[best].growth)))
                best = i;
        if (best == n)
            return;
        used[best] = true;
        const struct uma_guard_tree *t = &trees[best];
        const struct uma_guard_process *root = &view->processes[t->root];
        struct uma_guard_candidate *c = &decision->candidates[decision->n_candidates++];
        *c = (struct uma_guard_candidate){ .pid = root->pid,
                                           .start = root->start,
                                           .gpu = t->gpu,
                                           .anon = t->anon + t->shmem,
                                           .swap = t->swap,
                                           .growth = fall->measured ? (int64_t)((double)t->growth / span) : 0,
                                           .score = t->score,
                                           .flags = t->flags,
                                           .gpu_known = t->gpu_known };
        memcpy(c->name, root->name, sizeof(c->name));
        c->name[sizeof(c->name) - 1] = '\0';
    }
}
