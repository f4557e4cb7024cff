/* SPDX-License-Identifier: MIT */
#include "job/gpu_watch.h"

#include "base/thread.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>

/* For a reading that is under way; a driver that hangs must not hold the job's status back. */
#define STOP_NS (UMA_SECOND_NS / 5)

struct uma_gpu_watch {
    struct uma_thread thread;
    struct uma_observer *observer;
    unsigned what;
    double period;
    bool folder;
    struct uma_gpu_reading latest; /* under the thread's lock */
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

static void observe(void *userdata) {
    struct uma_gpu_watch *watch = userdata;
    struct uma_snapshot snapshot = { 0 };
    int64_t next = uma_monotonic_ns();
    for (bool more = uma_snapshot_init(&snapshot) == 0; more; more = uma_thread_pause(&watch->thread, next)) {
        if (uma_observer_read(watch->observer, watch->what, &snapshot, NULL) >= 0) {
            (void)pthread_mutex_lock(&watch->thread.lock);
            uma_gpu_reading_update(&watch->latest, &snapshot, watch->folder);
            (void)pthread_mutex_unlock(&watch->thread.lock);
        }
        next = MAX_OF(next + (int64_t)(watch->period * 1e9), uma_monotonic_ns());
    }
    uma_snapshot_done(&snapshot);
}

struct uma_gpu_watch *uma_gpu_watch_start(const struct uma_observe_options *options, double period, bool by_process,
                                          struct uma_error *err) {
    struct uma_observe_options own = *options;
    _cleanup_free_
    struct uma_gpu_watch *watch = calloc(1, sizeof(*watch));
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
    int r = uma_thread_start(&watch->thread, observe, watch);
    if (r < 0) {
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
    (void)pthread_mutex_lock(&watch->thread.lock);
    *ret_reading = watch->latest;
    (void)pthread_mutex_unlock(&watch->thread.lock);
}

struct uma_gpu_watch *uma_gpu_watch_stop(struct uma_gpu_watch *watch) {
    if (!watch || !uma_thread_stop(&watch->thread, STOP_NS))
        return NULL; /* the thread holds `watch`, and both go when the process does */
    (void)uma_observer_close(watch->observer);
    free(watch);
    return NULL;
}
