/* SPDX-License-Identifier: MIT */
#include "guard/loop.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/answer.h"
#include "guard/policy_file.h"
#include "guard/release.h"
#include "guard/respond.h"
#include "guard/resume.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* A table is cut after so long: with it, 2 ms for the trail and some for the signals a stop is there within 20 ms of the reading that asked for it. */
#define TABLE_DEADLINE_NS INT64_C(10000000)
/* But the first one, at the start, when nothing is urgent yet: without it the guard does not begin, and a machine that is busy takes longer than 10 ms for it (20 to 90 were seen in an emulated guest). */
#define FIRST_TABLE_DEADLINE_NS (2 * UMA_SECOND_NS)
/* The shortest sleep: half of what a decision asks for at its nearest to the floor, so that neither a mistake in it nor a flood of wake-ups takes a processor. */
#define SLEEP_LEAST_NS INT64_C(5000000)
/* The longest: what a service manager's watchdog and a fall of 34 GiB to 13 in 1.5 s allow (shared facts, 2.3). */
#define SLEEP_MOST_NS UMA_SECOND_NS
/* Not looked again sooner for a trigger of pressure: it says no more than a look a moment ago did. */
#define PRESSURE_QUIET_NS INT64_C(5000000)
/* Later than this is told: the guard was kept from running, and a collapse may have gone by meanwhile. */
#define LATE_NS (UMA_SECOND_NS / 2)
#define LATE_SAID_EVERY_NS (10 * UMA_SECOND_NS)
/* Near the floor is what a decision looks at at least four times a second; the helper is told once a second (message.h). */
#define NEAR_WAKE_NS (UMA_SECOND_NS / 4)
#define HINT_EVERY_NS UMA_SECOND_NS
/* The lists of the processors count for two seconds (history.c), and blocks are short or not for minutes. */
enum { NEAR_EVERY = 2, ALL_EVERY = 8 };
#define STATUS_EVERY_NS (10 * UMA_SECOND_NS)
enum { FOLDER_SHOWN = 128 }; /* bytes of a folder's name in a line of 512 that says more than that */

/* ---- words --------------------------------------------------------------------------------------------------- */

static void keep_note(struct uma_guard_loop *loop, const char *text, int code) {
    loop->record = (struct uma_guard_trail_record){ .kind = UMA_GUARD_TRAIL_NOTE, .dry_run = loop->dry_run, .result = code };
    (void)uma_text_copy_plain(loop->record.text, sizeof(loop->record.text), text);
    (void)uma_guard_trail_write(loop->trail, &loop->record, false);
}

void uma_guard_loop_note(struct uma_guard_loop *loop, enum uma_guard_level level, const char *text, int code) {
    keep_note(loop, text, code);
    uma_guard_say_text(level, text, code);
}

void uma_guard_loop_keep_state(struct uma_guard_loop *loop) {
    if (loop->options.root[0] == '\0') /* what is decided of a machine that is a folder would take the place of what was done here */
        (void)uma_guard_state_write(&loop->state_file, &loop->state, &loop->actor, uma_monotonic_ns()); /* counted there */
}

/* ---- looking ------------------------------------------------------------------------------------------------- */

/* They go on being used, by their age: whoever reads afterwards why somebody was chosen is to know that it was by these. */
static void note_gpu(struct uma_guard_loop *loop, int64_t now) {
    bool old = now - loop->gpu.answered > UMA_GUARD_GPU_OLD_NS;
    if (old == loop->gpu_old)
        return;
    loop->gpu_old = old;
    if (!old)
        uma_guard_loop_note(loop, UMA_GUARD_NOTICE, "the driver's figures are fresh again", 0);
    else if (now - loop->gpu.asked > UMA_GUARD_GPU_OLD_NS)
        uma_guard_loop_note(loop, UMA_GUARD_WARNING, "the driver's figures are old: the helper does not ask it", 0);
    else
        uma_guard_loop_note(loop, UMA_GUARD_WARNING, "the driver's figures are old: it does not answer", 0);
}

static void read_gpu(struct uma_guard_loop *loop, int64_t now) {
    if (!uma_guard_gpu_read(&loop->gpu_reader, &loop->gpu))
        return;
    note_gpu(loop, now);
    loop->reading.known |= UMA_GUARD_KNOWS_GPU;
    loop->reading.gpu_bytes = loop->gpu.total;
    loop->reading.gpu_age_ns = now - loop->gpu.answered;
}

/* 0; -errno: said once, and again when it is over. */
static int observe(struct uma_guard_loop *loop) {
    bool near = loop->decision.wake_ns <= NEAR_WAKE_NS;
    bool all = loop->counts.looks++ % ALL_EVERY == 0;
    int r = uma_guard_observe(&loop->observer,
                              all                                            ? UMA_GUARD_LOOK_ALL
                              : near || loop->counts.looks % NEAR_EVERY == 0 ? UMA_GUARD_LOOK_NEAR
                                                                             : UMA_GUARD_LOOK_FAR,
                              &loop->reading);
    if (r < 0) {
        loop->counts.failed_looks++;
        if (loop->failing_since == 0) {
            loop->failing_since = loop->reading.time;
            uma_guard_loop_note(loop, UMA_GUARD_ERROR, "cannot read /proc/meminfo: nothing is decided until it can be read", r);
        }
        return r;
    }
    if (loop->failing_since != 0) {
        loop->failing_since = 0;
        uma_guard_loop_note(loop, UMA_GUARD_NOTICE, "/proc/meminfo can be read again", 0);
    }
    read_gpu(loop, loop->reading.time);
    if (loop->policy.floor == 0) /* what follows from the machine's size */
        uma_guard_policy_settle(&loop->policy, loop->reading.total);
    return 0;
}

int uma_guard_loop_take_table(struct uma_guard_loop *loop, int64_t now) {
    const struct uma_guard_gpu *gpu = loop->gpu.known ? &loop->gpu : NULL;
    int64_t deadline = now + (loop->processes.time == 0 ? FIRST_TABLE_DEADLINE_NS : TABLE_DEADLINE_NS);
    int r = uma_guard_processes_take(&loop->processes, &loop->policy, gpu, now, deadline);
    if (r < 0 && uma_guard_spare_give(&loop->actor.spare, r))
        r = uma_guard_processes_take(&loop->processes, &loop->policy, gpu, now, deadline);
    loop->counts.tables++;
    uma_guard_declared_read(&loop->declared, now);
    uma_guard_processes_declare(&loop->processes, loop->declared.list, loop->declared.uids, loop->declared.n);
    if (r == 0 && loop->options.within != 0)
        r = uma_guard_marks_within(&loop->actor, &loop->processes, loop->options.within, loop->within_start);
    uma_guard_marks_apply(&loop->marks, &loop->actor, &loop->processes, now);
    return r;
}

static struct uma_guard_view view_of(const struct uma_guard_loop *loop) {
    return (struct uma_guard_view){ .now = &loop->reading,
                                    .processes = loop->processes.time != 0 ? loop->processes.list : NULL,
                                    .n_processes = loop->processes.time != 0 ? loop->processes.n : 0,
                                    .processes_time = loop->processes.time,
                                    .envelopes = loop->declared.list,
                                    .n_envelopes = loop->declared.n };
}

static void note_danger_over(struct uma_guard_loop *loop) {
    struct uma_guard_line line = { 0 };
    uma_guard_line_text(&line, "the danger is over, at which nothing was done; headroom was ");
    uma_guard_line_bytes(&line, loop->would.lowest);
    uma_guard_line_text(&line, " at the lowest");
    line.text[line.length] = '\0';
    uma_guard_loop_note(loop, UMA_GUARD_NOTICE, line.text, 0);
}

/* Decides and acts; true: it acted. */
static bool decide(struct uma_guard_loop *loop, struct uma_guard_view *view) {
    *view = view_of(loop);
    uma_guard_decide(&loop->state, &loop->history, &loop->policy, view, &loop->decision);
    if (loop->dry_run && uma_guard_dry_run_follow(&loop->would, &loop->policy, uma_guard_history_headroom(&loop->history),
                                                  loop->reading.time, &loop->state, &loop->decision))
        note_danger_over(loop);
    if (loop->decision.n == 0)
        return false;
    uma_guard_respond(loop, loop->reading.time);
    return true;
}

static void hint_helper(struct uma_guard_loop *loop, int64_t now) {
    if (loop->decision.wake_ns > NEAR_WAKE_NS || now - loop->hinted < HINT_EVERY_NS)
        return;
    struct uma_guard_message message = { .dry_run = loop->dry_run, .order = -1, .evidence = loop->decision.evidence };
    message.action.order = -1;
    loop->hinted = now;
    (void)uma_guard_link_send(&loop->link, &message, now);
}

static void decide_and_act(struct uma_guard_loop *loop) {
    struct uma_guard_view view;
    uma_guard_history_add(&loop->history, &loop->reading);
    bool acted = decide(loop, &view);
    if (loop->decision.want_processes && uma_guard_loop_take_table(loop, uma_monotonic_ns()) >= 0)
        acted = decide(loop, &view) || acted;
    uma_guard_recording_add(loop->recording, &view, acted);
    hint_helper(loop, loop->reading.time);
}

int64_t uma_guard_loop_look(struct uma_guard_loop *loop) {
    if (observe(loop) == 0)
        decide_and_act(loop);
    int64_t now = uma_monotonic_ns();
    loop->looked = now;
    uma_guard_release_look(loop, now);
    uma_guard_check_stopped(loop, now);
    uma_guard_spare_fill(&loop->actor.spare);
    int64_t sleep = loop->failing_since != 0 ? SLEEP_MOST_NS : loop->decision.wake_ns;
    return now + MIN_OF(MAX_OF(sleep, SLEEP_LEAST_NS), SLEEP_MOST_NS);
}

/* ---- policy -------------------------------------------------------------------------------------------------- */

static bool dry(const struct uma_guard_loop *loop, const struct uma_guard_policy *policy) {
    return loop->options.dry_run || policy->dry_run || loop->options.root[0] != '\0';
}

static void take_policy(struct uma_guard_loop *loop, const struct uma_guard_policy *policy) {
    bool dry_run = dry(loop, policy);
    if (dry_run && !loop->dry_run)
        (void)uma_guard_let_go(loop, 0, false); /* whoever is stopped would stay so */
    if (!dry_run)
        loop->would = (struct uma_guard_dry_run){ 0 };
    loop->policy = *policy;
    loop->dry_run = loop->actor.dry_run = dry_run;
    uma_guard_policy_settle(&loop->policy, loop->reading.total);
    int r = uma_guard_last_resort_allow(&loop->resort, policy->last_resort && !dry_run);
    if (r < 0)
        uma_guard_loop_note(loop, UMA_GUARD_WARNING, "the policy allows the last resort, and /proc/sysrq-trigger cannot be opened", r);
}

static void say_broken(const struct uma_error *err) {
    struct uma_guard_line line;
    uma_guard_line_begin(&line, UMA_GUARD_ERROR);
    uma_guard_line_text(&line, "policy: ");
    uma_guard_line_name(&line, err->text, UMA_GUARD_LINE_MAX / 2);
    uma_guard_say(&line);
}

int uma_guard_loop_reload(struct uma_guard_loop *loop) {
    struct uma_error err = { 0 };
    int r = uma_guard_policy_load(loop->options.root, loop->options.policy, &loop->fresh, &err);
    loop->policy_broken = r < 0;
    if (r < 0) {
        say_broken(&err);
        uma_guard_loop_note(loop, UMA_GUARD_ERROR,
                            loop->policy_missing ? "the policy is still broken: the defaults hold, and nobody is ended"
                                                 : "the policy is broken: the one before holds",
                            0);
        return r;
    }
    loop->policy_missing = false;
    take_policy(loop, &loop->fresh);
    uma_guard_let_go_spared(loop);
    return 0;
}

/*
 * A policy that is broken when the guard starts: nobody knows whom it protects, and a machine without a guard freezes. So the defaults hold, and nobody is ended: a stop is taken back.
 */
static void read_first_policy(struct uma_guard_loop *loop) {
    struct uma_error err = { 0 };
    loop->policy_broken = uma_guard_policy_load(loop->options.root, loop->options.policy, &loop->fresh, &err) < 0;
    loop->policy_missing = loop->policy_broken;
    if (loop->policy_broken) {
        say_broken(&err);
        uma_guard_policy_default(&loop->fresh);
        loop->fresh.terminate = loop->fresh.kill = false;
        uma_guard_loop_note(loop, UMA_GUARD_ERROR, "the policy is broken: the defaults hold, and nobody is ended", 0);
    }
    take_policy(loop, &loop->fresh);
}

/* ---- opening ------------------------------------------------------------------------------------------------- */

/* "no trail is kept in '/var/lib/umactl-guard': there is no such folder; what is done is not written down (...)". The trail itself has the first half, without the folder. */
static void note_folder(struct uma_guard_loop *loop, const char *what, const char *folder, const char *why, int code, const char *effect) {
    struct uma_guard_line line = { 0 };
    uma_guard_line_text(&line, what);
    uma_guard_line_text(&line, why ? ": " : "");
    uma_guard_line_text(&line, why ? why : "");
    line.text[line.length] = '\0';
    keep_note(loop, line.text, code);
    uma_guard_line_begin(&line, UMA_GUARD_WARNING);
    uma_guard_line_text(&line, what);
    uma_guard_line_text(&line, " in ");
    uma_guard_line_name(&line, folder, FOLDER_SHOWN);
    uma_guard_line_text(&line, why ? ": " : "");
    uma_guard_line_text(&line, why ? why : "");
    uma_guard_line_error(&line, code);
    uma_guard_line_text(&line, effect);
    uma_guard_say(&line);
}

/* FOLDER/NAME; false: too long */
static bool join(char *path, size_t size, const char *folder, const char *name) {
    size_t n = strlen(folder), m = strlen(name);
    if (n + m + 2 > size)
        return false;
    memcpy(path, folder, n); /* NOLINT(bugprone-not-null-terminated-result): it goes on */
    path[n] = '/';
    memcpy(path + n + 1, name, m + 1);
    return true;
}

static void open_control(struct uma_guard_loop *loop, const char *folder) {
    char path[4096];
    int r = join(path, sizeof(path), folder, UMA_GUARD_CONTROL_NAME) ? uma_guard_control_open(path) : -ENAMETOOLONG;
    if (r >= 0)
        r = uma_guard_watch_control(&loop->watch, r);
    if (r < 0)
        note_folder(loop, "no control socket", folder, NULL, r, "; umactl guard cannot ask this guard");
}

/*
 * Who has the state has the folder. Two that act would each choose a victim, and the second would take the first one's socket and write over whom it holds stopped. One that only looks (a policy is tried beside the guard of
 * the machine) does without both.
 */
static int open_in_run_folder(struct uma_guard_loop *loop, int64_t now) {
    char path[4096];
    const char *folder = loop->options.run_folder;
    int r = join(path, sizeof(path), folder, UMA_GUARD_STATE_NAME) ? uma_guard_state_open(&loop->state_file, path) : -ENAMETOOLONG;
    bool shared = r == -EWOULDBLOCK;
    if (r < 0)
        loop->state_file.fd = -1;
    if (shared && !loop->dry_run && !loop->options.once) {
        uma_guard_say_text(UMA_GUARD_ERROR, "another guard runs in this run folder (--run-folder names another one)", 0);
        return -EBUSY;
    }
    if (shared)
        uma_guard_loop_note(loop, UMA_GUARD_NOTICE, "another guard runs in this run folder: this one keeps no state and cannot be asked",
                            0);
    else if (r < 0)
        note_folder(
            loop, "no state is kept", folder, NULL, r,
            "; a guard that is killed leaves stopped what it stopped (umactl-guard.service makes the folder, --run-folder names another)");
    if (!shared)
        open_control(loop, folder);
    r = join(path, sizeof(path), folder, UMA_GUARD_SOCKET_NAME) ? uma_guard_link_open(&loop->link, path, now) : -ENAMETOOLONG;
    if (r < 0)
        uma_guard_loop_note(loop, UMA_GUARD_WARNING, "no socket to the helper", r);
    /* a name that is too long is nobody's, and so that of no file */
    uma_guard_gpu_reader_open(&loop->gpu_reader,
                              join(loop->gpu_path, sizeof(loop->gpu_path), folder, UMA_GUARD_GPU_NAME) ? loop->gpu_path : "");
    return 0;
}

static void open_in_state_folder(struct uma_guard_loop *loop) {
    const char *note = NULL;
    loop->recording = uma_guard_recording_open(loop->options.state_folder, &note);
    struct uma_guard_kept kept;
    uma_guard_recording_kept(loop->recording, &kept);
    if (note != NULL)
        note_folder(loop, kept.open ? "recording" : "no recording is kept", loop->options.state_folder, note, 0,
                    kept.open ? "" : "; what is read cannot be replayed afterwards");
}

int uma_guard_loop_open(struct uma_guard_loop *loop, const struct uma_guard_options *options) {
    const char *note = NULL, *prefix = options->root;
    loop->options = *options;
    loop->started = uma_monotonic_ns();
    loop->resort.fd = loop->actor.scan.proc = loop->gpu_reader.fd = loop->link.fd = loop->state_file.fd = loop->journal = -1;
    loop->trail = uma_guard_trail_open(options->state_folder, &note);
    if (loop->trail == NULL)
        return -ENOMEM;
    struct uma_guard_kept kept;
    uma_guard_trail_kept(loop->trail, &kept);
    if (note != NULL)
        note_folder(loop, kept.open ? "trail" : "no trail is kept", options->state_folder, note, 0,
                    kept.open ? ""
                              : "; what is done is not written down (umactl-guard.service makes the folder, --state-folder names another)");
    int r = uma_guard_watch_open(&loop->watch, prefix);
    if (r < 0)
        return r;
    uma_guard_observer_open(&loop->observer, prefix);
    (void)uma_guard_observe(&loop->observer, UMA_GUARD_LOOK_ALL, &loop->reading);
    read_first_policy(loop);
    r = uma_guard_processes_open(&loop->processes, prefix, (int32_t)getpid());
    if (r < 0)
        return r;
    r = uma_guard_actor_open(&loop->actor, &loop->processes, prefix, loop->dry_run);
    if (r < 0)
        return r;
    struct uma_guard_seen within;
    if (loop->options.within != 0 && uma_guard_scan_one(&loop->actor.scan, loop->options.within, &within) == 0)
        loop->within_start = within.start;
    /* jobs of this machine have declared nothing to another one that is a folder */
    uma_guard_declared_open(&loop->declared, prefix[0] == '\0' ? NULL : loop->options.root);
    if ((r = open_in_run_folder(loop, loop->started)) < 0)
        return r;
    open_in_state_folder(loop);
    uma_guard_manager_open(&loop->manager);
    loop->journal = uma_guard_say_to_journal() ? uma_guard_journal_open() : -1;
    r = uma_guard_reaper_start(&loop->actor.reaper);
    if (r < 0)
        uma_guard_loop_note(loop, UMA_GUARD_WARNING, "no thread to take memory back: it comes when processes end", r);
    uma_guard_resume(loop);
    return 0;
}

void uma_guard_loop_close(struct uma_guard_loop *loop) {
    uma_guard_reaper_stop(&loop->actor.reaper);
    uma_guard_recording_close(loop->recording);
    uma_guard_trail_close(loop->trail);
    uma_guard_gpu_reader_close(&loop->gpu_reader);
    uma_guard_link_close(&loop->link);
    uma_guard_manager_close(&loop->manager);
    uma_cleanup_close(&loop->journal);
    uma_guard_state_close(&loop->state_file);
    (void)uma_guard_last_resort_allow(&loop->resort, false);
    uma_guard_actor_close(&loop->actor);
    uma_guard_declared_close(&loop->declared);
    uma_guard_processes_close(&loop->processes);
    uma_guard_observer_close(&loop->observer);
    uma_guard_watch_close(&loop->watch);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static void say_status(struct uma_guard_loop *loop, bool log, int64_t now) {
    struct uma_guard_line line = { 0 };
    uma_guard_status_line(loop, &line);
    uma_guard_manager_status(&loop->manager, line.text, line.length);
    loop->status_at = now + STATUS_EVERY_NS;
    if (!log)
        return;
    struct uma_guard_line told;
    uma_guard_line_begin(&told, UMA_GUARD_INFO);
    line.text[MIN_OF(line.length, sizeof(line.text) - 1)] = '\0';
    uma_guard_line_text(&told, line.text);
    uma_guard_say(&told);
}

static void take_signals(struct uma_guard_loop *loop) {
    int signal_number;
    while ((signal_number = uma_guard_watch_signal(&loop->watch)) != 0) {
        int64_t now = uma_monotonic_ns();
        if (signal_number == SIGHUP) {
            uma_guard_manager_reloading(&loop->manager, now);
            if (uma_guard_loop_reload(loop) == 0)
                uma_guard_loop_note(loop, UMA_GUARD_NOTICE, "policy read again", 0);
            uma_guard_manager_say(&loop->manager, "READY=1");
            say_status(loop, false, now);
        } else if (signal_number == SIGUSR1)
            say_status(loop, true, now);
        else
            loop->ending = true;
    }
}

static void note_late(struct uma_guard_loop *loop, int64_t now) {
    int64_t late = now - loop->due;
    if (late <= LATE_NS)
        return;
    loop->counts.late++;
    if (loop->late_said != 0 && now - loop->late_said < LATE_SAID_EVERY_NS)
        return;
    struct uma_guard_line line = { 0 };
    loop->late_said = now;
    uma_guard_line_text(&line, "was kept from running for ");
    uma_guard_line_time(&line, late);
    line.text[line.length] = '\0';
    uma_guard_loop_note(loop, UMA_GUARD_WARNING, line.text, 0);
}

static void end(struct uma_guard_loop *loop) {
    uma_guard_manager_say(&loop->manager, "STOPPING=1");
    uint32_t n = uma_guard_let_go(loop, 0, false);
    loop->state.victim = 0; /* who was told to end is nobody's afterwards */
    loop->actor.ended.n = 0;
    uma_guard_loop_keep_state(loop);
    uma_guard_loop_note(loop, UMA_GUARD_NOTICE, n > 0 ? "ends; let go on what it had stopped" : "ends", 0);
}

int uma_guard_loop_run(struct uma_guard_loop *loop) {
    uma_guard_manager_say(&loop->manager, "READY=1");
    loop->due = uma_monotonic_ns();
    uint32_t woke = UMA_GUARD_WOKE_TIMER;
    while (!loop->ending) {
        int64_t now = uma_monotonic_ns();
        uma_guard_manager_alive(&loop->manager, now);
        if (woke & UMA_GUARD_WOKE_CONTROL)
            uma_guard_answer_all(loop);
        bool pressed = (woke & UMA_GUARD_WOKE_PRESSURE) && now - loop->looked >= PRESSURE_QUIET_NS;
        if (now >= loop->due || pressed || (woke & UMA_GUARD_WOKE_VICTIM)) {
            note_late(loop, now);
            loop->due = uma_guard_loop_look(loop);
            if (now >= loop->status_at)
                say_status(loop, loop->status_at == 0, now);
        }
        uma_guard_watch_arm(&loop->watch, loop->due);
        woke = uma_guard_watch_wait(&loop->watch);
        if (woke & UMA_GUARD_WOKE_SIGNAL)
            take_signals(loop);
    }
    end(loop);
    return 0;
}
