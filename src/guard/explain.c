/* SPDX-License-Identifier: MIT */
/* Whose growth explains a fall of headroom. */
#include "guard/choose.h"

#include "base/units.h"

#include <string.h>

/*
 * A fall is measured from the youngest table that lies so far above: the more of it there is, the less the 50 ms matter by which a table may be older than the reading. 1/512 of the memory is 240 MiB of 122 GiB, and at
 * 20 GB/s three tenths of a second are 6 GB, of which 50 ms are a sixth.
 */
enum { FALL_SHARE = 512 };
#define FALL_SECONDS 0.3

/* Who explains a quarter of a fall is to blame for it; of many that grow alike, each whose part is half of the largest, if that is an eighth of it at least - or all of them together half of it. */
enum { CULPRIT_SHARE = 4, ALIKE_SHARE = 2 };

/* Where the driver took half of what fell, and the answer of the driver explains less than a third of that half, nobody has been measured. */
enum { DRIVER_SHARE = 2, UNEXPLAINED_SHARE = 3 };

/* Of the rate of the fall: a growth on the GPU between the last two answers that is worth a suspicion. */
enum { SUSPECT_SHARE = 8 };

static int64_t positive(int64_t v) {
    return v > 0 ? v : 0;
}

static int64_t less(uint64_t a, uint64_t b) {
    return (int64_t)(a - b);
}

/* ---- from when ------------------------------------------------------------------------------------------------- */

/* `answer`: of an answer of the driver before that one; INT64_MAX: any. */
static const struct uma_guard_past *before_the_fall(const struct uma_guard_state *s, const struct uma_guard_view *view,
                                                    const struct uma_guard_danger *d, int64_t answer) {
    const struct uma_guard_reading *now = view->now;
    const struct uma_guard_past *best = NULL;
    int64_t most = 0;
    int64_t enough = (int64_t)(now->total / FALL_SHARE), recent = d->falling ? (int64_t)(-d->rate * FALL_SECONDS) : 0;
    if (recent > enough)
        enough = recent;
    for (uint32_t i = s->n_past <= UMA_GUARD_PAST ? s->n_past : 0; i-- > 0;) {
        const struct uma_guard_past *p = &s->past[i];
        if (p->time >= view->processes_time || p->gpu_time >= answer)
            continue;
        int64_t fallen = less(p->headroom, d->headroom);
        if (fallen > most) {
            most = fallen;
            best = p;
        }
        if (fallen >= enough)
            break;
    }
    if (best || answer != INT64_MAX)
        return best;
    /* nothing has fallen: what swap hides, or a stall. The oldest table of the last half minute shows who grew. */
    for (uint32_t i = 0; i < s->n_past && i < UMA_GUARD_PAST; i++)
        if (s->past[i].time < view->processes_time && view->processes_time - s->past[i].time <= 30 * UMA_SECOND_NS)
            return &s->past[i];
    return NULL;
}

/* ---- growth ---------------------------------------------------------------------------------------------------- */

static const struct uma_guard_past_tree *find(const struct uma_guard_past *past, const struct uma_guard_process *root) {
    for (uint32_t i = 0; i < past->n && i < UMA_GUARD_PAST_TREES; i++)
        if (past->trees[i].pid == root->pid && past->trees[i].start == root->start)
            return &past->trees[i];
    return NULL;
}

/* A table that was full says of a tree that is not in it only that it was no larger than its smallest. */
static uint64_t smallest(const struct uma_guard_past *past) {
    uint64_t least = past->n < UMA_GUARD_PAST_TREES ? 0 : UINT64_MAX;
    for (uint32_t i = 0; least > 0 && i < past->n && i < UMA_GUARD_PAST_TREES; i++) {
        uint64_t held = past->trees[i].anon + past->trees[i].shmem + past->trees[i].gpu;
        least = held < least ? held : least;
    }
    return least;
}

/* By no more than the whole machine did: a fork's shared pages and a segment that many touch take nothing. */
static int64_t at_most(int64_t growth, int64_t whole) {
    int64_t most = positive(whole);
    return growth > most ? most : growth;
}

static void measure_tree(const struct uma_guard_past *past, const struct uma_guard_process *root, uint64_t unseen, bool answered,
                         const struct uma_guard_fall *fall, struct uma_guard_tree *t) {
    const struct uma_guard_past_tree *then = find(past, root);
    int64_t anon = (int64_t)(t->anon + t->swap), shmem = (int64_t)t->shmem, gpu = (int64_t)t->gpu;
    t->seen = then != NULL;
    if (then) {
        anon -= (int64_t)then->anon;
        shmem -= (int64_t)then->shmem;
        gpu -= (int64_t)then->gpu;
    } else {
        anon = positive(anon - (int64_t)unseen);
        gpu = positive(gpu - (int64_t)unseen);
    }
    if (past->gpu_time == 0 || !answered) /* the driver said nothing at one of the two times: no difference can be told */
        gpu = 0;
    t->gpu_growth = gpu;
    t->growth = at_most(anon, fall->anon) + at_most(shmem, fall->shmem) + gpu;
}

static void measure(const struct uma_guard_past *past, const struct uma_guard_view *view, const struct uma_guard_danger *d,
                    struct uma_guard_tree *trees, size_t n, struct uma_guard_fall *fall) {
    const struct uma_guard_reading *now = view->now;
    uint64_t unseen = smallest(past), used = now->anon + (now->swap_total - now->swap_free);
    fall->measured = true;
    fall->span_ns = now->time - past->time;
    fall->anon = less(used, past->anon);
    fall->shmem = less(now->shmem, past->shmem);
    fall->bytes = less(past->headroom, d->headroom);
    fall->other = fall->bytes - positive(fall->anon) - positive(fall->shmem);
    if (fall->anon + positive(fall->shmem) > fall->bytes) /* what went to swap */
        fall->bytes = fall->anon + positive(fall->shmem);
    for (size_t i = 0; i < n; i++) {
        measure_tree(past, &view->processes[trees[i].root], unseen, now->known & UMA_GUARD_KNOWS_GPU, fall, &trees[i]);
        fall->explained += positive(trees[i].growth);
        fall->on_gpu += positive(trees[i].gpu_growth);
    }
}

/* ---- who --------------------------------------------------------------------------------------------------------- */

static void blame_growers(struct uma_guard_tree *trees, size_t n, int64_t jitter, struct uma_guard_fall *fall) {
    int64_t largest = 0, of = fall->bytes;
    for (size_t i = 0; i < n; i++)
        largest = trees[i].growth > largest ? trees[i].growth : largest;
    if (largest < jitter || (largest < of / (2 * CULPRIT_SHARE) && fall->explained < of / 2))
        return;
    for (size_t i = 0; i < n; i++)
        trees[i].culprit = trees[i].growth > 0 && (trees[i].growth >= of / CULPRIT_SHARE || trees[i].growth >= largest / ALIKE_SHARE) &&
                           trees[i].growth >= largest / CULPRIT_SHARE;
}

static bool may_use_gpu(const struct uma_guard_tree *t) {
    return t->gpu > 0 || (t->flags & UMA_GUARD_HOLDS_GPU);
}

/*
 * How likely it is that this one takes what the driver's last answer does not show. First whom it was before (a wrong stop is taken off the count, brake.c); then who was seen to grow there at a rate like the fall's; then who has the device open and is not in that answer, or for the first time, the youngest first, because a
 * job that begins is what takes memory mostly; then who grew a little; then by size.
 */
static double suspicion(const struct uma_guard_state *s, const struct uma_guard_view *view, const struct uma_guard_tree *t, double speed) {
    const struct uma_guard_process *root = &view->processes[t->root];
    if (!may_use_gpu(t) || (t->flags & UMA_GUARD_EXITING))
        return 0;
    for (uint32_t i = 0; i < s->n_braked && i < UMA_GUARD_BRAKED; i++)
        if (s->braked[i].times > 0 && s->braked[i].pid == root->pid && s->braked[i].start == root->start)
            return 5e18 + (double)s->braked[i].times * 1e15;
    if (speed > 0 && t->gpu_rate >= speed / SUSPECT_SHARE)
        return 4e18 + t->gpu_rate;
    if (t->gpu == 0 || t->gpu_new)
        return 3e18 + (double)t->youngest;
    if (t->gpu_rate > 0)
        return 2e18 + t->gpu_rate;
    return 1e18 + (double)t->gpu;
}

static bool is_stopped(const struct uma_guard_state *s, const struct uma_guard_view *view, const struct uma_guard_tree *t) {
    const struct uma_guard_process *root = &view->processes[t->root];
    for (uint32_t i = 0; i < s->n_braked && i < UMA_GUARD_BRAKED; i++)
        if (s->braked[i].stopped && s->braked[i].pid == root->pid && s->braked[i].start == root->start)
            return true;
    return false;
}

static bool is_the_drivers(const struct uma_guard_fall *fall) {
    return fall->other >= fall->bytes / DRIVER_SHARE && fall->on_gpu < fall->other / UNEXPLAINED_SHARE;
}

/* The last answer is older than most of the fall; the one before it may still tell who was growing then, if that was as much as fell between the two. */
static void measure_between_answers(const struct uma_guard_state *s, const struct uma_guard_view *view, const struct uma_guard_danger *d,
                                    struct uma_guard_tree *trees, size_t n, struct uma_guard_fall *fall) {
    const struct uma_guard_past *past = before_the_fall(s, view, d, view->now->time - view->now->gpu_age_ns);
    if (!past || past->gpu_time == 0)
        return;
    struct uma_guard_fall between = { 0 };
    measure(past, view, d, trees, n, &between);
    int64_t seen = between.other - positive(d->since_answer);
    if (between.on_gpu >= seen / DRIVER_SHARE && between.on_gpu >= (int64_t)uma_guard_jitter(view->now->total)) {
        *fall = between;
        fall->bytes = fall->bytes > positive(d->since_answer) ? fall->bytes - positive(d->since_answer) : between.on_gpu;
        fall->other = fall->on_gpu;
    }
}

/* Most of it is neither private nor shared memory, the answer explains little of it, and what fell since that answer is as much as is not explained: with a fresh answer it is the kernel's, or noise, and nobody's. */
static bool may_be_the_drivers(const struct uma_guard_danger *d, const struct uma_guard_fall *fall) {
    if (!d->falling)
        return false;
    if (fall->measured && !is_the_drivers(fall))
        return false;
    if (d->since_answer == INT64_MAX || !fall->measured)
        return true;
    return d->since_answer >= (fall->other - fall->on_gpu) / UNEXPLAINED_SHARE;
}

int uma_guard_most_suspect(const struct uma_guard_state *s, const struct uma_guard_view *view, const struct uma_guard_tree *trees, size_t n,
                           double speed, uint32_t spared) {
    int best = -1;
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double value = suspicion(s, view, &trees[i], speed);
        if (value > most && !(trees[i].flags & spared) && !is_stopped(s, view, &trees[i])) {
            most = value;
            best = (int)i;
        }
    }
    return best;
}

static void suspect_one(const struct uma_guard_state *s, const struct uma_guard_view *view, const struct uma_guard_danger *d,
                        struct uma_guard_tree *trees, size_t n, struct uma_guard_fall *fall) {
    int best = uma_guard_most_suspect(s, view, trees, n, -d->rate, UMA_GUARD_PROTECTED);
    fall->guess = best >= 0;
    if (best >= 0)
        trees[best].culprit = true;
}

/* ---- what was declared -------------------------------------------------------------------------------------------- */

/* What the driver took since its last answer, which nobody's figures show: if it is this job's, it has taken so much more. */
static uint64_t unseen_since_answer(const struct uma_guard_danger *d, const struct uma_guard_fall *fall) {
    int64_t unseen = d->since_answer == INT64_MAX ? fall->other - fall->on_gpu : d->since_answer;
    return (uint64_t)positive(unseen);
}

static bool inside_envelope(const struct uma_guard_view *view, const struct uma_guard_danger *d, const struct uma_guard_fall *fall,
                            const struct uma_guard_tree *t) {
    if (t->envelope < 0 || (size_t)t->envelope >= view->n_envelopes || !view->envelopes)
        return false;
    const struct uma_guard_envelope *e = &view->envelopes[t->envelope];
    uint64_t held = uma_guard_tree_held(t), taken = e->taken > held ? e->taken : held;
    if (taken >= e->need)
        return false;
    uint64_t rest = e->need - taken, unseen = unseen_since_answer(d, fall);
    rest -= unseen < rest ? unseen : rest;
    return d->headroom >= d->floor && rest <= d->headroom - d->floor; /* what is still to come fits above the floor */
}

/* Whoever is inside what it said is not to blame; if nobody else is, the fall is expected. */
static void excuse(const struct uma_guard_view *view, const struct uma_guard_danger *d, struct uma_guard_tree *trees, size_t n,
                   struct uma_guard_fall *fall) {
    bool excused = false;
    for (size_t i = 0; i < n; i++) {
        trees[i].expected = inside_envelope(view, d, fall, &trees[i]);
        if (!trees[i].expected)
            continue;
        excused |= trees[i].culprit || (fall->guess && may_use_gpu(&trees[i]));
        trees[i].culprit = false;
    }
    fall->n_culprits = 0;
    for (size_t i = 0; i < n; i++) {
        if (fall->guess && excused)
            trees[i].culprit = false; /* a guess is not held against others while a declared load explains it */
        fall->n_culprits += trees[i].culprit;
    }
    fall->expected = excused && fall->n_culprits == 0;
}

/* ---- order --------------------------------------------------------------------------------------------------------- */

static bool goes_before(const struct uma_guard_tree *a, const struct uma_guard_tree *b) {
    return a->culprit != b->culprit ? a->culprit : a->growth > b->growth;
}

/* The few that explain it to the front; the rest stays as it is. */
static void to_front(struct uma_guard_tree *trees, size_t n, size_t most) {
    for (size_t k = 0; k < n && k < most; k++) {
        size_t best = k;
        for (size_t i = k + 1; i < n; i++)
            if (goes_before(&trees[i], &trees[best]))
                best = i;
        struct uma_guard_tree t = trees[k];
        trees[k] = trees[best];
        trees[best] = t;
    }
}

void uma_guard_explain(const struct uma_guard_state *state, const struct uma_guard_view *view, const struct uma_guard_danger *danger,
                       struct uma_guard_tree *trees, size_t n, struct uma_guard_fall *ret_fall) {
    *ret_fall = (struct uma_guard_fall){ 0 };
    const struct uma_guard_past *past = before_the_fall(state, view, danger, INT64_MAX);
    if (past)
        measure(past, view, danger, trees, n, ret_fall);
    if (past && is_the_drivers(ret_fall) && danger->since_answer != INT64_MAX)
        measure_between_answers(state, view, danger, trees, n, ret_fall);
    if (may_be_the_drivers(danger, ret_fall))
        suspect_one(state, view, danger, trees, n, ret_fall);
    else if (past)
        blame_growers(trees, n, (int64_t)uma_guard_jitter(view->now->total), ret_fall);
    excuse(view, danger, trees, n, ret_fall);
    to_front(trees, n, UMA_GUARD_ACTIONS + UMA_GUARD_CANDIDATES);
}
