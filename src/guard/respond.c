/* SPDX-License-Identifier: MIT */
#include "guard/respond.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/release.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>

/* Who may not be signalled is left out for a while: the same choice would fail again at every look. A minute is some thousand looks, and short enough for one whose owner changes. */
#define REFUSED_NS (60 * UMA_SECOND_NS)
/* Who was let go by hand is not stopped again for as long as somebody needs to see to it. */
#define EXCUSED_NS (600 * UMA_SECOND_NS)
/* What was being forked while a tree was stopped shows within this time, or never. */
#define CHECK_FOR_NS UMA_SECOND_NS
#define CHECK_EVERY_NS (UMA_SECOND_NS / 20)

/*
 * Page cache fills free memory on most machines by and by, and where it is none of weight files nothing comes of a request: one every ten seconds would leave nothing else in a trail of 4,096 records after six hours. Written down like this they
 * take two weeks.
 */
#define ROOM_TOLD_EVERY_NS (600 * UMA_SECOND_NS)

static bool acts_on_a_tree(enum uma_guard_action_kind kind) {
    return kind == UMA_GUARD_BRAKE || kind == UMA_GUARD_RELEASE || kind == UMA_GUARD_TERM || kind == UMA_GUARD_KILL;
}

/* Who it is, with numbers: as the decision counted it, else as the table has it. */
static struct uma_guard_candidate whom(const struct uma_guard_loop *loop, const struct uma_guard_action *action) {
    struct uma_guard_candidate who = { .pid = action->pid, .start = action->start };
    const struct uma_guard_decision *decision = &loop->decision;
    for (uint32_t i = 0; i < decision->n_candidates && i < UMA_GUARD_CANDIDATES; i++)
        if (decision->candidates[i].pid == action->pid && decision->candidates[i].start == action->start)
            return decision->candidates[i];
    int32_t at = uma_guard_processes_find(&loop->processes, action->pid, action->start);
    if (at >= 0) {
        const struct uma_guard_process *process = &loop->processes.list[at];
        memcpy(who.name, process->name, sizeof(who.name));
        who.gpu = process->gpu;
        who.gpu_known = process->gpu_known;
        who.anon = process->anon;
        who.swap = process->swap;
        who.flags = process->flags;
    }
    return who;
}

/* ---- writing it down ----------------------------------------------------------------------------------------- */

static void write_decision(struct uma_guard_loop *loop) {
    bool wait = false;
    for (uint32_t i = 0; i < loop->decision.n; i++) /* what is done to somebody is to be on disk before */
        wait = wait || acts_on_a_tree(loop->decision.actions[i].kind) || loop->decision.actions[i].kind == UMA_GUARD_LAST_RESORT;
    loop->record =
        (struct uma_guard_trail_record){ .kind = UMA_GUARD_TRAIL_DECISION, .dry_run = loop->dry_run, .decision = loop->decision };
    (void)uma_guard_trail_write(loop->trail, &loop->record, wait); /* counted there; it acts all the same */
}

static void write_receipt(struct uma_guard_loop *loop, const struct uma_guard_action *action, const struct uma_guard_candidate *who,
                          const struct uma_guard_acted *acted, int64_t looked) {
    loop->record = (struct uma_guard_trail_record){ .kind = UMA_GUARD_TRAIL_RECEIPT,
                                                    .dry_run = loop->dry_run,
                                                    .result = acted->result,
                                                    .n_processes = acted->n,
                                                    .took_ns = acted->at - looked,
                                                    .headroom_after = uma_guard_history_headroom(&loop->history) };
    struct uma_guard_decision *done = &loop->record.decision;
    done->n = 1;
    done->actions[0] = *action;
    done->n_candidates = 1;
    done->candidates[0] = *who;
    done->evidence = loop->decision.evidence;
    (void)uma_guard_trail_write(loop->trail, &loop->record, false);
}

static const char *told(const struct uma_guard_action *action, bool dry_run, bool failed) {
    static const char *const words[][3] = {
        [UMA_GUARD_NOTHING] = { "does nothing", "does nothing", "does nothing" },
        [UMA_GUARD_ROOM] = { "asked for room", "would ask for room", "could not ask for room" },
        [UMA_GUARD_BRAKE] = { "stopped ", "would stop ", "could not stop " },
        [UMA_GUARD_RELEASE] = { "let go on ", "would let go on ", "could not let go on " },
        [UMA_GUARD_WARN] = { "warned ", "would warn ", "could not warn " },
        [UMA_GUARD_TERM] = { "asked to end ", "would ask to end ", "could not ask to end " },
        [UMA_GUARD_KILL] = { "killed ", "would kill ", "could not kill " },
        [UMA_GUARD_UNKILLABLE] = { "unkillable: ", "unkillable: ", "unkillable: " },
        [UMA_GUARD_LAST_RESORT] = { "last resort", "would take the last resort", "could not take the last resort" },
    };
    return (size_t)action->kind < ELEMENTS(words) ? words[action->kind][failed ? 2 : dry_run] : "?";
}

/* "stopped 'python3' (pid 7, 2 processes, 3.2 GiB)", "asked for room: 4 GiB" */
static void line_of_action(struct uma_guard_line *line, const struct uma_guard_action *action, const struct uma_guard_candidate *who,
                           const struct uma_guard_acted *acted, bool dry_run) {
    uma_guard_line_text(line, told(action, dry_run, acted->result < 0));
    if (action->pid != 0) {
        uma_guard_line_name(line, who->name, sizeof(who->name));
        uma_guard_line_text(line, " (pid ");
        uma_guard_line_number(line, action->pid);
        if (acted->n > 1) {
            uma_guard_line_text(line, ", ");
            uma_guard_line_unsigned(line, acted->n);
            uma_guard_line_text(line, " processes");
        }
        if (action->bytes > 0) {
            uma_guard_line_text(line, ", ");
            uma_guard_line_bytes(line, action->bytes);
        }
        uma_guard_line_text(line, acted->by_group ? ", by its control group)" : ")");
    } else if (action->kind == UMA_GUARD_ROOM) {
        uma_guard_line_text(line, ": ");
        uma_guard_line_bytes(line, action->bytes);
    }
    uma_guard_line_error(line, acted->result);
}

/* "; below the floor and falling; headroom 1 GiB, floor 2 GiB, falling 300 MiB/s; after 6 ms" */
static void line_of_reason(struct uma_guard_line *line, const struct uma_guard_action *action, const struct uma_guard_evidence *evidence,
                           const struct uma_guard_acted *acted, int64_t looked) {
    uma_guard_line_text(line, "; ");
    uma_guard_line_text(line, uma_guard_reason_word(action->reason));
    uma_guard_line_text(line, "; headroom ");
    uma_guard_line_bytes(line, evidence->headroom);
    uma_guard_line_text(line, ", floor ");
    uma_guard_line_bytes(line, evidence->floor);
    if (isfinite(evidence->rate)) {
        uma_guard_line_text(line, evidence->rate < 0 ? ", falling " : ", rising ");
        uma_guard_line_bytes(line, (uint64_t)fmin(fabs(evidence->rate), 1e15));
        uma_guard_line_text(line, "/s");
    }
    uma_guard_line_text(line, "; after ");
    uma_guard_line_time(line, acted->at - looked);
    if (acted->left > 0) {
        uma_guard_line_text(line, "; still in the kernel: ");
        uma_guard_line_unsigned(line, acted->left);
    }
}

static void log_action(const struct uma_guard_loop *loop, const struct uma_guard_action *action, const struct uma_guard_candidate *who,
                       const struct uma_guard_acted *acted, int64_t looked) {
    struct uma_guard_line line;
    enum uma_guard_level level = action->kind == UMA_GUARD_ROOM || action->kind == UMA_GUARD_RELEASE ? UMA_GUARD_NOTICE : UMA_GUARD_WARNING;
    uma_guard_line_begin(&line, level);
    size_t prefix = line.length;
    line_of_action(&line, action, who, acted, loop->dry_run);
    line_of_reason(&line, action, &loop->decision.evidence, acted, looked);
    /* the same words in an entry with fields, where there is a journal; then the line would come twice */
    line.text[line.length] = '\0';
    const struct uma_guard_journal_entry entry = { .message = line.text + prefix,
                                                   .priority = (int)level,
                                                   .action = action,
                                                   .whom = action->pid != 0 ? who : NULL,
                                                   .evidence = &loop->decision.evidence,
                                                   .result = acted->result,
                                                   .n_processes = acted->n,
                                                   .took_ns = acted->at - looked,
                                                   .dry_run = loop->dry_run };
    if (!uma_guard_say_to_journal() || uma_guard_journal_send(loop->journal, UMA_GUARD_JOURNAL_SOCKET, &entry) < 0)
        uma_guard_say(&line);
}

/* 0; -errno: it did not hear of it. */
static int tell_helper(struct uma_guard_loop *loop, const struct uma_guard_action *action, const struct uma_guard_candidate *who,
                       int result) {
    struct uma_guard_message message = {
        .dry_run = loop->dry_run, .result = result, .order = action->order, .action = *action, .evidence = loop->decision.evidence
    };
    if (action->pid != 0)
        message.whom = *who;
    return uma_guard_link_send(&loop->link, &message, uma_monotonic_ns());
}

/* ---- doing it ------------------------------------------------------------------------------------------------ */

static struct uma_guard_acted last_resort(struct uma_guard_loop *loop) {
    struct uma_guard_acted acted = { 0 };
    const char *what = "none in a dry run";
    if (!loop->dry_run)
        acted.result = uma_guard_last_resort_use(&loop->resort, &what);
    acted.at = uma_monotonic_ns();
    uma_guard_loop_note(loop, UMA_GUARD_ERROR, what, acted.result);
    return acted;
}

/* What the helper does: all that the guard can say of it is whether it was told. */
static bool is_the_helpers(enum uma_guard_action_kind kind) {
    return kind == UMA_GUARD_ROOM || kind == UMA_GUARD_WARN;
}

static struct uma_guard_acted ask_helper(struct uma_guard_loop *loop, const struct uma_guard_action *action,
                                         const struct uma_guard_candidate *who) {
    int r = tell_helper(loop, action, who, 0);
    return (struct uma_guard_acted){ .at = uma_monotonic_ns(), .result = loop->dry_run ? 0 : r };
}

static struct uma_guard_acted do_action(struct uma_guard_loop *loop, const struct uma_guard_action *action,
                                        const struct uma_guard_candidate *who) {
    switch (action->kind) {
    case UMA_GUARD_BRAKE:
        return uma_guard_stop_tree(&loop->actor, action->pid, action->start);
    case UMA_GUARD_RELEASE:
        return uma_guard_continue_tree(&loop->actor, action->pid);
    case UMA_GUARD_TERM:
        return uma_guard_end_tree(&loop->actor, action->pid, action->start, SIGTERM);
    case UMA_GUARD_KILL:
        return uma_guard_end_tree(&loop->actor, action->pid, action->start, SIGKILL);
    case UMA_GUARD_LAST_RESORT:
        return last_resort(loop);
    case UMA_GUARD_ROOM:
    case UMA_GUARD_WARN:
        return ask_helper(loop, action, who);
    case UMA_GUARD_NOTHING:
    case UMA_GUARD_UNKILLABLE:
        break; /* words alone */
    }
    return (struct uma_guard_acted){ .at = uma_monotonic_ns() };
}

/* On the table that is there, too: the next decision may go by it. */
static void mark(struct uma_guard_loop *loop, int32_t pid, uint64_t start, uint32_t flags, int64_t now, int64_t for_ns) {
    uma_guard_marks_add(&loop->marks, pid, start, flags, now + for_ns);
    uma_guard_marks_apply(&loop->marks, &loop->actor, &loop->processes, now);
}

static void after(struct uma_guard_loop *loop, const struct uma_guard_action *action, const struct uma_guard_candidate *who,
                  const struct uma_guard_acted *acted) {
    if (acted->result < 0 && action->kind == UMA_GUARD_WARN) {
        uma_guard_failed(&loop->state, action);
    } else if (acted->result < 0 && acts_on_a_tree(action->kind)) {
        uma_guard_failed(&loop->state, action);
        if (acted->result != -ESRCH)
            mark(loop, action->pid, action->start, UMA_GUARD_PROTECTED, acted->at, REFUSED_NS);
    } else if (!loop->dry_run && (action->kind == UMA_GUARD_TERM || action->kind == UMA_GUARD_KILL))
        uma_guard_release_begin(loop, action, who, acted->at);
}

/* Another request for room, soon after one that was written down. */
static bool is_no_news(const struct uma_guard_loop *loop, int64_t now) {
    for (uint32_t i = 0; i < loop->decision.n && i < UMA_GUARD_ACTIONS; i++)
        if (loop->decision.actions[i].kind != UMA_GUARD_ROOM)
            return false;
    return loop->room_told != 0 && now - loop->room_told < ROOM_TOLD_EVERY_NS;
}

static void tell(struct uma_guard_loop *loop, const struct uma_guard_action *action, const struct uma_guard_candidate *who,
                 const struct uma_guard_acted *acted, int64_t looked) {
    if (action->kind == UMA_GUARD_ROOM) {
        loop->room_told = acted->at;
        loop->room_result = acted->result;
    }
    write_receipt(loop, action, who, acted, looked);
    if (!is_the_helpers(action->kind))                       /* those it was told already */
        (void)tell_helper(loop, action, who, acted->result); /* counted there */
    log_action(loop, action, who, acted, looked);
}

void uma_guard_respond(struct uma_guard_loop *loop, int64_t looked) {
    struct uma_guard_acted acted[UMA_GUARD_ACTIONS];
    struct uma_guard_candidate who[UMA_GUARD_ACTIONS];
    uint32_t n = MIN_OF(loop->decision.n, (uint32_t)UMA_GUARD_ACTIONS);
    if (n == 0)
        return;
    bool quiet = is_no_news(loop, looked);
    uma_guard_loop_keep_state(loop); /* what is about to be done: a guard that is killed in the middle lets go what it stopped */
    if (!quiet)
        write_decision(loop);
    for (uint32_t i = 0; i < n; i++) {
        who[i] = whom(loop, &loop->decision.actions[i]);
        acted[i] = do_action(loop, &loop->decision.actions[i], &who[i]);
        after(loop, &loop->decision.actions[i], &who[i], &acted[i]);
    }
    if (loop->dry_run) /* whom it would have signalled, counted: nobody is held */
        loop->actor.stopped.n = loop->actor.ended.n = 0;
    loop->counts.actions += n;
    uma_guard_loop_keep_state(loop);
    for (uint32_t i = 0; i < n; i++)
        if (!quiet || (acted[i].result < 0) != (loop->room_result < 0))
            tell(loop, &loop->decision.actions[i], &who[i], &acted[i], looked);
}

/* ---- beside decisions ---------------------------------------------------------------------------------------- */

uint32_t uma_guard_let_go(struct uma_guard_loop *loop, int32_t pid, bool excuse) {
    int64_t now = uma_monotonic_ns();
    for (uint32_t i = 0; i < loop->state.n_braked && i < UMA_GUARD_BRAKED; i++) {
        struct uma_guard_braked *braked = &loop->state.braked[i];
        if (!braked->stopped || (pid != 0 && braked->pid != pid))
            continue;
        braked->stopped = false;
        braked->released = now;
        if (excuse)
            mark(loop, braked->pid, braked->start, UMA_GUARD_NO_BRAKE, now, EXCUSED_NS);
    }
    uint32_t n = uma_guard_continue_tree(&loop->actor, pid).n;
    uma_guard_loop_keep_state(loop);
    return n;
}

void uma_guard_let_go_spared(struct uma_guard_loop *loop) {
    if (loop->actor.stopped.n == 0 || uma_guard_loop_take_table(loop, uma_monotonic_ns()) < 0)
        return;
    for (uint32_t i = 0; i < loop->state.n_braked && i < UMA_GUARD_BRAKED; i++) {
        const struct uma_guard_braked *braked = &loop->state.braked[i];
        int32_t at = braked->stopped ? uma_guard_processes_find(&loop->processes, braked->pid, braked->start) : -1;
        if (at >= 0 && (!loop->policy.brake || (loop->processes.list[at].flags & (UMA_GUARD_PROTECTED | UMA_GUARD_NO_BRAKE))))
            (void)uma_guard_let_go(loop, braked->pid, false);
    }
}

/* Whom nobody holds stopped any more, and who could not be told so: no descriptor was to be had then, or the state was lost. One tree at a time. */
static void let_go_forgotten(struct uma_guard_loop *loop) {
    for (uint32_t i = 0; i < loop->actor.stopped.n; i++) {
        int32_t root = loop->actor.stopped.list[i].root;
        bool braked = false;
        for (uint32_t k = 0; k < loop->state.n_braked && k < UMA_GUARD_BRAKED && !braked; k++)
            braked = loop->state.braked[k].stopped && loop->state.braked[k].pid == root;
        if (braked)
            continue;
        (void)uma_guard_continue_tree(&loop->actor, root);
        uma_guard_loop_keep_state(loop);
        return;
    }
}

void uma_guard_check_stopped(struct uma_guard_loop *loop, int64_t now) {
    if (now - loop->checked_stopped < CHECK_EVERY_NS || loop->dry_run)
        return;
    let_go_forgotten(loop);
    for (uint32_t i = 0; i < loop->state.n_braked && i < UMA_GUARD_BRAKED; i++) {
        const struct uma_guard_braked *braked = &loop->state.braked[i];
        if (!braked->stopped || now - braked->since > CHECK_FOR_NS || now < braked->since)
            continue;
        loop->checked_stopped = now;
        uint32_t before = loop->actor.stopped.n;
        (void)uma_guard_stop_tree(&loop->actor, braked->pid, braked->start);
        if (loop->actor.stopped.n != before)
            uma_guard_loop_keep_state(loop);
    }
}
