/* SPDX-License-Identifier: MIT */
/* The gate as it happens: one reading, or readings until the job fits. What may start is gate.c's to say. */
#include "job/job.h"

#include "account/headroom.h"
#include "base/units.h"
#include "job/gate.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#define LOOK_INTERVAL_MS 1000 /* memory of an ended process is back within milliseconds (measured); a person waits for seconds */

/* Everything that decides or is named. Heat decides nothing but belongs into before.json. */
static int look(struct uma_job *job, struct uma_error *err) {
    uma_account_done(&job->account);
    job->account = (struct uma_account){ 0 };
    uma_job_claims_read(job);
    int r = uma_observer_read(job->observer, UMA_READ_ALL, &job->before, err);
    return r < 0 ? r : uma_job_account_build(job, uma_job_reserved_by_others(job), err);
}

static void say(const struct uma_gate *gate, const struct uma_account *account, const char *before) {
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, before);
    uma_gate_explain(gate, account, &text);
    if (!text.failed)
        (void)!write(STDERR_FILENO, text.data, text.length);
}

static void warn_of_problems(const struct uma_account *account) {
    for (size_t i = 0; i < account->n_problems; i++)
        if (account->problems[i].severity == UMA_CRITICAL)
            uma_job_tell("warning: %s (%s); %s", account->problems[i].summary ? account->problems[i].summary : account->problems[i].id,
                         account->problems[i].evidence ? account->problems[i].evidence : "?",
                         account->problems[i].remedy ? account->problems[i].remedy : "see umactl status");
}

/* It fits, but only a job that uses huge pages. */
static void warn_of_huge_pages(const struct uma_account *account) {
    _cleanup_text_ struct uma_text note = { 0 };
    if (uma_headroom_note(&note, account) && note.data)
        uma_job_tell("warning: what the job can have is %s", note.data);
}

/* The signal that ends the waiting, or 0 after the interval. A stop from the terminal stops umactl as it would any program. */
static int wait_a_moment(struct uma_job *job, int milliseconds) {
    int64_t until = uma_monotonic_ns() + (int64_t)milliseconds * 1000000;
    for (int64_t left; (left = until - uma_monotonic_ns()) > 0;) {
        struct pollfd p = { .fd = job->signals.fd, .events = POLLIN };
        struct signalfd_siginfo info;
        if (poll(&p, 1, (int)(left / 1000000) + 1) <= 0 || read(job->signals.fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
            continue;
        int signo = (int)info.ssi_signo;
        struct sigaction action;
        if (signo == SIGTSTP)
            (void)uma_signals_stop_self();
        else if (signo == SIGINT || signo == SIGTERM || signo == SIGHUP || signo == SIGQUIT) {
            if (sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
                continue; /* nohup, or a shell's background job: what was to be ignored is */
            return signo;
        }
    }
    return 0;
}

static void progress(const struct uma_gate *gate, double waited, bool *shown) {
    _cleanup_text_ struct uma_text text = { 0 };
    if (!isatty(STDERR_FILENO))
        return;
    uma_text_append(&text, "\r\033[Kumactl run: waiting for ");
    uma_text_bytes(&text, gate->missing);
    uma_text_append(&text, " more (");
    uma_text_bytes(&text, gate->budget.value);
    uma_text_append(&text, " of ");
    uma_text_bytes(&text, gate->need.value);
    uma_text_printf(&text, ", %.0f s)", waited);
    if (!text.failed)
        (void)!write(STDERR_FILENO, text.data, text.length);
    *shown = true;
}

/* In place of the progress line, if there is one. */
static void interrupted(const struct uma_gate *gate, int signo, double waited, bool shown) {
    _cleanup_text_ struct uma_text text = { 0 };
    char name[32];
    uma_text_printf(&text, "%sumactl run: stopped by %s after ", shown ? "\r\033[K" : "",
                    signo == SIGINT ? "Ctrl-C" : uma_signal_name(signo, name));
    uma_text_duration(&text, waited);
    uma_text_append(&text, "; the job did not start: it needs ");
    uma_text_bytes(&text, gate->need.value);
    uma_text_append(&text, ", a new job can have ");
    uma_text_bytes(&text, gate->budget.value);
    uma_text_char(&text, '\n');
    if (!text.failed)
        (void)!write(STDERR_FILENO, text.data, text.length);
}

int uma_job_gate(struct uma_job *job) {
    const struct uma_job_options *options = job->options;
    struct uma_error err = { 0 };
    struct uma_gate gate = { 0 };
    int64_t start = uma_monotonic_ns();
    bool shown = false, told = false;
    double waited = 0;
    for (;;) {
        if (look(job, &err) < 0) {
            uma_job_tell("%s", err.text);
            if (options->need.validity == UMA_KNOWN)
                return UMA_JOB_FAILED;
            uma_job_tell("warning: this machine's memory could not be read; the job starts unchecked");
            job->run.verdict = "no need given";
            return 0;
        }
        uma_job_gate_decide(job, &gate);
        waited = (double)(uma_monotonic_ns() - start) / 1e9;
        if (gate.verdict != UMA_GATE_REFUSED || gate.never || !options->has_wait || waited >= options->wait)
            break;
        if (!told && !options->quiet && !isatty(STDERR_FILENO))
            say(&gate, &job->account, "umactl run: waiting: ");
        told = true;
        progress(&gate, waited, &shown);
        int signo = wait_a_moment(job, LOOK_INTERVAL_MS);
        if (signo) {
            interrupted(&gate, signo, (double)(uma_monotonic_ns() - start) / 1e9, shown);
            return 128 + signo;
        }
    }
    if (shown)
        (void)!write(STDERR_FILENO, "\r\033[K", 4);
    job->run.need = gate.need;
    job->run.budget = gate.budget;
    job->run.verdict = uma_gate_verdict_name(gate.verdict);
    job->run.waited_seconds = told ? waited : 0;
    if (gate.verdict == UMA_GATE_REFUSED) {
        say(&gate, &job->account, told ? "umactl run: refused after waiting: " : "umactl run: refused: ");
        return UMA_JOB_REFUSED;
    }
    if (gate.verdict == UMA_GATE_UNKNOWN) {
        say(&gate, &job->account, "umactl run: ");
        uma_job_tell("without --need it starts unchecked");
        return UMA_JOB_FAILED;
    }
    if (!options->quiet) {
        warn_of_problems(&job->account);
        warn_of_huge_pages(&job->account);
    }
    return 0;
}
