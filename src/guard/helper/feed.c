/* SPDX-License-Identifier: MIT */
#include "guard/helper/feed.h"

#include "base/cleanup.h"
#include "base/thread.h"
#include "base/units.h"
#include "guard/gpu_file.h"
#include "guard/helper/say.h"
#include "guard/warn_marker.h"
#include "observe/gpu_probe.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* An answer costs the driver a few milliseconds: far from the floor a process that grew within two seconds is no danger yet, near it half a second tells who grows. */
#define PERIOD_FAR_NS (2 * UMA_SECOND_NS)
#define PERIOD_NEAR_NS (UMA_SECOND_NS / 2)
/* A healthy answer takes milliseconds; one that takes longer than this came too late for a decision, too. */
#define DEADLINE_SECONDS 1.0
/* At the end, for a question that is under way. */
#define STOP_NS (UMA_SECOND_NS / 2)

enum {
    ANSWER_BYTES = 8 * 1024 * 1024, /* of one answer's strings and lists: 64 GPUs with 4,096 processes each are 6 MiB */
    ENTRIES_MAX = UMA_GPU_PROCESSES_MAX,
};

struct uma_helper_feed {
    struct uma_thread thread;
    struct uma_probe *probe;
    struct uma_arena *arena;
    struct uma_guard_gpu_writer writer;
    struct uma_guard_gpu_entry entries[ENTRIES_MAX];
    size_t n;
    uint64_t total;
    enum uma_validity told;
    bool told_hung;
    int64_t near_until; /* under the thread's lock */
    char path[PATH_MAX];
};

/* A process may use several GPUs. */
static void add(struct uma_helper_feed *feed, const struct uma_gpu_process *process) {
    if (!uma_usable(process->bytes.validity) || process->pid <= 0)
        return;
    feed->total += process->bytes.value;
    for (size_t i = 0; i < feed->n; i++)
        if (feed->entries[i].pid == process->pid) {
            feed->entries[i].bytes += process->bytes.value;
            return;
        }
    if (feed->n < ENTRIES_MAX)
        feed->entries[feed->n++] = (struct uma_guard_gpu_entry){ .pid = process->pid, .bytes = process->bytes.value };
}

static void publish(struct uma_helper_feed *feed, const struct uma_gpus *gpus, int64_t asked) {
    feed->n = 0;
    feed->total = 0;
    for (size_t g = 0; g < gpus->n; g++)
        for (size_t i = 0; i < gpus->list[g].n_processes; i++)
            add(feed, &gpus->list[g].processes[i]);
    for (size_t i = 0; i < feed->n; i++) /* at once: a number is soon another's */
        feed->entries[i].start = uma_guard_start_of(feed->entries[i].pid);
    uma_guard_gpu_write(&feed->writer, feed->entries, feed->n, feed->total, asked);
}

/* Once for each change. */
static void tell(struct uma_helper_feed *feed, const struct uma_gpus *gpus) {
    const char *detail = gpus->source.detail ? gpus->source.detail : "";
    if (gpus->hung == feed->told_hung && (gpus->hung || gpus->source.validity == feed->told))
        return;
    if (gpus->hung)
        uma_helper_say(UMA_HELPER_WARNING, "the driver does not answer: the guard goes on with the last answer, if there is one (%s)",
                       detail);
    else if (gpus->source.validity == UMA_KNOWN)
        uma_helper_say(UMA_HELPER_INFO, "the driver answers: %zu GPUs", gpus->n);
    else
        uma_helper_say(UMA_HELPER_NOTICE, "no GPU memory by process: %s", detail);
    feed->told_hung = gpus->hung;
    feed->told = gpus->source.validity;
}

/* Until the next question is due, which the news that the machine is near its floor brings forward. False: the helper ends. */
static bool pause_after(struct uma_helper_feed *feed, int64_t asked) {
    (void)pthread_mutex_lock(&feed->thread.lock);
    while (!feed->thread.stop) {
        int64_t now = uma_monotonic_ns(), due = asked + (now < feed->near_until ? PERIOD_NEAR_NS : PERIOD_FAR_NS);
        struct timespec until = { .tv_sec = due / UMA_SECOND_NS, .tv_nsec = due % UMA_SECOND_NS };
        if (now >= due)
            break;
        (void)pthread_cond_timedwait(&feed->thread.wake, &feed->thread.lock, &until); /* by CLOCK_MONOTONIC: thread.c */
    }
    bool stop = feed->thread.stop;
    (void)pthread_mutex_unlock(&feed->thread.lock);
    return !stop;
}

static void work(void *userdata) {
    struct uma_helper_feed *feed = userdata;
    int64_t asked;
    do {
        struct uma_gpus gpus = { 0 };
        asked = uma_monotonic_ns();
        uma_guard_gpu_asked(&feed->writer, asked);
        uma_arena_reset(feed->arena);
        uma_probe_ask(feed->probe);
        uma_probe_collect(feed->probe, feed->arena, &gpus);
        tell(feed, &gpus);
        if (gpus.source.validity == UMA_KNOWN && !gpus.hung)
            publish(feed, &gpus, asked);
    } while (pause_after(feed, asked));
}

static void done(struct uma_helper_feed *feed) {
    (void)uma_probe_free(feed->probe);
    (void)uma_arena_free(feed->arena);
    uma_guard_gpu_writer_close(&feed->writer);
    free(feed);
}

int uma_helper_feed_start(const char *path, struct uma_helper_feed **ret_feed, struct uma_error *err) {
    struct uma_helper_feed *feed = calloc(1, sizeof(*feed));
    if (!feed)
        return uma_error_set(err, ENOMEM, "asking the driver");
    const char *library = secure_getenv("UMACTL_NVML");
    feed->writer.fd = -1;
    feed->told = UMA_UNKNOWN;
    feed->probe = uma_probe_new(library && library[0] ? library : NULL, DEADLINE_SECONDS, true);
    feed->arena = uma_arena_new(ANSWER_BYTES);
    int r = feed->probe && feed->arena ? 0 : uma_error_set(err, ENOMEM, "asking the driver");
    if (r == 0 && snprintf(feed->path, sizeof(feed->path), "%s", path) >= (int)sizeof(feed->path))
        r = uma_error_set(err, ENAMETOOLONG, "%.64s", path);
    if (r == 0 && (r = uma_guard_gpu_writer_open(&feed->writer, path)) < 0)
        r = uma_error_set(err, -r, "%.255s", path);
    if (r == 0 && (r = uma_thread_start(&feed->thread, work, feed)) < 0)
        r = uma_error_set(err, -r, "a thread");
    if (r < 0) {
        done(feed);
        return r;
    }
    *ret_feed = feed;
    return 0;
}

void uma_helper_feed_near(struct uma_helper_feed *feed, int64_t until_ns) {
    (void)pthread_mutex_lock(&feed->thread.lock);
    feed->near_until = until_ns;
    (void)pthread_cond_broadcast(&feed->thread.wake);
    (void)pthread_mutex_unlock(&feed->thread.lock);
}

struct uma_helper_feed *uma_helper_feed_stop(struct uma_helper_feed *feed) {
    if (!feed)
        return NULL;
    (void)unlink(feed->path); /* what nobody keeps up to date misleads */
    if (uma_thread_stop(&feed->thread, STOP_NS))
        done(feed);
    return NULL; /* else the thread holds it, and both go when the process does */
}
