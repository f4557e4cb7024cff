/* SPDX-License-Identifier: MIT */
#include "guard/resume.h"

#include "base/units.h"
#include "guard/release.h"
#include "guard/respond.h"

/*
 * The state is written before signals go out and after. A guard that was killed in between left words that a tree is stopped, and no list of who: whoever of it stands stopped is let go by this guard then. Somebody
 * may have been stopped by his user before; he goes on too, which harms less than a tree that stands for ever.
 */
static uint32_t adopt_unlisted(struct uma_guard_loop *loop) {
    const struct uma_guard_held_list *stopped = &loop->actor.stopped;
    uint32_t n = 0;
    for (uint32_t i = 0; i < loop->state.n_braked && i < UMA_GUARD_BRAKED; i++) {
        const struct uma_guard_braked *braked = &loop->state.braked[i];
        bool listed = false;
        for (uint32_t k = 0; k < stopped->n && !listed; k++)
            listed = stopped->list[k].root == braked->pid;
        if (braked->stopped && !listed)
            n += uma_guard_adopt_tree(&loop->actor, braked->pid, braked->start);
    }
    return n;
}

static bool has_unlisted(const struct uma_guard_loop *loop) {
    for (uint32_t i = 0; i < loop->state.n_braked && i < UMA_GUARD_BRAKED; i++)
        if (loop->state.braked[i].stopped)
            return true;
    return false;
}

static void resume_victim(struct uma_guard_loop *loop) {
    struct uma_guard_state *state = &loop->state;
    struct uma_guard_seen seen;
    /* nobody is listed, and it lives: it was to be told, and perhaps never was */
    if (loop->actor.ended.n == 0 && uma_guard_scan_one(&loop->actor.scan, state->victim, &seen) == 0 && seen.start == state->victim_start &&
        !uma_guard_seen_gone(&seen))
        state->terminated = state->killed = 0;
    if (state->terminated == 0 && state->killed == 0)
        return;
    const struct uma_guard_action action = { .pid = state->victim, .start = state->victim_start, .bytes = state->victim_bytes };
    const struct uma_guard_candidate who = { .name = "?" };
    uma_guard_release_begin(loop, &action, &who, uma_monotonic_ns());
}

void uma_guard_resume(struct uma_guard_loop *loop) {
    if (loop->options.root[0] != '\0' || !uma_guard_state_read(&loop->state_file, &loop->state, &loop->actor))
        return; /* a machine that is a folder has other processes than those that were stopped here */
    if (has_unlisted(loop) && uma_guard_loop_take_table(loop, uma_monotonic_ns()) >= 0)
        (void)adopt_unlisted(loop);
    if (loop->actor.stopped.n == 0 && loop->state.victim == 0)
        return;
    uma_guard_loop_note(loop, UMA_GUARD_WARNING, "goes on where a guard before it was ended: trees that it stopped are its own now", 0);
    if (loop->dry_run) { /* the one signal of a dry run: what a real guard stopped would stay so */
        loop->actor.dry_run = false;
        (void)uma_guard_let_go(loop, 0, false);
        loop->actor.dry_run = true;
        loop->state.victim = 0;
        loop->actor.ended.n = 0;
    }
    if (loop->state.victim != 0)
        resume_victim(loop);
}
