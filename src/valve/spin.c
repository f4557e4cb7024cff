/* SPDX-License-Identifier: MIT */
#include "valve/spin.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 200, PAUSE_NS = 50000, PATIENCE = 4000 /* pauses: 0.2 s and more */ };

static bool try(struct uma_valve_spin *lock) {
    unsigned free = 0;
    return atomic_compare_exchange_weak_explicit(&lock->held, &free, 1, memory_order_acquire, memory_order_relaxed);
}

bool uma_valve_spin_lock(struct uma_valve_spin *lock) {
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(&lock->held, memory_order_relaxed) == 0 && try(lock))
            return true;
    for (int i = 0; i < PATIENCE; i++) {
        /* the bare call: libc's is a place where a thread may be cancelled, and the program's call was none */
        struct timespec t = { .tv_nsec = PAUSE_NS };
        (void)syscall(SYS_nanosleep, &t, NULL);
        if (try(lock))
            return true;
    }
    return false;
}
