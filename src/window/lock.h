/* SPDX-License-Identifier: MIT */
/*
 * lock.h - the lock between a program's own calls that change mappings and the helper thread that drops pages. The program's side holds it for the few instructions
 * that change the book, and may find itself interrupted by a signal handler that does the same, or die in between by a cancellation: neither may ever make the
 * program wait for itself. In both cases the book is no longer to be trusted, which costs nothing but the dropping.
 *
 * No system call on the free path; nothing but nanosleep(2) on the other. All zeros is a free lock.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct window_lock {
    _Atomic unsigned held;   /* enum window_holder */
    _Atomic unsigned spoilt; /* the book may be half changed: nothing in it counts any more */
};

enum window_holder { WINDOW_NOBODY, WINDOW_PROGRAM, WINDOW_HELPER };

/*
 * false: the lock was not taken, because this very thread holds it (a signal handler) or whoever of the program holds it has not moved for 0.2 s and more (a thread
 * that was cancelled): the lock is marked spoilt, and the caller goes on without touching the book. The helper's holding is always waited for: it ends.
 */
bool window_lock_by_program(struct window_lock *lock);
/* false: spoilt, or the program did not let go: do nothing. */
bool window_lock_by_helper(struct window_lock *lock);
void window_unlock(struct window_lock *lock);
