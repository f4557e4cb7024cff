/* SPDX-License-Identifier: MIT */
/*
 * spin.h - a lock that is held for some ten nanoseconds, in somebody else's program: it never makes the program wait for itself. Whoever cannot have it for 0.2 s (the holder
 * was cancelled, or is this very thread, in whose middle a signal came) is told so and goes on without. All zeros is a free lock. No system call on the free path.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct uma_valve_spin {
    _Atomic unsigned held;
};

bool uma_valve_spin_lock(struct uma_valve_spin *lock);
static inline void uma_valve_spin_unlock(struct uma_valve_spin *lock) {
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}
