/* SPDX-License-Identifier: MIT */
/* The loop while the job runs: signals on, samples at their pace, job control as a shell expects it of any program. */
#include "job/job.h"

#include "base/units.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

/*
 * Everything that ended under umactl but the job itself: the job's orphans, for which umactl is the reaper. The GPU probe is among them; its client takes
 * a probe that somebody else waited for as ended (gpu_probe_start.h) and signals it by pidfd, never by a number that may be another's by then.
 */
void uma_job_reap_orphans(const struct uma_job *job) {
    for (;;) {
        siginfo_t info = { 0 };
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        if (info.si_pid == job->launched.pid) /* check_job() wants its status; its SIGCHLD wakes the loop again */
            return;
        (void)waitpid(info.si_pid, NULL, WNOHANG);
    }
}

static void to_job(struct uma_job *job, int signo) {
    (void)kill(-job->launched.pid, signo);
    if (signo > 0 && signo < 32)
        job->forwarded_mask_low |= 1u << signo;
}

static void continue_job(struct uma_job *job) {
    if (job->terminal_wanted)
        (void)uma_terminal_give(&job->terminal, job->launched.pid);
    (void)kill(-job->launched.pid, SIGCONT);
}

/*
 * The job was stopped by the terminal's stop: umactl takes the terminal back and stops too, so that the shell above sees a stopped job and
 * can continue it. A SIGSTOP is somebody else's act on the job alone (a guard's brake): umactl goes on watching.
 */
static void on_stop(struct uma_job *job, int signo) {
    if (signo == SIGTTIN || signo == SIGTTOU) {
        if (uma_terminal_give(&job->terminal, job->launched.pid)) {
            job->terminal_wanted = true;
            (void)kill(-job->launched.pid, SIGCONT);
            return;
        }
    } else if (signo != SIGTSTP) {
        return;
    }
    bool had = job->terminal.given;
    uma_terminal_take(&job->terminal, job->launched.pid);
    /* Ctrl-Z would have stopped the whole pipeline or script; with the terminal in the job's hands only the job heard of it */
    if (had && job->terminal.shared)
        (void)kill(0, SIGTSTP);
    if (!uma_signals_stop_self() && had)
        continue_job(job); /* nobody could continue us: the stop is discarded, as it would be for a program without umactl */
}

static void on_signal(struct uma_job *job, const struct signalfd_siginfo *info) {
    int signo = (int)info->ssi_signo;
    if (signo == SIGCONT)
        continue_job(job);
    else if (uma_signal_forwarded(signo))
        to_job(job, signo);
    else if (signo == uma_guard_warn_signal())
        uma_job_warn(job);
}

static void check_job(struct uma_job *job) {
    for (;;) {
        int status;
        struct rusage usage;
        pid_t pid = wait4(job->launched.pid, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid <= 0)
            return;
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            job->ended = true;
            job->wait_status = status;
            job->usage = usage;
            return;
        }
        if (WIFSTOPPED(status))
            on_stop(job, WSTOPSIG(status));
    }
}

/*
 * The kernel keeps no high mark of a job's own memory: what lies between two samples is seen only by whoever looks. The group's figures are a few small files, so they
 * are looked at more often than all the rest is sampled: 10 times a second at the usual pace.
 */
enum { LOOKS_PER_SAMPLE = 5 };

static void on_timer(struct uma_job *job, uint64_t expirations, uint64_t *to_sample) {
    if (expirations < *to_sample) {
        *to_sample -= expirations;
        uma_tree_look(job->watch.tree);
        return;
    }
    *to_sample = LOOKS_PER_SAMPLE;
    uma_watch_sample(&job->watch);
    uma_job_claim_update(job);
}

int uma_job_supervise(struct uma_job *job, struct uma_error *err) {
    _cleanup_close_ int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int64_t period = (int64_t)(job->sample_seconds * 1e9 / LOOKS_PER_SAMPLE);
    uint64_t to_sample = 1; /* the first at once */
    struct itimerspec every = {
        .it_value = { .tv_nsec = 1 },
        .it_interval = { .tv_sec = period / 1000000000, .tv_nsec = period % 1000000000 },
    };
    int r = 0;
    if (timer < 0 || timerfd_settime(timer, 0, &every, NULL) < 0)
        r = uma_error_set(err, errno, "setting up the sampling timer"); /* the job runs already: wait for it without samples */
    while (!job->ended) {
        struct pollfd fds[2] = { { .fd = job->signals.fd, .events = POLLIN }, { .fd = timer, .events = POLLIN } };
        (void)poll(fds, 2, timer < 0 ? 1000 : -1);
        struct signalfd_siginfo info;
        while (read(job->signals.fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
            on_signal(job, &info);
        check_job(job);
        uint64_t expirations;
        if (!job->ended && timer >= 0 && read(timer, &expirations, sizeof(expirations)) == (ssize_t)sizeof(expirations))
            on_timer(job, expirations, &to_sample);
        uma_load_window_check(job->load, &job->watch);
        uma_job_valve_check(job->valve, &job->watch);
        uma_job_reap_orphans(job);
    }
    return r;
}
