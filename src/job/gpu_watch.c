/* SPDX-License-Identifier: MIT */
#include "job/gpu_watch.h"

#include "base/units.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct uma_gpu_watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct uma_observer *observer;
    unsigned what;
    double period;
    bool stop, ended, folder;
    struct uma_gpu_reading latest;
};

/* What must not outlive its answer. */
static void forget_values(struct uma_gpu_reading *reading) {
    struct uma_f64 board = reading->board_celsius;
    *reading = (struct uma_gpu_reading){ .answers = reading->answers, .time_ns = reading->time_ns, .board_celsius = board };
}

void uma_gpu_reading_update(struct uma_gpu_reading *reading, const struct uma_snapshot *snapshot, bool folder) {
    const struct uma_gpus *gpus = &snapshot->gpus;
    reading->board_celsius = (struct uma_f64){ 0, UMA_UNKNOWN };
    for (size_t i = 0; i < snapshot->heat.n_zones; i++) {
        struct uma_f64 c = snapshot->heat.zones[i].celsius;
        if (c.validity == UMA_KNOWN && (reading->board_celsius.validity != UMA_KNOWN || c.value > reading->board_celsius.value))
            reading->board_celsius = c;
    }
    forget_values(reading);
    reading->folder_ns = folder ? snapshot->time_ns : 0;
    reading->validity = gpus->n || gpus->source.validity != UMA_KNOWN ? gpus->source.validity : UMA_ABSENT;
    reading->hung = gpus->hung;
    (void)snprintf(reading->detail, sizeof(reading->detail), "%s", gpus->source.detail ? gpus->source.detail : "");
    if (gpus->source.validity != UMA_KNOWN || gpus->n == 0)
        return;
    const struct uma_gpu *gpu = &gpus->list[0];
    reading->answers++;
    reading->time_ns = gpus->source.time_ns;
    reading->celsius = gpu->celsius;
    reading->margin = gpu->limit_margin_celsius;
    reading->watts = gpu->watts;
    reading->utilization = gpu->utilization;
    reading->sm_hertz = gpu->sm_hertz;
    reading->sm_max_hertz = gpu->sm_max_hertz;
    reading->reasons = gpu->throttle_reasons;
    reading->pstate = gpu->pstate;
    memcpy(reading->throttle_seconds, gpu->throttle_seconds, sizeof(reading->throttle_seconds));
    reading->users_validity = gpu->processes_validity;
    for (size_t g = 0; g < gpus->n; g++)
        for (size_t i = 0; i < gpus->list[g].n_processes && reading->n_users < UMA_GPU_USERS_MAX; i++) {
            const struct uma_gpu_process *p = &gpus->list[g].processes[i];
            reading->users[reading->n_users++] = (struct uma_gpu_user){ p->pid, p->bytes, p->compute };
        }
}

struct uma_f64 uma_gpu_reading_age(const struct uma_gpu_reading *reading, int64_t now_ns) {
    if (!reading->time_ns)
        return (struct uma_f64){ 0, UMA_UNKNOWN };
    int64_t age = (reading->folder_ns ? reading->folder_ns : now_ns) - reading->time_ns;
    return (struct uma_f64){ (double)MAX_OF(age, (int64_t)0) / 1e9,
                             UMA_KNOWN }; /* a clock that was set back makes nothing younger than now */
}

static void *observe(void *userdata) {
    struct uma_gpu_watch *watch = userdata;
    struct uma_snapshot snapshot = { 0 };
    bool ready = uma_snapshot_init(&snapshot) == 0;
    int64_t next = uma_monotonic_ns();
    (void)pthread_mutex_lock(&watch->lock);
    while (ready && !watch->stop) {
        (void)pthread_mutex_unlock(&watch->lock);
        int r = uma_observer_read(watch->observer, watch->what, &snapshot, NULL);
        (void)pthread_mutex_lock(&watch->lock);
        if (r >= 0)
            uma_gpu_reading_update(&watch->latest, &snapshot, watch->folder);
        next = MAX_OF(next + (int64_t)(watch->period * 1e9), uma_monotonic_ns());
        struct timespec until = { .tv_sec = next / 1000000000, .tv_nsec = next % 1000000000 };
        while (!watch->stop && pthread_cond_timedwait(&watch->wake, &watch->lock, &until) == 0)
            ;
    }
    watch->ended = true;
    (void)pthread_cond_signal(&watch->wake);
    (void)pthread_mutex_unlock(&watch->lock);
    uma_snapshot_done(&snapshot);
    return NULL;
}

struct uma_gpu_watch *uma_gpu_watch_start(const struct uma_observe_options *options, double period, bool by_process,
                                          struct uma_error *err) {
    struct uma_observe_options own = *options;
    _cleanup_free_
    struct uma_gpu_watch *watch = calloc(1, sizeof(*watch));
    pthread_condattr_t monotonic;
    if (!watch) {
        (void)uma_error_set(err, ENOMEM, "watching the GPU");
        return NULL;
    }
    own.capture = NULL;
    own.keep_probe = true;
    watch->period = period;
    watch->folder = options->root && strcmp(options->root, "/") != 0;
    watch->what = UMA_READ_GPU | UMA_READ_HEAT | (by_process ? UMA_READ_PROCESSES : 0);
    if (uma_observer_open(&own, &watch->observer, err) < 0)
        return NULL;
    (void)pthread_mutex_init(&watch->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&watch->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    int r = pthread_create(&watch->thread, NULL, observe, watch);
    if (r != 0) {
        (void)uma_observer_close(watch->observer);
        (void)uma_error_set(err, r, "watching the GPU: no thread");
        return NULL;
    }
    return TAKE_PTR(watch);
}

void uma_gpu_watch_latest(struct uma_gpu_watch *watch, struct uma_gpu_reading *ret_reading) {
    if (!watch) {
        *ret_reading = (struct uma_gpu_reading){ 0 };
        return;
    }
    (void)pthread_mutex_lock(&watch->lock);
    *ret_reading = watch->latest;
    (void)pthread_mutex_unlock(&watch->lock);
}

struct uma_gpu_watch *uma_gpu_watch_stop(struct uma_gpu_watch *watch) {
    if (!watch)
        return NULL;
    int64_t until_ns = uma_monotonic_ns() + 200000000;
    struct timespec until = { .tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000 };
    (void)pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    (void)pthread_cond_signal(&watch->wake);
    while (!watch->ended && pthread_cond_timedwait(&watch->wake, &watch->lock, &until) == 0)
        ;
    bool ended = watch->ended;
    (void)pthread_mutex_unlock(&watch->lock);
    if (!ended) {
        (void)pthread_detach(watch->thread); /* it holds `watch`; both go when the process does */
        return NULL;
    }
    (void)pthread_join(watch->thread, NULL);
    (void)uma_observer_close(watch->observer);
    (void)pthread_cond_destroy(&watch->wake);
    (void)pthread_mutex_destroy(&watch->lock);
    free(watch);
    return NULL;
}
