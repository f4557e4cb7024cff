/* SPDX-License-Identifier: MIT */
#include "window/lock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS 50000L     /* the helper holds the lock for a piece of some MiB, which takes some hundred microseconds */
#define PATIENCE_TRIES 4000 /* of 50 us and more: the program's side holds it for nanoseconds, so after 0.2 s and more nobody will let go */

/* Does this thread hold it? Storage of the thread, of the kind that needs no allocation in a preloaded library. */
static _Thread_local __attribute__((tls_model("initial-exec"))) volatile bool mine;

/* The bare call: libc's nanosleep(3) is a place where a thread may be cancelled, and the program's call was none. */
static void pause_a_little(void) {
    struct timespec t = { .tv_nsec = PAUSE_NS };
    (void)syscall(SYS_nanosleep, &t, NULL);
}

static bool take(struct window_lock *lock, enum window_holder holder) {
    for (unsigned tries = 0;;) {
        unsigned found = WINDOW_NOBODY;
        if (atomic_compare_exchange_strong(&lock->held, &found, holder))
            return true;
        if (found == WINDOW_PROGRAM && ++tries > PATIENCE_TRIES)
            return false;
        pause_a_little();
    }
}

bool window_lock_by_program(struct window_lock *lock) {
    if (mine || !take(lock, WINDOW_PROGRAM)) {
        atomic_store(&lock->spoilt, 1);
        return false;
    }
    mine = true;
    return true;
}

bool window_lock_by_helper(struct window_lock *lock) {
    if (atomic_load(&lock->spoilt) || !take(lock, WINDOW_HELPER))
        return false;
    if (!atomic_load(&lock->spoilt))
        return true;
    window_unlock(lock);
    return false;
}

void window_unlock(struct window_lock *lock) {
    mine = false;
    atomic_store(&lock->held, WINDOW_NOBODY);
}
