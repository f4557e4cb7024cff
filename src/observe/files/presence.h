/* SPDX-License-Identifier: MIT */
/*
 * presence.h - which pages of another process's mappings are there, page by page, and of these only the ones that belong to a file: private copies (anonymous pages
 * of a private writable mapping) are left out, so whoever acts on the answer cannot touch them. The PAGEMAP_SCAN ioctl (6.7) where it may be had, reading
 * /proc/PID/pagemap else. Needs the right to ptrace-read the process; changes nothing.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct uma_address_range {
    uint64_t start, end; /* whole pages */
};

/* One process's page map. It speaks of the program that ran when it was opened: after exec(2) nothing is present in it. */
struct uma_presence {
    int fd;
    bool no_scan; /* the ioctl was refused: the file is read */
};

/* -ESRCH gone, -EACCES not this user's to look at, -ENOENT a kernel without it. */
int uma_presence_open(pid_t pid, struct uma_presence *ret_presence, struct uma_error *err);
void uma_presence_close(struct uma_presence *presence); /* a zeroed or closed one is fine: fd is then 0 or -1 */
/*
 * File pages present in [start, end), as ranges in ascending order that do not touch each other, at most `max`. Returns how many; `*ret_until` is where the looking
 * ended: `end`, or less when there was no more room (go on from there). -ESRCH when the process has ended.
 */
ssize_t uma_presence_read(struct uma_presence *presence, uint64_t start, uint64_t end, struct uma_address_range *ranges, size_t max,
                          uint64_t *ret_until, struct uma_error *err);
