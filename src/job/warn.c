/* SPDX-License-Identifier: MIT */
#include "job/warn.h"

#include "base/units.h"
#include "base/write.h"
#include "job/job.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Parents above one process that are looked at: a job that nests deeper than this has its own ways of being told. */
enum { DEPTH_MAX = 64 };

/* ---- what the user asked for -------------------------------------------------------------------------------------- */

static char upper(char c) {
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool same_word(const char *a, const char *b) {
    while (*a && upper(*a) == *b) {
        a++;
        b++;
    }
    return !*a && !*b;
}

/* 0: no such signal. */
static int signal_of(const char *s) {
    uint64_t number;
    if (*s >= '0' && *s <= '9')
        return uma_parse_u64_all(s, &number) == 0 && number >= 1 && number <= 64 ? (int)number : 0;
    if (upper(s[0]) == 'S' && upper(s[1]) == 'I' && upper(s[2]) == 'G')
        s += 3;
    for (int signo = 1; signo < 32; signo++) {
        const char *name = sigabbrev_np(signo);
        if (name && same_word(s, name))
            return signo;
    }
    return 0;
}

int uma_job_warn_parse(const char *s, struct uma_job_warn_options *options, struct uma_error *err) {
    if (strchr(s, '/')) {
        if (options->file)
            return uma_error_text(err, EINVAL, "one file can be given, and \"%.64s\" was already", options->file);
        if (s[strlen(s) - 1] == '/')
            return uma_error_text(err, EINVAL, "\"%.64s\" is a folder, expected a file", s);
        options->file = s;
        return 0;
    }
    int signo = signal_of(s);
    if (signo == 0)
        return uma_error_text(err, EINVAL, "\"%.64s\" is no signal (USR1); a file is given with a '/' (./%.64s)", s, s);
    if (signo == SIGKILL || signo == SIGSTOP)
        return uma_error_text(err, EINVAL, "no program hears of \"%.64s\", expected a signal that it can catch", s);
    if (options->signal)
        return uma_error_text(err, EINVAL, "one signal can be given, and one was already");
    options->signal = signo;
    return 0;
}

int uma_job_warn_file_check(const char *path, struct uma_error *err) {
    char folder[PATH_MAX];
    struct stat st;
    if (snprintf(folder, sizeof(folder), "%s", path) >= (int)sizeof(folder))
        return uma_error_set(err, ENAMETOOLONG, "%.64s", path);
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return uma_error_set(err, EISDIR, "%s", path);
        return access(path, W_OK) == 0 ? 0 : uma_error_set(err, errno, "%s", path);
    }
    return access(dirname(folder), W_OK | X_OK) == 0 ? 0 : uma_error_set(err, errno, "%s", path);
}

/* ---- being told ------------------------------------------------------------------------------------------------- */

int uma_job_warn_take(struct uma_job *job, struct uma_error *err) {
    return uma_job_warn_wanted(&job->options->warn) ? uma_signals_add(&job->signals, uma_guard_warn_signal(), err) : 0;
}

void uma_job_warn_begin(struct uma_job *job) {
    struct uma_error err = { 0 };
    if (!uma_job_warn_wanted(&job->options->warn))
        return;
    if (uma_guard_warn_mark_make(uma_guard_warn_folder(), job->run.umactl_start_ticks, uma_guard_warn_signal(), &job->warn_made, &err) < 0)
        uma_job_tell("%s; no guard can warn the job", err.text);
}

void uma_job_warn_end(struct uma_job *job) {
    uma_guard_warn_mark_remove(&job->warn_made);
}

/* ---- telling the job -------------------------------------------------------------------------------------------- */

static int compare_pid(const void *key, const void *element) {
    pid_t a = *(const pid_t *)key, b = ((const struct uma_tree_process *)element)->pid;
    return (a > b) - (a < b);
}

size_t uma_job_warn_choose(const struct uma_tree_process *list, const bool *awaits, size_t n, bool *ret_chosen) {
    size_t chosen = 0;
    for (size_t i = 0; i < n; i++) {
        bool below = false;
        const struct uma_tree_process *at = &list[i];
        for (int depth = 0; awaits[i] && !below && depth < DEPTH_MAX; depth++) {
            at = bsearch(&at->ppid, list, n, sizeof(*list), compare_pid);
            if (!at || at == &list[i])
                break;
            below = awaits[at - list];
        }
        ret_chosen[i] = awaits[i] && !below;
        chosen += ret_chosen[i];
    }
    return chosen;
}

/* How many got it. */
static size_t send(const struct uma_job *job, int signo) {
    const struct uma_tree_process *list;
    size_t n = uma_tree_processes(job->watch.tree, &list), sent = 0;
    _cleanup_free_
    bool *marks = calloc(2 * n + 1, sizeof(*marks));
    if (n == 0 || !marks) /* nobody was looked at yet, or no memory: the job's first process alone */
        return uma_guard_signal_if_awaited(job->launched.pid, job->run.start_ticks, signo) == 0;
    for (size_t i = 0; i < n; i++)
        marks[i] = uma_guard_signal_awaited_by(list[i].pid, signo);
    (void)uma_job_warn_choose(list, marks, n, marks + n);
    for (size_t i = 0; i < n; i++)
        if (marks[n + i] && uma_guard_signal_if_awaited(list[i].pid, list[i].start_ticks, signo) == 0)
            sent++;
    return sent;
}

static int write_file(const char *path) {
    char line[128];
    time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc))
        utc = (struct tm){ .tm_mday = 1, .tm_year = 70 };
    size_t n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%SZ the guard is about to end this job: memory is running out\n", &utc);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    return fd < 0 ? -errno : uma_write_all(fd, line, n);
}

void uma_job_warn(struct uma_job *job) {
    const struct uma_job_warn_options *o = &job->options->warn;
    char signal_text[96] = "", file_text[32] = "", name[32], detail[128];
    if (o->signal) {
        size_t n = send(job, o->signal);
        (void)snprintf(signal_text, sizeof(signal_text), "%s to %zu of its processes", uma_signal_name(o->signal, name), n);
        if (n == 0)
            uma_job_tell("a guard is about to end the job, and no process of it waits for %s: it was not sent", name);
        else
            uma_job_tell("a guard is about to end the job: %s was sent to %zu of its processes", name, n);
    }
    if (o->file) {
        int r = write_file(o->file);
        (void)snprintf(file_text, sizeof(file_text), "%sfile %s", signal_text[0] ? ", " : "", r < 0 ? "not written" : "written");
        if (r < 0)
            uma_job_tell("a guard is about to end the job, and %s cannot be written: %s", o->file, strerror(-r));
        else
            uma_job_tell("a guard is about to end the job: %s was written", o->file);
    }
    (void)snprintf(detail, sizeof(detail), "%s%s", signal_text, file_text);
    uma_watch_event(&job->watch, "guard_warning", detail);
}
