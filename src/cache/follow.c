/* SPDX-License-Identifier: MIT */
#include "cache/follow.h"

#include "base/units.h"
#include "cache/follow_parts.h"
#include "observe/lines.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Ticks: at 5 ms a loader of 10 GB/s reads 50 MB, a fifth of a window of 256 MiB; at 50 ms, 20 looks a second at nothing cost a thousandth of a core. */
enum { TICK_LEAST_MS = 5, TICK_MOST_MS = 50, TICK_AWAKE_MS = 20 };
/* So much of the window may be read between two ticks: an eighth, because a reader may double its speed. */
enum { TICK_WINDOW_SHARE = 8 };
/* Whether loading is over is asked four times a second: it takes seconds to be. */
#define JUDGE_EVERY_NS (INT64_C(250) * 1000000)
/* Programs open their weights seconds or minutes after they started; who watches is told once what is waited for. */
#define WAITING_NS (INT64_C(2) * UMA_SECOND_NS)
/* Half a million mappings of a process, at some 200 bytes each, and the tables of mounts. */
#define ARENA_MAX (256 * UMA_MIB)

void uma_follow_tell(struct uma_follower *f, const char *format, ...) {
    char text[sizeof f->report.note];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    char *note = f->report.note;
    size_t have = strlen(note), length = strlen(text), gap = have ? strlen("; ") : 0;
    if (have + gap + length < sizeof f->report.note) /* what does not fit whole was told at least */
        (void)stpcpy(gap ? stpcpy(note + have, "; ") : note, text);
    if (f->options->tell)
        f->options->tell(f->options->userdata, text);
}

bool uma_follow_due(const struct uma_follow_limiter *limiter, int64_t now_ns) {
    return now_ns >= limiter->due_ns;
}

int64_t uma_follow_cost_ns(void) {
    struct timespec spent;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent) < 0 ? 0 : spent.tv_sec * UMA_SECOND_NS + spent.tv_nsec;
}

void uma_follow_done(struct uma_follow_limiter *limiter, int64_t began_ns, int64_t least_ns) {
    enum { SHARE = 50 };
    limiter->due_ns = uma_monotonic_ns() + MAX_OF((uma_follow_cost_ns() - began_ns) * SHARE, least_ns);
}

int uma_follow_size_parse(const char *s, uint64_t *ret_bytes, struct uma_error *err) {
    uint64_t bytes;
    int r = uma_parse_size(s, &bytes, err);
    if (r < 0)
        return r;
    if (bytes < UMA_FOLLOW_LEAST)
        return uma_error_text(err, EINVAL, "\"%.40s\" is too little, expected at least 4M: the kernel reads ahead as much", s);
    *ret_bytes = bytes;
    return 0;
}

const char *uma_follow_end_name(enum uma_follow_end end) {
    static const char *const names[UMA_FOLLOW_ENDS] = {
        [UMA_FOLLOW_LOADED] = "loaded", [UMA_FOLLOW_IDLE] = "idle",       [UMA_FOLLOW_IN_PLACE] = "in place",
        [UMA_FOLLOW_EXITED] = "exited", [UMA_FOLLOW_STOPPED] = "stopped", [UMA_FOLLOW_NOTHING] = "nothing",
    };
    return (unsigned)end < UMA_FOLLOW_ENDS ? names[end] : "unknown";
}

/* ---- one tick ---------------------------------------------------------------------------------------------------- */

/* MemFree, the second line of meminfo. Between ticks the read takes some 3 us. */
static void read_free(struct uma_follower *f) {
    char text[256];
    ssize_t n = f->meminfo < 0 ? -1 : pread(f->meminfo, text, sizeof text, 0);
    struct uma_u64 kib = n > 0 ? uma_lines_number(text, (size_t)n, "MemFree") : uma_no_u64(UMA_FAILED);
    if (!uma_usable(kib.validity))
        return;
    f->free = kib.value * UMA_KIB;
    if (f->report.lowest_free.validity != UMA_KNOWN || f->free < f->report.lowest_free.value)
        f->report.lowest_free = (struct uma_u64){ f->free, UMA_KNOWN };
}

/* Milliseconds until the next tick: as fast as the job reads, slower by half again and again when it does not. */
static int tick_of(const struct uma_follower *f, int before, bool moved, double seconds) {
    if (f->grown == 0) {
        bool loading = false;
        for (size_t i = 0; i < f->n_files && !loading; i++)
            loading = !f->files[i]->ignored && f->files[i]->state->in_use && f->files[i]->state->read < f->files[i]->state->size;
        int most = loading ? TICK_AWAKE_MS : TICK_MOST_MS;
        return moved && loading ? MIN_OF(before, most) : MIN_OF(before + before / 2 + 1, most);
    }
    double rate = (double)f->grown / MAX_OF(seconds, 0.001);
    uint64_t window = f->window.now == UINT64_MAX ? 256 * UMA_MIB : f->window.now;
    double wanted = (double)window / TICK_WINDOW_SHARE / MAX_OF(rate, 1.0) * 1000.0;
    return wanted < TICK_LEAST_MS ? TICK_LEAST_MS : wanted > TICK_MOST_MS ? TICK_MOST_MS : (int)wanted;
}

static enum uma_follow_progress judge(struct uma_follower *f) {
    struct uma_follow_file_name *names = calloc(f->n_files + 1, sizeof *names);
    if (!names)
        return UMA_FOLLOW_GOES_ON;
    size_t n = 0;
    for (size_t i = 0; i < f->n_files; i++)
        if (!f->files[i]->ignored)
            names[n++] = (struct uma_follow_file_name){ f->files[i]->state, f->files[i]->shown };
    enum uma_follow_progress progress = uma_follow_judge(names, n, f->newest_ns, f->now_ns);
    free(names);
    return progress;
}

static void tick(struct uma_follower *f, bool *ret_moved) {
    f->now_ns = uma_monotonic_ns();
    f->grown = 0;
    uma_follow_job_list(f);
    *ret_moved = uma_follow_job_read(f);
    if (f->options->helpers)
        uma_follow_helpers_accept(f->options->helpers);
    for (size_t i = 0; i < f->n_processes; i++)
        if (!f->processes[i].gone)
            uma_follow_files_refresh(f, &f->processes[i]);
    uma_follow_files_settle(f);
    for (size_t i = 0; i < f->n_processes; i++)
        if (!f->processes[i].gone)
            uma_follow_look(f, &f->processes[i]);
    uma_follow_measure(f);
    read_free(f);
    if (f->options->keep_free)
        uma_follow_keep_free(f);
    (void)uma_follow_evict(f, uma_follow_target(&f->window, f->grown));
}

/* ---- from beginning to end --------------------------------------------------------------------------------------- */

static int begin(struct uma_follower *f, struct uma_error *err) {
    const struct uma_follow_options *options = f->options;
    if (options->pid <= 0 || (!options->window && !options->keep_free))
        return uma_error_text(err, EINVAL, "following a job needs its process, and a window or a rule for free memory");
    uma_follow_window_begin(&f->window, options->window);
    f->arena = uma_arena_new(ARENA_MAX);
    f->mounts_arena = uma_arena_new(ARENA_MAX);
    f->files = calloc(UMA_FOLLOW_FILES_MAX, sizeof(struct uma_followed *));
    f->real_paths = calloc(options->n_paths + 1, sizeof(char *));
    if (!f->arena || !f->mounts_arena || !f->files || !f->real_paths)
        return uma_error_set(err, ENOMEM, "following a job");
    for (size_t i = 0; i < options->n_paths; i++)
        f->real_paths[i] = realpath(options->paths[i], NULL);
    int r = uma_root_open(NULL, NULL, &f->root, err);
    if (r < 0)
        return r;
    (void)uma_mounts_read(f->root, 0, f->mounts_arena, &f->mounts, NULL); /* else every file is taken for a local one */
    f->meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    f->began_ns = f->now_ns = f->newest_ns = uma_monotonic_ns();
    return uma_follow_job_begin(f, err);
}

static void finish(struct uma_follower *f) {
    uma_follow_keep_free_end(f);
    uma_follow_job_end(f);
    uma_follow_files_end(f);
    for (size_t i = 0; f->real_paths && i < f->options->n_paths; i++)
        free(f->real_paths[i]);
    free(f->real_paths);
    if (f->meminfo >= 0)
        (void)close(f->meminfo);
    f->root = uma_root_close(f->root);
    f->arena = uma_arena_free(f->arena);
    f->mounts_arena = uma_arena_free(f->mounts_arena);
}

/* The end says it when the job goes on; when the job ended first, or there were other files as well, the note does. */
static void tell_in_place(struct uma_follower *f, enum uma_follow_end end) {
    const struct uma_followed *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < f->n_files && end != UMA_FOLLOW_IN_PLACE; i++)
        if (!f->files[i]->ignored && f->files[i]->state->in_place) {
            first = first ? first : f->files[i];
            n++;
        }
    if (n == 1)
        uma_follow_tell(f, "%.150s: the job read again what was evicted: it is used where it lies, and was left alone", first->shown);
    else if (n)
        uma_follow_tell(f,
                        "%.120s and %zu more files: the job read again what was evicted: they are used where they lie, and were left alone",
                        first->shown, n - 1);
}

static void sum_up(struct uma_follower *f, enum uma_follow_end end) {
    tell_in_place(f, end);
    struct uma_follow_report *report = &f->report;
    for (size_t i = 0; i < f->n_files; i++) {
        const struct uma_followed *file = f->files[i];
        if (file->ignored)
            continue;
        report->files++;
        report->file_bytes += file->state->size;
        report->read_bytes += file->state->read;
        report->evicted_bytes += file->state->evicted;
        report->evicted_again_bytes += file->state->again;
    }
    report->end = end == UMA_FOLLOW_EXITED && report->files == 0 ? UMA_FOLLOW_NOTHING : end;
    report->seconds = (double)(uma_monotonic_ns() - f->began_ns) / (double)UMA_SECOND_NS;
}

static void tell_waiting(struct uma_follower *f) {
    if (f->told_waiting || !f->options->waiting || f->now_ns - f->began_ns < WAITING_NS)
        return;
    f->told_waiting = true;
    for (size_t i = 0; i < f->n_files; i++)
        if (!f->files[i]->ignored)
            return;
    f->options->waiting(f->options->userdata);
}

static enum uma_follow_end loop(struct uma_follower *f) {
    int wait_ms = TICK_LEAST_MS;
    int64_t before = uma_monotonic_ns();
    for (;;) {
        bool moved;
        tick(f, &moved);
        if (uma_follow_job_over(f))
            return UMA_FOLLOW_EXITED;
        if (f->options->stop && f->options->stop(f->options->userdata))
            return UMA_FOLLOW_STOPPED;
        tell_waiting(f);
        if (f->now_ns >= f->judged_ns) {
            f->judged_ns = f->now_ns + JUDGE_EVERY_NS;
            switch (judge(f)) {
            case UMA_FOLLOW_IS_LOADED:
                return UMA_FOLLOW_LOADED;
            case UMA_FOLLOW_IS_IDLE:
                return UMA_FOLLOW_IDLE;
            case UMA_FOLLOW_IS_IN_PLACE:
                return UMA_FOLLOW_IN_PLACE;
            case UMA_FOLLOW_GOES_ON:
                break;
            }
        }
        wait_ms = tick_of(f, wait_ms, moved, (double)(f->now_ns - before) / (double)UMA_SECOND_NS);
        before = f->now_ns;
        (void)poll(NULL, 0, wait_ms); /* a signal ends the wait early, which does no harm */
    }
}

int uma_follow(const struct uma_follow_options *options, struct uma_follow_report *ret_report, struct uma_error *err) {
    struct uma_follower f = { .options = options, .meminfo = -1 };
    int r = begin(&f, err);
    if (r >= 0) {
        enum uma_follow_end end = loop(&f);
        if (end == UMA_FOLLOW_LOADED || end == UMA_FOLLOW_EXITED)
            uma_follow_evict_rest(&f);
        sum_up(&f, end);
        *ret_report = f.report;
    }
    finish(&f);
    return r;
}
