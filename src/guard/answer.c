/* SPDX-License-Identifier: MIT */
#include "guard/answer.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/respond.h"

#include <math.h>
#include <string.h>

struct answer {
    size_t length;
    char text[UMA_GUARD_ANSWER_MAX];
};

/* Whole lines only. */
static void add(struct answer *answer, const struct uma_guard_line *line) {
    if (line->length + 1 > sizeof(answer->text) - answer->length)
        return;
    memcpy(answer->text + answer->length, line->text, line->length);
    answer->length += line->length;
    answer->text[answer->length++] = '\n';
}

static void add_text(struct answer *answer, const char *key, const char *value) {
    struct uma_guard_line line = { 0 };
    uma_guard_line_text(&line, key);
    uma_guard_line_text(&line, value);
    add(answer, &line);
}

static void add_number(struct answer *answer, const char *key, uint64_t value) {
    struct uma_guard_line line = { 0 };
    uma_guard_line_text(&line, key);
    uma_guard_line_unsigned(&line, value);
    add(answer, &line);
}

static void add_signed(struct answer *answer, const char *key, double value) {
    struct uma_guard_line line = { 0 };
    uma_guard_line_text(&line, key);
    if (isfinite(value))
        uma_guard_line_number(&line, (int64_t)fmax(fmin(value, 9e18), -9e18));
    else
        uma_guard_line_text(&line, "unknown");
    add(answer, &line);
}

/* "braked=PID,START,SECONDS": who is stopped, and for how long */
static void add_braked(struct answer *answer, const struct uma_guard_state *state, int64_t now) {
    for (uint32_t i = 0; i < state->n_braked && i < UMA_GUARD_BRAKED; i++) {
        struct uma_guard_line line = { 0 };
        if (!state->braked[i].stopped)
            continue;
        uma_guard_line_text(&line, "braked=");
        uma_guard_line_number(&line, state->braked[i].pid);
        uma_guard_line_text(&line, ",");
        uma_guard_line_unsigned(&line, state->braked[i].start);
        uma_guard_line_text(&line, ",");
        uma_guard_line_number(&line, (now - state->braked[i].since) / UMA_SECOND_NS);
        add(answer, &line);
    }
}

static void add_status(struct uma_guard_loop *loop, struct answer *answer) {
    int64_t now = uma_monotonic_ns();
    struct uma_guard_kept kept, recorded;
    uma_guard_trail_kept(loop->trail, &kept);
    uma_guard_recording_kept(loop->recording, &recorded);
    add_text(answer, "version=", UMACTL_VERSION);
    add_number(answer, "pid=", (uint64_t)loop->actor.self);
    add_number(answer, "up_seconds=", (uint64_t)((now - loop->started) / UMA_SECOND_NS));
    add_text(answer, "dry_run=", loop->dry_run ? "yes" : "no");
    add_text(answer, "policy=", loop->policy_broken ? "broken" : "fine");
    if (loop->policy_broken)
        add_text(answer, "policy_holds=", loop->policy_missing ? "defaults" : "before");
    add_number(answer, "looked_ns_ago=", (uint64_t)MAX_OF(now - loop->looked, 0));
    if (loop->failing_since != 0)
        add_text(answer, "headroom=", "unknown");
    else
        add_number(answer, "headroom=", loop->decision.evidence.headroom);
    add_number(answer, "floor=", loop->policy.floor);
    add_number(answer, "hard_floor=", loop->policy.hard_floor);
    add_signed(answer, "rate=", loop->decision.evidence.rate);
    add_number(answer, "steady=", loop->history.steady);
    if (loop->gpu.known) {
        add_number(answer, "gpu_bytes=", loop->gpu.total);
        add_number(answer, "gpu_age_ns=", (uint64_t)MAX_OF(now - loop->gpu.answered, 0));
        add_number(answer, "gpu_asked_ns=", (uint64_t)MAX_OF(now - loop->gpu.asked, 0));
    } else
        add_text(answer, "gpu_bytes=", "unknown");
    add_text(answer, "helper=", uma_guard_link_there(&loop->link) ? "yes" : "no");
    add_number(answer, "helper_lost=", loop->link.lost);
    add_number(answer, "looks=", loop->counts.looks);
    add_number(answer, "failed_looks=", loop->counts.failed_looks);
    add_number(answer, "late_looks=", loop->counts.late);
    add_number(answer, "tables=", loop->counts.tables);
    add_number(answer, "processes=", loop->processes.n);
    add_number(answer, "actions=", loop->counts.actions);
    add_text(answer, "trail=", kept.open ? "open" : "none");
    add_number(answer, "trail_lost=", kept.failed + kept.lost);
    add_text(answer, "recording=", recorded.open ? "open" : "none");
    add_number(answer, "recording_lost=", recorded.failed + recorded.lost);
    add_number(answer, "stopped_processes=", loop->actor.stopped.n);
    if (loop->state.victim != 0)
        add_number(answer, "victim=", (uint64_t)loop->state.victim);
    add_braked(answer, &loop->state, now); /* last: the only part whose length may not fit */
}

void uma_guard_answer_all(struct uma_guard_loop *loop) {
    struct uma_guard_question question;
    /* a flood of questions is answered eight at a time, so that it keeps the guard from nothing */
    for (unsigned i = 0; i < 8 && uma_guard_control_read(loop->watch.control, &question) == 1; i++) {
        struct answer answer = { 0 };
        if (question.ask == UMA_GUARD_ASK_RELEASE) {
            add_number(&answer, "released=", uma_guard_let_go(loop, question.pid, true));
            uma_guard_loop_note(loop, UMA_GUARD_NOTICE, "let go on what was stopped: asked for over the control socket", 0);
        } else
            add_status(loop, &answer);
        uma_guard_control_answer(loop->watch.control, &question, answer.text, answer.length);
    }
}

void uma_guard_status_line(const struct uma_guard_loop *loop, struct uma_guard_line *line) {
    if (loop->failing_since != 0)
        uma_guard_line_text(line, "cannot read /proc/meminfo; ");
    uma_guard_line_text(line, "headroom ");
    uma_guard_line_bytes(line, loop->decision.evidence.headroom);
    uma_guard_line_text(line, ", floor ");
    uma_guard_line_bytes(line, loop->policy.floor);
    uma_guard_line_text(line, ", ");
    uma_guard_line_unsigned(line, loop->actor.stopped.n);
    uma_guard_line_text(line, " processes stopped, ");
    uma_guard_line_unsigned(line, loop->counts.actions);
    uma_guard_line_text(line, " actions");
    if (loop->dry_run)
        uma_guard_line_text(line, ", dry run");
    if (loop->policy_broken)
        uma_guard_line_text(line, loop->policy_missing ? ", policy broken: the defaults hold, and nobody is ended"
                                                       : ", policy broken: the one before holds");
}
