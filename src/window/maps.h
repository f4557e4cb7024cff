/* SPDX-License-Identifier: MIT */
/*
 * maps.h - what the kernel says of a range of this process' addresses (/proc/self/maps): the check on what the helper remembers. Reads with a fixed buffer; allocates
 * nothing. A line that is not understood, or a range that is not all one kind, is told as such: the caller then does less, never more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct window_area {
    uint64_t start, end;
    uint64_t offset;
    bool readable, writable, shared;
    bool file; /* it has an inode: neither anonymous memory nor one of the kernel's own mappings */
};

/* One line, without its newline or cut off behind the inode. false: not such a line. Pure. */
bool window_maps_line(const char *line, size_t length, struct window_area *ret_area);
/* The area at `address`, or the first above it; false: none, or it cannot be read. `fd` is of a maps file and is read from its beginning. */
bool window_maps_area(int fd, uint64_t address, struct window_area *ret_area);
