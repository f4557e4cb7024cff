/* SPDX-License-Identifier: MIT */
/* Rungs 2 to 4: one victim at a time, warned, ended, killed, and waited for until its memory is back as measured. */
#include "guard/deciding.h"

/* Whoever hears SIGTERM needs seconds to end: with less than one left it is of no use. */
#define TERM_LEAST 1.0
/* Twice what a stop takes to show (brake.c), so that one who may be to blame is stopped first. */
#define SUSPECT_LEAST 0.3
/* Half of what it held came back: others take some of it meanwhile, and some was shared. */
enum { RELEASED_SHARE = 2 };
/* A driver was seen to give memory back between three and four minutes after the process was gone. So long nobody else is ended for it, unless he grows. */
#define LATE_MOST (300 * UMA_SECOND_NS)

static void clear_victim(struct uma_guard_state *s) {
    s->victim = 0;
    s->victim_start = s->victim_bytes = s->headroom_at_kill = s->lowest = 0;
    s->warned = s->terminated = s->killed = 0;
    s->victim_gone = s->said = false;
}

static void give_up(struct uma_guard_state *s) {
    if (s->n_given_up >= UMA_GUARD_GIVEN_UP) { /* the oldest is forgotten: it was unkillable long ago */
        for (uint32_t i = 1; i < UMA_GUARD_GIVEN_UP; i++)
            s->given_up[i - 1] = s->given_up[i];
        s->n_given_up = UMA_GUARD_GIVEN_UP - 1;
    }
    s->given_up[s->n_given_up++] = (struct uma_guard_who){ s->victim, s->victim_start };
}

/* ---- the steps ---------------------------------------------------------------------------------------------------- */

static void forget_brake(struct uma_guard_state *s) { /* whoever acts lets it go on, so that it hears the signal */
    for (uint32_t i = 0; i < s->n_braked; i++)
        if (s->braked[i].stopped && s->braked[i].pid == s->victim && s->braked[i].start == s->victim_start) {
            s->braked[i].stopped = false;
            s->braked[i].released = s->braked[i].since;
        }
}

static void step(struct uma_guard_deciding *c, enum uma_guard_action_kind kind, enum uma_guard_reason reason) {
    struct uma_guard_state *s = c->state;
    if (!uma_guard_act(c, kind, reason, s->victim, s->victim_start, s->victim_bytes))
        return;
    *(kind == UMA_GUARD_WARN ? &s->warned : kind == UMA_GUARD_TERM ? &s->terminated : &s->killed) = c->now;
    s->headroom_at_kill = s->lowest = c->danger.headroom;
    if (kind != UMA_GUARD_WARN)
        forget_brake(s);
}

/* No time for SIGTERM: it is not over in time, and a stopped one that hears it goes on growing. */
static bool no_time(const struct uma_guard_deciding *c) {
    const struct uma_guard_danger *d = &c->danger;
    for (uint32_t i = 0; i < c->state->n_braked; i++) {
        const struct uma_guard_braked *b = &c->state->braked[i];
        if (b->stopped && b->pid == c->state->victim && b->start == c->state->victim_start && (double)d->headroom < -b->rate * TERM_LEAST)
            return true;
    }
    return (d->falling && d->to_zero < TERM_LEAST) || (d->headroom < d->hard_floor / 2 && (d->falling || d->stalled));
}

static void end(struct uma_guard_deciding *c, enum uma_guard_reason reason) {
    if (c->policy->kill && (!c->policy->terminate || no_time(c)))
        step(c, UMA_GUARD_KILL, reason);
    else if (c->policy->terminate)
        step(c, UMA_GUARD_TERM, reason);
}

/* Also where it goes on growing, as with a long horizon: the hard floor is farther away than its warning and its own end take. */
static bool time_for_all(const struct uma_guard_deciding *c) {
    return c->danger.to_hard > c->policy->warn_grace + c->policy->term_grace;
}

/* ---- following it -------------------------------------------------------------------------------------------------- */

static void follow_warned(struct uma_guard_deciding *c, bool recovered) {
    bool over = c->now - c->state->warned >= uma_guard_nanoseconds(c->policy->warn_grace);
    if (c->state->victim_gone || (recovered && over))
        clear_victim(c->state);
    else if (over || (c->danger.danger && c->danger.falling && !time_for_all(c)))
        end(c, UMA_GUARD_DID_NOT_END);
}

static void follow_terminated(struct uma_guard_deciding *c, bool recovered) {
    int64_t since = c->now - c->state->terminated;
    bool grows_on =
        c->danger.falling && c->danger.headroom < c->danger.hard_floor; /* it goes on since it heard SIGTERM, and does what it did */
    bool over = grows_on || since >= uma_guard_nanoseconds(c->policy->term_grace);
    if (recovered && over)
        clear_victim(c->state); /* whether it ended or gave its memory back: there is no need any more */
    else if (c->policy->kill && (over || no_time(c)))
        step(c, UMA_GUARD_KILL, UMA_GUARD_DID_NOT_END);
    else if (!c->policy->kill && since >= uma_guard_nanoseconds(c->policy->release_wait)) {
        (void)uma_guard_act(c, UMA_GUARD_UNKILLABLE, UMA_GUARD_DID_NOT_END, c->state->victim, c->state->victim_start,
                            c->state->victim_bytes);
        give_up(c->state);
        clear_victim(c->state);
    }
}

static bool is_released(const struct uma_guard_deciding *c) {
    const struct uma_guard_state *s = c->state;
    return c->danger.headroom >= s->lowest && c->danger.headroom - s->lowest >= s->victim_bytes / RELEASED_SHARE;
}

/* Killed, or ended by itself: until its memory is back. */
static void follow_ended(struct uma_guard_deciding *c, bool recovered) {
    struct uma_guard_state *s = c->state;
    int64_t since = c->now - (s->killed ? s->killed : s->terminated);
    bool waited = since >= uma_guard_nanoseconds(c->policy->release_wait);
    if ((is_released(c) || recovered) && (s->victim_gone || waited)) {
        clear_victim(s);
        s->brake_last = c->now; /* as after a stop: what fell until now was this one's */
        s->brake_rate = c->danger.rate;
        return;
    }
    if (!waited)
        return;
    if (!s->said)
        s->said = uma_guard_act(c, UMA_GUARD_UNKILLABLE, UMA_GUARD_NOT_RELEASED, s->victim, s->victim_start, s->victim_bytes);
    if (!s->victim_gone) {
        give_up(s);
        clear_victim(s);
        s->unkillable = true;
    } else if (since >= LATE_MOST || (c->alarm && c->danger.falling && c->explained && c->fall.n_culprits > 0)) {
        clear_victim(s);
    }
}

void uma_guard_victim_follow(struct uma_guard_deciding *c) {
    struct uma_guard_state *s = c->state;
    bool recovered = c->danger.headroom >= c->release;
    if (s->n_given_up > UMA_GUARD_GIVEN_UP)
        s->n_given_up = 0; /* a state file that is none */
    if (recovered)
        s->unkillable = false;
    if (!s->victim)
        return;
    if (c->danger.headroom < s->lowest)
        s->lowest = c->danger.headroom;
    if (s->killed || (s->victim_gone && s->terminated))
        follow_ended(c, recovered);
    else if (s->terminated)
        follow_terminated(c, recovered);
    else
        follow_warned(c, recovered);
}

/* ---- another one ------------------------------------------------------------------------------------------------------ */

static enum uma_guard_reason is_due(const struct uma_guard_deciding *c) {
    const struct uma_guard_danger *d = &c->danger;
    if (c->alarm && d->headroom < d->hard_floor && uma_guard_brake_settled(c))
        return UMA_GUARD_BELOW_HARD_FLOOR;
    if (c->too_long)
        return UMA_GUARD_BRAKED_TOO_LONG;
    if (c->too_often)
        return UMA_GUARD_BRAKED_TOO_OFTEN;
    /* nobody who can be stopped: the next rung comes as early as the stop would have before the hard floor. Where he may not be ended either, another one who stands is not ended for him. */
    if (c->alarm && c->endable > 0 && d->falling && d->to_hard <= c->policy->horizon && c->state->brake_last != c->now)
        return UMA_GUARD_NOBODY_TO_BRAKE;
    return UMA_GUARD_NO_REASON;
}

/* What it holds as far as anybody knows, or what fell until it was stopped: where the driver does not answer that is all there is to go by. */
static uint64_t what_should_come_back(const struct uma_guard_deciding *c, const struct uma_guard_tree *tree,
                                      const struct uma_guard_process *root) {
    uint64_t bytes = uma_guard_tree_held(tree);
    for (uint32_t i = 0; i < c->state->n_braked; i++) {
        const struct uma_guard_braked *b = &c->state->braked[i];
        if (b->pid == root->pid && b->start == root->start && b->growth > 0 && (uint64_t)b->growth > bytes)
            bytes = (uint64_t)b->growth;
    }
    return bytes;
}

/* It was measured to grow, or the fall was over when it was stopped. */
static bool is_known(const struct uma_guard_deciding *c, const struct uma_guard_tree *tree, const struct uma_guard_process *root) {
    for (uint32_t i = 0; i < c->state->n_braked; i++) {
        const struct uma_guard_braked *b = &c->state->braked[i];
        if (b->pid == root->pid && b->start == root->start && (b->confirmed || (b->stopped && !b->guessed)))
            return true;
    }
    return tree->culprit && !c->fall.guess;
}

void uma_guard_victim_begin(struct uma_guard_deciding *c) {
    struct uma_guard_state *s = c->state;
    enum uma_guard_reason reason = is_due(c);
    if (s->victim || reason == UMA_GUARD_NO_REASON || !c->explained || !(c->policy->terminate || c->policy->kill))
        return;
    bool anybody =
        reason == UMA_GUARD_BELOW_HARD_FLOOR && !c->danger.drift; /* what only sank is no reason to end somebody who did not grow */
    int index = uma_guard_choose_victim(s, c->view, &c->danger, &c->fall, anybody, c->trees, c->n);
    if (index < 0)
        return;
    const struct uma_guard_tree *tree = &c->trees[index];
    const struct uma_guard_process *root = &c->view->processes[tree->root];
    if (reason == UMA_GUARD_BELOW_HARD_FLOOR && c->danger.to_zero > SUSPECT_LEAST && !is_known(c, tree, root) && uma_guard_brake_suspect(c))
        return;
    clear_victim(s);
    s->victim = root->pid;
    s->victim_start = root->start;
    s->victim_bytes = what_should_come_back(c, tree, root);
    s->lowest = c->danger.headroom;
    bool stands = !c->danger.falling || reason == UMA_GUARD_BRAKED_TOO_OFTEN; /* this one is stopped since a moment ago */
    if (c->policy->warn && (tree->flags & UMA_GUARD_WARNS) && (stands || time_for_all(c)) && !no_time(c)) {
        uma_guard_brake_let_go(c, root->pid, root->start, reason); /* a stopped job hears nothing */
        step(c, UMA_GUARD_WARN, reason);
    } else {
        end(c, reason);
    }
    if (!s->warned && !s->terminated && !s->killed)
        clear_victim(s); /* no room in this decision: the next one */
}

void uma_guard_victim_gone(struct uma_guard_state *state) {
    if (state->victim)
        state->victim_gone = true;
}

static void failed_brake(struct uma_guard_state *s, const struct uma_guard_action *action) {
    for (uint32_t i = s->n_braked; i-- > 0;)
        if (s->braked[i].pid == action->pid && s->braked[i].start == action->start)
            s->braked[i] = s->braked[--s->n_braked];
}

void uma_guard_failed(struct uma_guard_state *state, const struct uma_guard_action *action) {
    bool of_victim = state->victim != 0 && state->victim == action->pid && state->victim_start == action->start;
    switch (action->kind) {
    case UMA_GUARD_BRAKE:
    case UMA_GUARD_RELEASE:
        failed_brake(state, action);
        break;
    case UMA_GUARD_WARN: /* nobody could warn it: as if that was long ago, so that the next step is due */
        if (of_victim)
            state->warned = 1;
        break;
    case UMA_GUARD_TERM:
    case UMA_GUARD_KILL:
        if (of_victim) {
            give_up(state); /* gone, or not ours: whoever else must go is chosen anew */
            clear_victim(state);
        }
        failed_brake(state, action);
        break;
    default:
        break;
    }
}
