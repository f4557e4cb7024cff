/* SPDX-License-Identifier: MIT */
/*
 * release.h - take the pages of one range out of this process: paged out where the kernel does that for this user, dropped from the page table where nothing can be
 * lost by it, else left. Only pages of files; never a private copy (pagemap says which pages are one), never anonymous memory.
 */
#pragma once

#include "window/book.h"
#include "window/lock.h"
#include "window/protocol.h"

#include <stdint.h>

struct window_release {
    int maps_fd, pagemap_fd; /* /proc/self/maps, /proc/self/pagemap */
    uint64_t page;
    struct window_lock *lock;
    const struct window_book *book;
};

struct window_released {
    uint64_t released; /* bytes of the range that this process does not map any more, or did not */
    int error;         /* errno of the first that failed */
    enum uma_window_refusal refusal;
};

/* A range as it came: nothing about it is trusted. */
void window_release_range(const struct window_release *release, struct uma_window_range range, struct window_released *ret_released);
