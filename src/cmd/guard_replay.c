/* SPDX-License-Identifier: MIT */
/* The recorded readings through the decision once more. What a machine would have done had somebody been stopped is not recorded, so that only the first action of each episode says something. */
#include "cmd/guard_replay.h"

#include "guard/danger.h"
#include "guard/recording.h"

#include <stdio.h>
#include <string.h>

static uint64_t headroom_of(const struct uma_guard_reading *reading) {
    return reading->available + (reading->known & UMA_GUARD_KNOWS_LISTS ? reading->per_cpu : 0);
}

static void begin_episode(struct uma_guard_replaying *replay, const struct uma_guard_action *action, uint64_t headroom, int64_t real) {
    struct uma_guard_replay *result = replay->result;
    const struct uma_guard_candidate *whom = uma_guard_candidate_of(&replay->decision, action);
    replay->in_episode = true;
    replay->from = replay->lowest = headroom;
    replay->lowest_at = real;
    if (result->n < UMA_GUARD_EPISODES) {
        struct uma_guard_episode *episode = &result->list[result->n++];
        *episode = (struct uma_guard_episode){
            .begin = real, .end = real, .action = *action, .evidence = replay->decision.evidence, .lowest = headroom
        };
        if (whom && !result->one_took_all)
            episode->whom = *whom;
        if (result->one_took_all) /* it is nobody that there is */
            episode->action.pid = 0;
    }
    result->episodes++;
}

/*
 * Where a stopped tree would be let go of, the fall is over: headroom is what it was, or has not sunk further for as long as a tree is kept stopped. What was decided before is forgotten then, because none of it was done.
 */
static bool is_over(const struct uma_guard_replaying *replay, uint64_t headroom, int64_t real) {
    return (double)headroom >= (double)replay->policy.floor * replay->policy.brake_release &&
           (headroom >= replay->from || (double)(real - replay->lowest_at) >= replay->policy.brake_most * 1e9);
}

static void go_on_episode(struct uma_guard_replaying *replay, uint64_t headroom, int64_t real) {
    struct uma_guard_replay *result = replay->result;
    if (headroom < replay->lowest) {
        replay->lowest = headroom;
        replay->lowest_at = real;
    }
    if (result->episodes == result->n) {
        result->list[result->n - 1].end = real;
        result->list[result->n - 1].lowest = replay->lowest;
    }
    if (is_over(replay, headroom, real)) {
        replay->in_episode = false;
        replay->state = (struct uma_guard_state){ .last_room = replay->state.last_room };
    }
}

/* In danger, and there is no table that would do. Far from it a guard wants one too, now and then, and nothing comes of it. */
static bool somebody_was_wanted(const struct uma_guard_replaying *replay) {
    struct uma_guard_danger danger;
    if (!replay->decision.want_processes || replay->decision.n)
        return false;
    /* the recorded machine is one on which nobody was stopped: what the history knows holds as it is */
    const struct uma_guard_stops none = { .steady = replay->history.steady, .fell_from = replay->history.fell_from };
    uma_guard_danger_assess(&replay->history, &replay->policy, &none, &danger);
    return danger.danger;
}

static void look(struct uma_guard_replaying *replay, const struct uma_guard_view *view, uint64_t headroom, int64_t real) {
    struct uma_guard_view later = *view;
    uma_guard_decide(&replay->state, &replay->history, &replay->policy, view, &replay->decision);
    if (replay->take_table && replay->decision.want_processes && replay->take_table(replay->userdata, &later))
        uma_guard_decide(&replay->state, &replay->history, &replay->policy, &later, &replay->decision);
    replay->result->unknown += somebody_was_wanted(replay);
    for (uint32_t i = 0; i < replay->decision.n && i < UMA_GUARD_ACTIONS && !replay->in_episode; i++) {
        const struct uma_guard_action *action = &replay->decision.actions[i];
        replay->result->room += action->kind == UMA_GUARD_ROOM;
        if (uma_guard_acts_on_somebody(action->kind))
            begin_episode(replay, action, headroom, real);
    }
}

int uma_guard_replay_next(void *userdata, const struct uma_guard_view *view, int64_t real) {
    struct uma_guard_replaying *replay = userdata;
    struct uma_guard_replay *result = replay->result;
    if (real < replay->since || !view->now || !(view->now->known & UMA_GUARD_KNOWS_MEMINFO))
        return 0;
    if (view->now->total != replay->settled_for) {
        replay->policy = *replay->given;
        uma_guard_policy_settle(&replay->policy, view->now->total);
        replay->settled_for = view->now->total;
    }
    uint64_t headroom = headroom_of(view->now);
    result->first = result->readings ? result->first : real;
    result->lowest = result->readings ? MIN_OF(result->lowest, headroom) : headroom;
    result->last = real;
    result->readings++;
    uma_guard_history_add(&replay->history, view->now);
    if (view->now->gap) { /* the guard began anew, or the machine slept */
        replay->in_episode = false;
        replay->state = (struct uma_guard_state){ 0 };
    }
    if (replay->in_episode)
        go_on_episode(replay, headroom, real);
    else
        look(replay, view, headroom, real);
    return 0;
}

int uma_guard_replay_run(const char *state_folder, int64_t since, const struct uma_guard_policy *policy,
                         struct uma_guard_replay *ret_replay, struct uma_error *err) {
    char path[4096];
    size_t bad = 0;
    int n = snprintf(path, sizeof(path), "%s/" UMA_GUARD_RING_NAME, state_folder);
    if (n < 0 || (size_t)n >= sizeof(path))
        return uma_error_text(err, ENAMETOOLONG, "%.128s...: the name is too long", state_folder);
    _cleanup_free_
    struct uma_guard_replaying *replay = calloc(1, sizeof(*replay));
    if (!replay)
        return uma_error_set(err, ENOMEM, "replaying %.400s", path);
    memset(ret_replay, 0, sizeof(*ret_replay));
    replay->since = since;
    replay->given = policy;
    replay->result = ret_replay;
    int r = uma_guard_recording_replay(path, uma_guard_replay_next, replay, &bad);
    ret_replay->bad = bad;
    if (r == -EBADMSG)
        return uma_error_text(err, EBADMSG, "%.400s: this is no recording of the guard's", path);
    return r < 0 ? uma_error_set(err, -r, "%.400s", path) : 0;
}
