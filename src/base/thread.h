/* SPDX-License-Identifier: MIT */
/*
 * thread.h - a thread beside the program's own, which is asked to stop and waited for only so long: what hangs in a driver or on a disk never holds a job's status back.
 * It blocks every signal: signals are for the thread that the program chose.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct uma_thread {
    pthread_t id;
    pthread_mutex_t lock; /* for what its owner and it share, too */
    pthread_cond_t wake;
    void (*work)(void *userdata);
    void *userdata;
    bool stop, ended; /* under the lock */
};

/* `thread` stays where it is for as long as the thread runs. 0, or -errno of pthread_create(3): then there is nothing to stop. */
int uma_thread_start(struct uma_thread *thread, void (*work)(void *userdata), void *userdata);

/* For the thread itself: until `until_ns` (uma_monotonic_ns()), or it is to stop. False: it is to stop. */
bool uma_thread_pause(struct uma_thread *thread, int64_t until_ns);

/* Has `work` returned? All that it wrote is then seen. */
bool uma_thread_ended(struct uma_thread *thread);

/*
 * Ask it to stop, and wait so long. True: it has ended, and `thread` can go. False: it has not, and goes on alone until it does: `thread`, and all that `work`
 * uses, stay.
 */
bool uma_thread_stop(struct uma_thread *thread, int64_t wait_ns);

/* Wait until it has ended, however long that takes; it is not asked to. */
void uma_thread_join(struct uma_thread *thread);
