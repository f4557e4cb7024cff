/* SPDX-License-Identifier: MIT */
/*
 * write_behind.h - pieces of a file, written and synced by a second thread, so that neither a hanging disk nor the reclaim of memory that a write may have to wait for keeps the guard from acting. The guard copies a piece into one of
 * a few places and goes on; where all are taken the piece is lost, and counted. No allocation after opening. One thread puts and waits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What has come of all that was to be kept. */
struct uma_guard_kept {
    bool open;        /* false: there is no file, everything is lost */
    int error;        /* the newest failure, an errno; 0: none */
    uint64_t waiting; /* pieces that are not on disk yet */
    uint64_t written; /* that are */
    uint64_t failed;  /* that could not be written or synced */
    uint64_t lost;    /* for which no place was free, or no file there */
    uint64_t late;    /* that were waited for and were not on disk in time */
};

struct uma_guard_write_behind;

/* `places` pieces of at most `size` bytes. Owns `fd` from here on, also when it fails: NULL, for want of memory or of a thread. */
struct uma_guard_write_behind *uma_guard_write_behind_open(int fd, size_t size, size_t places);
/* What is waiting is written first, but for no longer than `wait_ns`: then the thread is left to itself, with all that it uses. NULL: nothing. */
void uma_guard_write_behind_close(struct uma_guard_write_behind *writer, int64_t wait_ns);

/* A piece that waits for the same place of the file is replaced. 0; -EAGAIN: no place is free. *ret_ticket is for the wait below. */
int uma_guard_write_behind_put(struct uma_guard_write_behind *writer, uint64_t offset, const void *data, size_t length,
                               uint64_t *ret_ticket);
/* Until the piece of that ticket, the newest, is on disk. 0; -ETIMEDOUT; -errno of the write. */
int uma_guard_write_behind_wait(struct uma_guard_write_behind *writer, uint64_t ticket, int64_t wait_ns);

void uma_guard_write_behind_kept(struct uma_guard_write_behind *writer, struct uma_guard_kept *ret_kept);
