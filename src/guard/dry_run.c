/* SPDX-License-Identifier: MIT */
#include "guard/dry_run.h"

#include "base/units.h"

/* As far back as the decision looks for one who grew slowly (decide.c): what did not sink for so long is another fall when it does. */
#define STILL_NS (60 * UMA_SECOND_NS)

/* Without one who was stopped or ended there is nobody to let go or to wait for; and that nobody can be stopped is no news where one would have been. */
static bool may_be_told(enum uma_guard_action_kind kind, bool in_episode) {
    return kind == UMA_GUARD_ROOM || (!in_episode && kind != UMA_GUARD_RELEASE && kind != UMA_GUARD_UNKILLABLE);
}

/* What was seen stays: since when there is danger, when room was asked for, what the trees held. */
static void forget_done(struct uma_guard_state *s) {
    s->n_braked = s->n_given_up = 0;
    s->victim = 0;
    s->victim_start = s->victim_bytes = s->headroom_at_kill = s->lowest = 0;
    s->warned = s->terminated = s->killed = s->last_resort = s->brake_last = 0;
    s->brake_rate = 0;
    s->victim_gone = s->unkillable = s->brake_measured = false;
}

/* Headroom is back where a stopped tree would be let go of and the fall began, or there to stay for as long as one is kept stopped; or it is over without that. */
static bool is_over(const struct uma_guard_dry_run *d, const struct uma_guard_policy *policy, uint64_t headroom, int64_t now) {
    double still = (double)(now - d->lowest_at);
    bool back = (double)headroom >= (double)policy->floor * policy->brake_release;
    return (back && (headroom >= d->from || still >= policy->brake_most * 1e9)) || still >= (double)STILL_NS;
}

bool uma_guard_dry_run_follow(struct uma_guard_dry_run *dry_run, const struct uma_guard_policy *policy, uint64_t headroom, int64_t now,
                              struct uma_guard_state *state, struct uma_guard_decision *decision) {
    bool on_somebody = false, over = false;
    uint32_t kept = 0;
    if (dry_run->in_episode && headroom < dry_run->lowest) {
        dry_run->lowest = headroom;
        dry_run->lowest_at = now;
    }
    for (uint32_t i = 0; i < decision->n && i < UMA_GUARD_ACTIONS; i++) {
        if (!may_be_told(decision->actions[i].kind, dry_run->in_episode))
            continue;
        on_somebody = on_somebody || uma_guard_acts_on_somebody(decision->actions[i].kind);
        decision->actions[kept++] = decision->actions[i];
    }
    decision->n = kept;
    forget_done(state);
    if (dry_run->in_episode)
        dry_run->in_episode = !(over = is_over(dry_run, policy, headroom, now));
    else if (on_somebody)
        *dry_run = (struct uma_guard_dry_run){ .in_episode = true, .from = headroom, .lowest = headroom, .lowest_at = now };
    return over;
}
