/* SPDX-License-Identifier: MIT */
/* Rung 1: who is stopped, and when it goes on. */
#include "guard/deciding.h"

#include <string.h>

/* Shorter would be stopped again before a reading shows what came of it: 200 ms is the window of the rate. */
#define HOLD_LEAST (200 * UMA_GUARD_MS)
/*
 * When the effect of a stop shows. Of a measured one: 150 ms; it is signalled within 5 and stands when its call of the driver returns, which is 100 ms for a GiB at 10 GB/s. Of a suspect the same is waited before the next one
 * is stopped: at 15 GB/s that costs 2 GB each, of the 7.5 that the horizon gives.
 */
#define SETTLE_FALL (150 * UMA_GUARD_MS)
/* Stalls are counted over a second. */
#define SETTLE_STALL (1200 * UMA_GUARD_MS)
/* With so little time nothing is waited for but the signal itself. */
#define NO_TIME 0.1
#define SETTLE_LEAST (30 * UMA_GUARD_MS)
/* While somebody else is being ended it waits for that, but not for ever. */
enum { WAIT_TIMES = 2 };

bool uma_guard_brake_settled(const struct uma_guard_deciding *c) {
    if (c->state->brake_last == 0)
        return true;
    int64_t ago = c->now - c->state->brake_last;
    if (ago < 0)
        return true; /* of a clock before this one */
    if (c->danger.falling)
        return ago >= (c->danger.to_zero < NO_TIME ? SETTLE_LEAST : SETTLE_FALL);
    return ago >= SETTLE_STALL;
}

/* ---- going on ----------------------------------------------------------------------------------------------------- */

static bool go_on(struct uma_guard_deciding *c, struct uma_guard_braked *b, enum uma_guard_reason reason) {
    if (!uma_guard_act(c, UMA_GUARD_RELEASE, reason, b->pid, b->start, 0))
        return false;
    b->stopped = false;
    b->released = c->now;
    return true;
}

void uma_guard_brake_let_go(struct uma_guard_deciding *c, int32_t pid, uint64_t start, enum uma_guard_reason reason) {
    for (uint32_t i = 0; i < c->state->n_braked; i++) {
        struct uma_guard_braked *b = &c->state->braked[i];
        if (b->stopped && b->pid == pid && b->start == start)
            (void)go_on(c, b, reason);
    }
}

/* Stopped on suspicion, another one was stopped later, and then the fall was over: it was not this one. */
static bool was_not_the_one(const struct uma_guard_deciding *c, const struct uma_guard_braked *b) {
    return b->guessed && b->since < c->state->brake_last && !c->danger.falling && c->now - c->state->brake_last >= SETTLE_FALL;
}

static bool its_time_is_over(const struct uma_guard_deciding *c, const struct uma_guard_braked *b) {
    int64_t most = uma_guard_nanoseconds(c->policy->brake_most);
    return c->now - b->since >= (c->state->victim ? WAIT_TIMES * most : most);
}

static bool may_end_somebody(const struct uma_guard_deciding *c) {
    return c->policy->terminate || c->policy->kill;
}

static void look_at_braked(struct uma_guard_deciding *c, struct uma_guard_braked *b) {
    bool known = c->danger.known && (c->view->now->known & UMA_GUARD_KNOWS_MEMINFO);
    if (c->now < b->since) /* a clock that jumped back: its time begins again */
        b->since = c->now;
    int64_t held = c->now - b->since;
    if (known && held >= HOLD_LEAST && c->danger.headroom >= c->release && !(c->danger.danger && c->danger.falling)) {
        (void)go_on(c, b, UMA_GUARD_HEADROOM_BACK);
    } else if (known && was_not_the_one(c, b)) {
        if (go_on(c, b, UMA_GUARD_NOT_THE_ONE) && b->times > 0)
            b->times--;
    } else if (its_time_is_over(c, b)) {
        bool bad = known && (c->danger.headroom < c->danger.hard_floor || (c->danger.headroom < c->danger.line && c->danger.stalled));
        if (bad && may_end_somebody(c) && !c->state->victim)
            c->too_long = true;
        else
            (void)go_on(c, b, UMA_GUARD_BRAKED_TOO_LONG);
    }
}

static void forget_old(struct uma_guard_deciding *c) {
    struct uma_guard_state *s = c->state;
    int64_t window = uma_guard_nanoseconds(c->policy->brake_window);
    for (uint32_t i = s->n_braked; i-- > 0;)
        if (!s->braked[i].stopped && (c->now - s->braked[i].first > window || c->now < s->braked[i].first))
            s->braked[i] = s->braked[--s->n_braked];
}

void uma_guard_brake_release(struct uma_guard_deciding *c) {
    if (c->state->n_braked > UMA_GUARD_BRAKED)
        c->state->n_braked = 0; /* a state file that is none */
    for (uint32_t i = 0; i < c->state->n_braked; i++)
        if (c->state->braked[i].stopped)
            look_at_braked(c, &c->state->braked[i]);
    forget_old(c);
}

/* ---- stopping ------------------------------------------------------------------------------------------------------ */

static struct uma_guard_braked *place_of(struct uma_guard_deciding *c, const struct uma_guard_process *root) {
    struct uma_guard_state *s = c->state;
    uint32_t oldest = UMA_GUARD_BRAKED;
    for (uint32_t i = 0; i < s->n_braked; i++) {
        if (s->braked[i].pid == root->pid && s->braked[i].start == root->start)
            return &s->braked[i];
        if (!s->braked[i].stopped && (oldest == UMA_GUARD_BRAKED || s->braked[i].released < s->braked[oldest].released))
            oldest = i;
    }
    if (s->n_braked == UMA_GUARD_BRAKED && oldest == UMA_GUARD_BRAKED)
        return NULL; /* 32 are stopped: what falls on then is for the next rung */
    struct uma_guard_braked *b = &s->braked[s->n_braked < UMA_GUARD_BRAKED ? s->n_braked++ : oldest];
    *b = (struct uma_guard_braked){ .pid = root->pid, .start = root->start, .first = c->now };
    return b;
}

static void brake(struct uma_guard_deciding *c, const struct uma_guard_tree *tree) {
    const struct uma_guard_process *root = &c->view->processes[tree->root];
    struct uma_guard_braked *b = place_of(c, root);
    if (!b || b->stopped || !uma_guard_act(c, UMA_GUARD_BRAKE, c->danger.reason, root->pid, root->start, uma_guard_tree_held(tree)))
        return;
    if (c->now - b->first > uma_guard_nanoseconds(c->policy->brake_window)) {
        b->first = c->now;
        b->times = 0;
    }
    b->stopped = true;
    b->since = c->state->brake_last = c->now;
    b->times++;
    b->guessed = c->fall.guess;
    b->growth = tree->growth > b->growth ? tree->growth : b->growth;
    if (b->times > c->policy->brake_times && c->danger.headroom < c->danger.line)
        c->too_often = true;
}

static bool is_victim(const struct uma_guard_state *s, const struct uma_guard_process *p) {
    return s->victim == p->pid && s->victim_start == p->start;
}

void uma_guard_brake_culprits(struct uma_guard_deciding *c) {
    /* what the last stop did is to be seen first; one more that grows as measured is not waited for, only a second guess */
    if (c->fall.guess && !uma_guard_brake_settled(c))
        return;
    for (size_t i = 0; i < c->n && c->trees[i].culprit; i++) {
        const struct uma_guard_process *root = &c->view->processes[c->trees[i].root];
        if (root->pid <= 1 || (c->trees[i].flags & UMA_GUARD_EXITING) || is_victim(c->state, root))
            continue;
        if (!c->policy->brake || (c->trees[i].flags & (UMA_GUARD_PROTECTED | UMA_GUARD_NO_BRAKE)))
            c->unbrakable++;
        else
            brake(c, &c->trees[i]);
    }
}
