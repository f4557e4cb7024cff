/* SPDX-License-Identifier: MIT */
/*
 * serve.h - the helper thread: greets umactl and does what it asks until either of them is gone. It has a table of descriptors of its own, so that it neither takes a
 * number that the program counts on nor loses its socket when the program closes everything; all signals are blocked; it ends with the last of
 * the program's own threads.
 */
#pragma once

#include "window/book.h"
#include "window/lock.h"

/* What the program's calls and the thread share. All zeros is a process that has not begun. */
struct window_state {
    struct window_lock lock;
    _Atomic unsigned started;
    struct window_book book;
};

/* Does not return before the end. `path`: of umactl's socket. */
void window_serve(struct window_state *state, const char *path);
