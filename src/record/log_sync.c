/* SPDX-License-Identifier: MIT */
#include "record/log_sync.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

struct uma_log_sync {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop, ended;
    unsigned n;
    int fds[UMA_LOG_SYNC_MAX];
};

static struct timespec in_seconds(double seconds) {
    int64_t at = uma_monotonic_ns() + (int64_t)(seconds * 1e9);
    return (struct timespec){ .tv_sec = at / 1000000000, .tv_nsec = at % 1000000000 };
}

static void *keep(void *userdata) {
    struct uma_log_sync *sync = userdata;
    bool stop = false;
    while (!stop) {
        struct timespec until = in_seconds(UMA_LOG_SYNC_SECONDS);
        (void)pthread_mutex_lock(&sync->lock);
        while (!sync->stop && pthread_cond_timedwait(&sync->wake, &sync->lock, &until) == 0)
            ;
        stop = sync->stop;
        (void)pthread_mutex_unlock(&sync->lock);
        for (unsigned i = 0; i < sync->n; i++)
            (void)fdatasync(sync->fds[i]); /* EINVAL for a pipe or a terminal: nothing to keep */
    }
    (void)pthread_mutex_lock(&sync->lock);
    sync->ended = true;
    (void)pthread_cond_signal(&sync->wake);
    (void)pthread_mutex_unlock(&sync->lock);
    return NULL;
}

static void sync_free(struct uma_log_sync *sync) {
    for (unsigned i = 0; i < sync->n; i++)
        (void)close(sync->fds[i]);
    (void)pthread_cond_destroy(&sync->wake);
    (void)pthread_mutex_destroy(&sync->lock);
    free(sync);
}

struct uma_log_sync *uma_log_sync_start(const int *fds, unsigned n) {
    struct uma_log_sync *sync = calloc(1, sizeof(*sync));
    pthread_condattr_t monotonic;
    if (!sync)
        return NULL;
    for (unsigned i = 0; i < n && sync->n < UMA_LOG_SYNC_MAX; i++) {
        int copy = fds[i] >= 0 ? fcntl(fds[i], F_DUPFD_CLOEXEC, 3) : -1;
        if (copy >= 0)
            sync->fds[sync->n++] = copy;
    }
    (void)pthread_mutex_init(&sync->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&sync->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    if (sync->n == 0 || pthread_create(&sync->thread, NULL, keep, sync) != 0) {
        sync_free(sync);
        return NULL;
    }
    return sync;
}

struct uma_log_sync *uma_log_sync_stop(struct uma_log_sync *sync) {
    if (!sync)
        return NULL;
    struct timespec until = in_seconds(1);
    (void)pthread_mutex_lock(&sync->lock);
    sync->stop = true;
    (void)pthread_cond_signal(&sync->wake);
    while (!sync->ended && pthread_cond_timedwait(&sync->wake, &sync->lock, &until) == 0)
        ;
    bool ended = sync->ended;
    (void)pthread_mutex_unlock(&sync->lock);
    if (!ended) {
        (void)pthread_detach(sync->thread); /* it holds `sync`; both go when the process does */
        return NULL;
    }
    (void)pthread_join(sync->thread, NULL);
    sync_free(sync);
    return NULL;
}
