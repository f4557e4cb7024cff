/* SPDX-License-Identifier: MIT */
/* Rung 1: who is stopped, and when it goes on. */
#include "guard/deciding.h"

#include <string.h>

/* Shorter would be stopped again before a reading shows what came of it: 200 ms is the window of the rate. */
#define HOLD_LEAST (200 * UMA_MILLISECOND_NS)
/*
 * When the effect of a stop shows. Of a measured one: 150 ms; it is signalled within 5 and stands when its call of the driver returns, which is 100 ms for a GiB at 10 GB/s. Of a suspect the same is waited before the next one
 * is stopped: at 15 GB/s that costs 2 GB each, of the 7.5 that the horizon gives.
 */
#define SETTLE_FALL (150 * UMA_MILLISECOND_NS)
/* Stalls are counted over a second. */
#define SETTLE_STALL (1200 * UMA_MILLISECOND_NS)
/* With so little time nothing is waited for but the signal itself. */
#define NO_TIME 0.1
#define SETTLE_LEAST (30 * UMA_MILLISECOND_NS)
/* What headroom did while it was stopped says nothing of what it does when it goes on. */
#define AFTER_RELEASE (15 * UMA_MILLISECOND_NS)
#define AFTER_RELEASE_DRIFT (5 * UMA_SECOND_NS) /* what is too slow to be seen falling */
/* A stop that left less than half of the fall was one of the right tree: the rest is its last call of the driver, or noise. A guess at another one is not made for that. */
#define STILL_FALLS 0.5
#define RATE_NOW (50 * UMA_MILLISECOND_NS)
/* From going on to standing again, if it falls at once as before: 50 ms until it shows, 20 for the table and the signal, and its last call. */
#define STOP_AGAIN 0.25
/*
 * How long a stop is given before another tree is guessed at: what falls on may be the last call of the one that was stopped (a GiB lasts two seconds at 0.5 GB/s). A quarter of the time to the hard floor, half of it where it
 * was measured to grow and no guess; between 150 ms and 2 s.
 */
#define GUESS_MOST 2.0
#define CALL_MOST (5 * UMA_SECOND_NS)
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
    return b->guessed && !b->confirmed && b->since < c->state->brake_last && !c->danger.falling &&
           c->now - c->state->brake_last >= SETTLE_FALL;
}

static bool is_given_up(const struct uma_guard_state *s, const struct uma_guard_braked *b) {
    for (uint32_t i = 0; i < s->n_given_up && i < UMA_GUARD_GIVEN_UP; i++)
        if (s->given_up[i].pid == b->pid && s->given_up[i].start == b->start)
            return true;
    return false;
}

static bool its_time_is_over(const struct uma_guard_deciding *c, const struct uma_guard_braked *b) {
    if (is_given_up(c->state, b))
        return false; /* it was killed and did not end: all that is left is that it takes no more, until headroom is back */
    int64_t most = uma_guard_nanoseconds(c->policy->brake_most);
    return c->now - b->since >= (c->state->victim ? WAIT_TIMES * most : most);
}

static bool may_end_somebody(const struct uma_guard_deciding *c) {
    return c->policy->terminate || c->policy->kill;
}

/* To let it go: the machine is below the hard floor, or stalls, or would be there before the tree can be stopped again. */
static bool is_too_near(const struct uma_guard_deciding *c, const struct uma_guard_braked *b) {
    const struct uma_guard_danger *d = &c->danger;
    if (d->headroom < d->hard_floor || (d->headroom < d->line && d->stalled))
        return true;
    return d->headroom < d->floor && (double)(d->headroom - d->hard_floor) < -b->rate * STOP_AGAIN + (double)b->overrun;
}

static void look_at_braked(struct uma_guard_deciding *c, struct uma_guard_braked *b) {
    bool known = c->danger.known && (c->view->now->known & UMA_GUARD_KNOWS_MEMINFO);
    if (c->now < b->since) /* a clock that jumped back: its time begins again */
        b->since = c->now;
    int64_t held = c->now - b->since;
    if (known && b->headroom > c->danger.headroom && b->headroom - c->danger.headroom > b->overrun && !b->guessed)
        b->overrun = b->headroom - c->danger.headroom;
    if (known && b->since == c->state->brake_last && held >= SETTLE_FALL && !c->danger.falling)
        b->confirmed = 1;
    if (known && held >= HOLD_LEAST && c->danger.headroom >= c->release && !(c->danger.danger && c->danger.falling)) {
        (void)go_on(c, b, UMA_GUARD_HEADROOM_BACK);
    } else if (known && was_not_the_one(c, b)) {
        if (go_on(c, b, UMA_GUARD_NOT_THE_ONE) && b->times > 0)
            b->times--;
    } else if (its_time_is_over(c, b)) {
        bool bad = known && is_too_near(c, b);
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

/* As fast as it falls at this moment, where the rate of the danger is a mean. */
static double rate_now(const struct uma_guard_deciding *c) {
    struct uma_guard_rates r;
    uma_guard_history_rates(c->history, RATE_NOW, &r);
    return r.known ? r.available : c->danger.rate;
}

static void brake(struct uma_guard_deciding *c, const struct uma_guard_tree *tree) {
    const struct uma_guard_process *root = &c->view->processes[tree->root];
    struct uma_guard_braked *b = place_of(c, root);
    int64_t after = c->danger.falling ? AFTER_RELEASE : AFTER_RELEASE_DRIFT;
    if (b && b->released != 0 && c->now - b->released < after && c->now >= b->released)
        return;
    if (!b || b->stopped || !uma_guard_act(c, UMA_GUARD_BRAKE, c->danger.reason, root->pid, root->start, uma_guard_tree_held(tree)))
        return;
    if (c->now - b->first > uma_guard_nanoseconds(c->policy->brake_window)) {
        b->first = c->now;
        b->times = 0;
    }
    b->stopped = true;
    b->headroom = c->danger.headroom;
    b->since = c->state->brake_last = c->now;
    c->state->brake_rate = rate_now(c);
    b->rate = c->state->brake_rate < b->rate ? c->state->brake_rate : b->rate;
    c->state->brake_measured = !c->fall.guess;
    b->times++;
    b->guessed = c->fall.guess;
    int64_t growth = c->fall.guess && c->fall.measured && c->fall.other > tree->growth ? c->fall.other : tree->growth;
    b->growth = growth > b->growth ? growth : b->growth;
    uint64_t below = c->danger.signals & UMA_GUARD_SIGNAL_DRIFT ? c->danger.floor : c->danger.line;
    if (b->times > c->policy->brake_times && c->danger.headroom < below)
        c->too_often = true;
}

static bool is_victim(const struct uma_guard_state *s, const struct uma_guard_process *p) {
    return s->victim == p->pid && s->victim_start == p->start;
}

static bool somebody_is_stopped(const struct uma_guard_state *s) {
    for (uint32_t i = 0; i < s->n_braked; i++)
        if (s->braked[i].stopped)
            return true;
    return false;
}

/* When it was stopped before, that was the end of the fall: now it is its last call, for as long as one may last. */
static bool a_confirmed_one_is_stopped(const struct uma_guard_deciding *c) {
    for (uint32_t i = 0; i < c->state->n_braked; i++)
        if (c->state->braked[i].stopped && c->state->braked[i].confirmed && c->now - c->state->braked[i].since < CALL_MOST)
            return true;
    return false;
}

/* Another one is suspected only where the fall goes on as it was before the last stop, and nobody is being ended who may be the one. */
static bool may_guess(const struct uma_guard_deciding *c) {
    if (c->state->victim || !c->danger.falling)
        return false;
    if (!somebody_is_stopped(c->state))
        return uma_guard_brake_settled(c); /* the last call of the one that was just ended */
    if (a_confirmed_one_is_stopped(c) && c->danger.to_zero > NO_TIME)
        return false;
    double wait = c->danger.to_hard / (c->state->brake_measured ? 2 : 4);
    if (c->now - c->state->brake_last < uma_guard_nanoseconds(wait < GUESS_MOST ? wait : GUESS_MOST))
        return false;
    return uma_guard_brake_settled(c) && rate_now(c) < STILL_FALLS * c->state->brake_rate;
}

/* Somebody is being ended, and at this rate the hard floor is farther away than his memory: whoever else grows a little meanwhile (a login, a shell's child) is left alone. */
static bool will_be_back_in_time(const struct uma_guard_deciding *c) {
    const struct uma_guard_state *s = c->state;
    return s->victim && !s->unkillable && c->danger.headroom >= c->danger.hard_floor &&
           c->danger.to_hard > c->policy->term_grace + c->policy->release_wait;
}

void uma_guard_brake_culprits(struct uma_guard_deciding *c) {
    if (will_be_back_in_time(c))
        return;
    /* what the last stop did is to be seen first; one more that grows as measured is not waited for, only a second guess */
    if (c->fall.guess && !may_guess(c))
        return;
    for (size_t i = 0; i < c->n && c->trees[i].culprit; i++) {
        const struct uma_guard_process *root = &c->view->processes[c->trees[i].root];
        if (root->pid <= 1 || (c->trees[i].flags & UMA_GUARD_EXITING) || is_victim(c->state, root))
            continue;
        if (!c->policy->brake || (c->trees[i].flags & (UMA_GUARD_PROTECTED | UMA_GUARD_NO_BRAKE))) {
            c->unbrakable++;
            c->endable += !(c->trees[i].flags & UMA_GUARD_PROTECTED);
        } else {
            brake(c, &c->trees[i]);
        }
    }
}

/* Nobody's growth explains the fall. One who may be it is stopped, the likeliest first, before anybody is ended for his size alone. */
bool uma_guard_brake_suspect(struct uma_guard_deciding *c) {
    if (!c->policy->brake || !may_guess(c))
        return false;
    int best = uma_guard_most_suspect(c->state, c->view, c->trees, c->n, -c->danger.rate, UMA_GUARD_PROTECTED | UMA_GUARD_NO_BRAKE);
    uint32_t before = c->decision->n;
    c->fall.guess = true;
    if (best >= 0)
        brake(c, &c->trees[best]);
    return c->decision->n > before;
}
