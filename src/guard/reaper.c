/* SPDX-License-Identifier: MIT */
#include "guard/reaper.h"

#include <errno.h>
#include <time.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The thread calls process_mrelease(2), poll(2)-less waits and close(2), nothing deep: 64 KiB is four times the least that is allowed, and what is not touched is not there. */
enum { STACK_BYTES = 65536 };

static void release(int pidfd) {
    /* EAGAIN: the address space was busy (mmap lock); EINVAL right after the signal: not every thread has seen it yet. A few more tries a millisecond apart find most. */
    for (unsigned tries = 0; tries < 20; tries++) {
        const struct timespec pause = { .tv_nsec = 1000000 };
        if (syscall(SYS_process_mrelease, pidfd, 0u) == 0 || (errno != EAGAIN && errno != EINVAL && errno != EINTR))
            return;
        (void)nanosleep(&pause, NULL);
    }
}

static void *work(void *userdata) {
    struct uma_guard_reaper *reaper = userdata;
    (void)pthread_mutex_lock(&reaper->lock);
    for (;;) {
        while (reaper->n == 0 && !reaper->stop)
            (void)pthread_cond_wait(&reaper->wake, &reaper->lock);
        if (reaper->n == 0)
            break;
        int pidfd = reaper->waiting[--reaper->n];
        (void)pthread_mutex_unlock(&reaper->lock);
        release(pidfd);
        (void)close(pidfd);
        (void)pthread_mutex_lock(&reaper->lock);
    }
    (void)pthread_mutex_unlock(&reaper->lock);
    return NULL;
}

int uma_guard_reaper_start(struct uma_guard_reaper *reaper) {
    pthread_attr_t small;
    sigset_t all, before;
    *reaper = (struct uma_guard_reaper){ 0 };
    (void)pthread_mutex_init(&reaper->lock, NULL);
    (void)pthread_cond_init(&reaper->wake, NULL);
    (void)pthread_attr_init(&small);
    (void)pthread_attr_setstacksize(&small, STACK_BYTES);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the loop */
    int r = pthread_create(&reaper->thread, &small, work, reaper);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&small);
    reaper->running = r == 0;
    return -r;
}

void uma_guard_reaper_stop(struct uma_guard_reaper *reaper) {
    if (!reaper->running)
        return;
    (void)pthread_mutex_lock(&reaper->lock);
    while (reaper->n > 0)
        (void)close(reaper->waiting[--reaper->n]);
    reaper->stop = true;
    (void)pthread_cond_signal(&reaper->wake);
    (void)pthread_mutex_unlock(&reaper->lock);
    /* not joined: it may hang in the call, and the process ends with it all the same */
    (void)pthread_detach(reaper->thread);
    reaper->running = false;
}

void uma_guard_reaper_give(struct uma_guard_reaper *reaper, int pidfd) {
    bool taken = false;
    if (reaper->running) {
        (void)pthread_mutex_lock(&reaper->lock); /* held by the thread for an instant only, never in the call */
        if (reaper->n < UMA_GUARD_REAPED_MAX) {
            reaper->waiting[reaper->n++] = pidfd;
            taken = true;
            (void)pthread_cond_signal(&reaper->wake);
        }
        (void)pthread_mutex_unlock(&reaper->lock);
    }
    if (!taken)
        (void)close(pidfd);
}
