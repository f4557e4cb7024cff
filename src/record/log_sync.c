/* SPDX-License-Identifier: MIT */
#include "record/log_sync.h"

#include "base/cleanup.h"
#include "base/thread.h"
#include "base/units.h"

#include <fcntl.h>
#include <stdbool.h>

/* For what is being written when the job ends. */
#define STOP_NS UMA_SECOND_NS

struct uma_log_sync {
    struct uma_thread thread;
    unsigned n;
    int fds[UMA_LOG_SYNC_MAX];
};

static void keep(void *userdata) {
    struct uma_log_sync *sync = userdata;
    for (bool more = true; more;) {
        more = uma_thread_pause(&sync->thread, uma_monotonic_ns() + (int64_t)(UMA_LOG_SYNC_SECONDS * 1e9));
        for (unsigned i = 0; i < sync->n; i++)
            (void)fdatasync(sync->fds[i]); /* EINVAL for a pipe or a terminal: nothing to keep */
    }
}

static void sync_free(struct uma_log_sync *sync) {
    for (unsigned i = 0; i < sync->n; i++)
        (void)close(sync->fds[i]);
    free(sync);
}

struct uma_log_sync *uma_log_sync_start(const int *fds, unsigned n) {
    struct uma_log_sync *sync = calloc(1, sizeof(*sync));
    if (!sync)
        return NULL;
    for (unsigned i = 0; i < n && sync->n < UMA_LOG_SYNC_MAX; i++) {
        int copy = fds[i] >= 0 ? fcntl(fds[i], F_DUPFD_CLOEXEC, 3) : -1;
        if (copy >= 0)
            sync->fds[sync->n++] = copy;
    }
    if (sync->n == 0 || uma_thread_start(&sync->thread, keep, sync) < 0) {
        sync_free(sync);
        return NULL;
    }
    return sync;
}

struct uma_log_sync *uma_log_sync_stop(struct uma_log_sync *sync) {
    if (sync && uma_thread_stop(&sync->thread, STOP_NS))
        sync_free(sync); /* otherwise the thread holds it, and both go when the process does */
    return NULL;
}
