/* SPDX-License-Identifier: MIT */
/* seen.h - a set of files by device and inode, so that one that is found under two names is counted once: 16 bytes a file, and as much again free. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct uma_seen;
/* NULL when out of memory. */
struct uma_seen *uma_seen_new(void);
struct uma_seen *uma_seen_free(struct uma_seen *seen);
/* 1: was not there, 0: was there, -ENOMEM. */
int uma_seen_add(struct uma_seen *seen, uint64_t device, uint64_t inode);
