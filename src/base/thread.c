/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include "base/units.h"

#include <signal.h>
#include <time.h>

static void *run(void *userdata) {
    struct uma_thread *thread = userdata;
    thread->work(thread->userdata);
    (void)pthread_mutex_lock(&thread->lock);
    thread->ended = true;
    (void)pthread_cond_broadcast(&thread->wake);
    (void)pthread_mutex_unlock(&thread->lock);
    return NULL;
}

static void forget(struct uma_thread *thread) {
    (void)pthread_cond_destroy(&thread->wake);
    (void)pthread_mutex_destroy(&thread->lock);
}

int uma_thread_start(struct uma_thread *thread, void (*work)(void *userdata), void *userdata) {
    pthread_condattr_t monotonic;
    sigset_t all, before;
    *thread = (struct uma_thread){ .work = work, .userdata = userdata };
    (void)pthread_mutex_init(&thread->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&thread->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* a thread inherits it */
    int r = pthread_create(&thread->id, NULL, run, thread);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0)
        forget(thread);
    return -r;
}

/* With the lock held: until `*flag`, or then. */
static void wait_for(struct uma_thread *thread, const bool *flag, int64_t until_ns) {
    struct timespec until = { .tv_sec = until_ns / UMA_SECOND_NS, .tv_nsec = until_ns % UMA_SECOND_NS };
    while (!*flag && pthread_cond_timedwait(&thread->wake, &thread->lock, &until) == 0)
        ;
}

bool uma_thread_pause(struct uma_thread *thread, int64_t until_ns) {
    (void)pthread_mutex_lock(&thread->lock);
    wait_for(thread, &thread->stop, until_ns);
    bool stop = thread->stop;
    (void)pthread_mutex_unlock(&thread->lock);
    return !stop;
}

bool uma_thread_ended(struct uma_thread *thread) {
    (void)pthread_mutex_lock(&thread->lock);
    bool ended = thread->ended;
    (void)pthread_mutex_unlock(&thread->lock);
    return ended;
}

bool uma_thread_stop(struct uma_thread *thread, int64_t wait_ns) {
    (void)pthread_mutex_lock(&thread->lock);
    thread->stop = true;
    (void)pthread_cond_broadcast(&thread->wake);
    wait_for(thread, &thread->ended, uma_monotonic_ns() + wait_ns);
    bool ended = thread->ended;
    (void)pthread_mutex_unlock(&thread->lock);
    if (!ended) {
        (void)pthread_detach(thread->id);
        return false;
    }
    uma_thread_join(thread);
    return true;
}

void uma_thread_join(struct uma_thread *thread) {
    (void)pthread_join(thread->id, NULL);
    forget(thread);
}
