/* SPDX-License-Identifier: MIT */
#include "guard/deciding.h"

#include <math.h>

/* A stop (and an end) is signalled within 5 ms and its effect is in the readings after 30: what was read before says nothing about it. */
#define AFTER_STOP (30 * UMA_MILLISECOND_NS)

/*
 * Tables of processes (2 ms for 300 processes). To act on: 60 ms old at most, in which 20 GB/s are 1.2 GB. While it falls towards the line (six horizons away: 3 s) and while somebody is stopped: four a second, so that growth has a table from a moment
 * before. Near the floor, or while it falls so that it is there within half a minute: one a second. Where it falls more slowly, as a machine at work does all day: every 5 s. Where it only stands: every 15 s, 0.015 % of a core; growth is measured from there when a fall begins.
 */
#define TABLE_FRESH (60 * UMA_MILLISECOND_NS)
#define TABLE_FALLING (100 * UMA_MILLISECOND_NS)
#define TABLE_BRAKED (250 * UMA_MILLISECOND_NS)
#define TABLE_NEAR UMA_SECOND_NS
#define TABLE_STANDING (5 * UMA_SECOND_NS)
#define TABLE_FAR (15 * UMA_SECOND_NS)
#define FALL_SOON 30.0 /* seconds */
enum { NEAR_FLOORS = 3, NEAR_HORIZONS = 6 };
/* A table that was asked for and did not come: whatever there is, if it is not too old to know the processes by. */
#define TABLE_WAIT (100 * UMA_MILLISECOND_NS)
#define TABLE_OLDEST (2 * UMA_SECOND_NS)

/* A reading that failed is tried again soon: meanwhile nothing is known. */
#define WAKE_UNKNOWN (50 * UMA_MILLISECOND_NS)
#define WAKE_BUSY (10 * UMA_MILLISECOND_NS)    /* in danger */
#define WAKE_STOPPED (20 * UMA_MILLISECOND_NS) /* while somebody stands stopped or is being ended, and nothing falls */
/* So much more free memory than the least is asked for, or the next request follows at once. */
enum { ROOM_MORE = 4 };
/* That nobody can be stopped is said when it has been so for a while: a stop that was just taken back is no such thing. */
#define SAY_AFTER (500 * UMA_MILLISECOND_NS)

bool uma_guard_act(struct uma_guard_deciding *c, enum uma_guard_action_kind kind, enum uma_guard_reason reason, int32_t pid, uint64_t start,
                   uint64_t bytes) {
    if (c->decision->n >= UMA_GUARD_ACTIONS)
        return false;
    c->decision->actions[c->decision->n++] =
        (struct uma_guard_action){ .kind = kind, .reason = reason, .pid = pid, .start = start, .bytes = bytes, .order = -1 };
    return true;
}

int64_t uma_guard_nanoseconds(double seconds) {
    if (!(seconds > 0))
        return 0;
    return seconds > 1e9 ? INT64_C(1000000000000000000) : (int64_t)(seconds * 1e9);
}

/* ---- the table ------------------------------------------------------------------------------------------------------ */

static int64_t table_age(const struct uma_guard_deciding *c) {
    if (!c->view->processes || c->view->n_processes == 0 || c->view->processes_time == 0)
        return INT64_MAX;
    return c->now > c->view->processes_time ? c->now - c->view->processes_time : 0;
}

static bool somebody_stopped(const struct uma_guard_state *s) {
    for (uint32_t i = 0; i < s->n_braked && i < UMA_GUARD_BRAKED; i++)
        if (s->braked[i].stopped)
            return true;
    return false;
}

static int64_t table_most(const struct uma_guard_deciding *c) {
    const struct uma_guard_danger *d = &c->danger;
    if (d->danger)
        return TABLE_FRESH;
    if (d->falling && d->to_line <= NEAR_HORIZONS * c->policy->horizon)
        return TABLE_FALLING;
    if (somebody_stopped(c->state) || c->state->victim)
        return TABLE_BRAKED;
    if (d->falling)
        return d->to_line <= FALL_SOON || d->headroom < NEAR_FLOORS * d->floor ? TABLE_NEAR : TABLE_STANDING;
    if (d->headroom >= NEAR_FLOORS * d->floor)
        return TABLE_FAR;
    return d->signals & UMA_GUARD_SIGNAL_STEADY ? TABLE_STANDING : TABLE_NEAR;
}

/* Trees, and whose growth it is, where the table may be acted on. */
static void look_at_table(struct uma_guard_deciding *c) {
    int64_t age = table_age(c);
    bool waited = c->state->danger_since > 0 && c->now - c->state->danger_since > TABLE_WAIT;
    if (age > table_most(c))
        c->decision->want_processes = true;
    if (age > TABLE_FRESH && !(waited && age <= TABLE_OLDEST))
        return;
    c->n = uma_guard_trees(c->view, c->trees);
    if (c->danger.danger || c->state->victim || somebody_stopped(c->state)) {
        uma_guard_explain(c->state, c->view, &c->danger, c->trees, c->n, &c->fall);
        c->explained = true;
        c->alarm = c->danger.danger && !c->fall.expected;
        if (c->fall.expected)
            c->danger.signals |= UMA_GUARD_SIGNAL_EXPECTED;
    }
    if (age <= TABLE_FRESH)
        uma_guard_past_add(c->state, c->view, c->danger.headroom, c->trees, c->n);
}

/* What sank without falling now is a drift only where somebody is seen to have grown by it. With nobody's growth it is what a machine does by itself. */
static void confirm_drift(struct uma_guard_deciding *c) {
    if (c->alarm && c->danger.drift &&
        (!c->fall.measured || c->fall.guess || c->fall.explained < c->fall.bytes / 2 || c->fall.n_culprits == 0))
        c->alarm = false;
}

/* ---- the rungs ------------------------------------------------------------------------------------------------------- */

static void make_room(struct uma_guard_deciding *c) {
    const struct uma_guard_reading *now = c->view->now;
    uint32_t s = c->danger.signals;
    bool free_short = s & UMA_GUARD_SIGNAL_FREE_SHORT;
    bool blocks = (s & UMA_GUARD_SIGNAL_BLOCKS_SHORT) && (s & (UMA_GUARD_SIGNAL_COMPACTION | UMA_GUARD_SIGNAL_REFUSED));
    int64_t last = c->state->last_room;
    if (!c->policy->room || !(free_short || blocks) ||
        (last != 0 && c->now >= last && c->now - last < uma_guard_nanoseconds(c->policy->room_every)))
        return;
    uint64_t want = c->policy->free_floor + c->policy->free_floor / ROOM_MORE,
             bytes = free_short && want > now->free ? want - now->free : 0;
    if (!uma_guard_act(c, UMA_GUARD_ROOM, free_short ? UMA_GUARD_CACHE_IN_THE_WAY : UMA_GUARD_BLOCKS_SHORT, 0, 0, bytes))
        return;
    if (blocks)
        c->decision->actions[c->decision->n - 1].order = 9; /* 2 MiB with pages of 4 KiB: what the driver asks for first */
    c->state->last_room = c->now;
}

static void say_nobody(struct uma_guard_deciding *c) {
    if (c->fall.n_culprits > c->unbrakable)
        return; /* it was just let go, or is about to be stopped */
    if (!c->alarm || !c->explained || c->now - c->state->danger_since < SAY_AFTER || c->decision->n > 0 || c->state->victim ||
        c->state->said || somebody_stopped(c->state) || c->danger.headroom >= c->danger.floor)
        return;
    c->state->said = uma_guard_act(c, UMA_GUARD_NOTHING, UMA_GUARD_NOBODY_TO_BRAKE, 0, 0, 0);
}

static void last_resort(struct uma_guard_deciding *c) {
    int64_t most = uma_guard_nanoseconds(c->policy->last_resort_after);
    struct uma_guard_state *s = c->state;
    if (!c->policy->last_resort || !s->unkillable || s->hard_since == 0 || c->now - s->hard_since < most)
        return;
    if (s->last_resort != 0 && c->now - s->last_resort < most)
        return;
    if (uma_guard_act(c, UMA_GUARD_LAST_RESORT, UMA_GUARD_BELOW_HARD_FLOOR, 0, 0, 0))
        s->last_resort = c->now;
}

/*
 * What no window shows: below the floor, a quarter of the noise (a third of a GiB of 122) and more has gone since a table of the last minute, and the machine has come to no level. As for every drift, somebody must be seen to have
 * grown by it.
 */
enum { SINK_SHARE = 4 };
#define SINK_MOST (60 * UMA_SECOND_NS)

static void look_for_sinking(struct uma_guard_deciding *c) {
    struct uma_guard_danger *d = &c->danger;
    uint64_t least = uma_guard_noise(c->view->now->total) / SINK_SHARE;
    if (d->danger || d->headroom >= d->floor || (d->signals & UMA_GUARD_SIGNAL_STEADY))
        return;
    for (uint32_t i = c->state->n_past <= UMA_GUARD_PAST ? c->state->n_past : 0; i-- > 0 && c->now - c->state->past[i].time <= SINK_MOST;)
        if (c->state->past[i].headroom > d->headroom && c->state->past[i].headroom - d->headroom >= least) {
            d->signals |= UMA_GUARD_SIGNAL_DRIFT;
            d->reason = UMA_GUARD_BELOW_FLOOR;
            d->danger = d->drift = true;
            return;
        }
}

/* ---- one decision ----------------------------------------------------------------------------------------------------- */

/* A level that is being learned while a tree is stopped is none that the machine keeps by itself, until it has kept it for as long with nobody stopped. 30 s are what it takes (history.c). */
#define LEARNING (30 * UMA_SECOND_NS)

static bool kept_by_stops(const struct uma_guard_deciding *c, int64_t level_since) {
    for (uint32_t i = 0; i < c->state->n_braked && i < UMA_GUARD_BRAKED; i++) {
        const struct uma_guard_braked *b = &c->state->braked[i];
        int64_t until = b->stopped ? c->now : b->released;
        if (b->first < level_since + LEARNING && until > level_since && c->now - until < LEARNING)
            return true;
    }
    return false;
}

static void assess(struct uma_guard_deciding *c) {
    const struct uma_guard_history *h = c->history;
    struct uma_guard_stops stops = { .steady = h->steady, .fell_from = h->fell_from };
    const int64_t ours[] = { c->state->brake_last, c->state->terminated, c->state->killed };
    for (size_t i = 0; i < ELEMENTS(ours); i++)
        if (ours[i] != 0 && ours[i] <= c->now && ours[i] + AFTER_STOP > stops.since)
            stops.since = ours[i] + AFTER_STOP;
    if (stops.steady && kept_by_stops(c, h->steady_since))
        stops.steady = 0;
    if (stops.fell_from && kept_by_stops(c, h->fell_since))
        stops.fell_from = 0;
    uma_guard_danger_assess(h, c->policy, &stops, &c->danger);
    /* a machine that stood below the floor comes back to where it stood, not higher */
    double level = c->policy->brake_release * (double)c->policy->floor, before = (double)stops.fell_from * 0.9;
    c->release = (uint64_t)(stops.fell_from && before < level ? before : level);
}

static void times(struct uma_guard_deciding *c) {
    struct uma_guard_state *s = c->state;
    if (c->danger.headroom >= c->danger.hard_floor)
        s->hard_since = 0;
    else if (s->hard_since == 0 || s->hard_since > c->now)
        s->hard_since = c->now;
    if (!c->danger.danger) {
        s->danger_since = 0;
        if (!s->victim)
            s->said = false;
    } else if (s->danger_since == 0 || s->danger_since > c->now) {
        s->danger_since = c->now;
    }
}

static void fill_evidence(struct uma_guard_deciding *c) {
    const struct uma_guard_danger *d = &c->danger;
    c->decision->evidence = (struct uma_guard_evidence){ .headroom = d->headroom,
                                                         .floor = d->floor,
                                                         .hard_floor = d->hard_floor,
                                                         .steady = d->steady,
                                                         .rate = d->rate,
                                                         .time_to_floor = d->to_line,
                                                         .psi_some = d->psi_some,
                                                         .psi_full = d->psi_full,
                                                         .allocstall = d->allocstall,
                                                         .signals = d->signals };
}

static int64_t wake(const struct uma_guard_deciding *c) {
    int64_t ns = uma_guard_danger_wake(&c->danger, c->view->now->total);
    bool busy = c->danger.danger || c->danger.falling;
    int64_t most = busy ? WAKE_BUSY : WAKE_STOPPED;
    if (c->decision->want_processes && c->danger.danger && c->now - c->state->danger_since <= TABLE_WAIT)
        return 0;
    return (c->danger.danger || somebody_stopped(c->state) || c->state->victim) && ns > most ? most : ns;
}

static void decide_blind(struct uma_guard_deciding *c) { /* nothing is known now, but a stop has its end */
    uma_guard_brake_release(c);
    c->decision->wake_ns = WAKE_UNKNOWN;
}

void uma_guard_decide(struct uma_guard_state *state, const struct uma_guard_history *history, const struct uma_guard_policy *policy,
                      const struct uma_guard_view *view, struct uma_guard_decision *ret_decision) {
    struct uma_guard_deciding c = {
        .state = state, .history = history, .policy = policy, .view = view, .decision = ret_decision, .now = view->now->time
    };
    *ret_decision =
        (struct uma_guard_decision){ .evidence = { .time_to_floor = INFINITY, .psi_some = NAN, .psi_full = NAN, .allocstall = NAN } };
    assess(&c);
    if (!c.danger.known || !(view->now->known & UMA_GUARD_KNOWS_MEMINFO)) {
        decide_blind(&c);
        return;
    }
    look_for_sinking(&c);
    times(&c);
    look_at_table(&c);
    confirm_drift(&c);
    uma_guard_victim_follow(&c);
    uma_guard_brake_release(&c);
    if (c.alarm && c.explained)
        uma_guard_brake_culprits(&c);
    uma_guard_victim_begin(&c);
    last_resort(&c);
    say_nobody(&c);
    make_room(&c);
    if (ret_decision->n > 0 && c.n > 0)
        uma_guard_candidates(view, &c.fall, c.trees, c.n, ret_decision);
    fill_evidence(&c);
    ret_decision->wake_ns = wake(&c);
}
