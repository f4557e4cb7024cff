/* SPDX-License-Identifier: MIT */
/*
 * file_ids.h - files by device and inode, each with a number of the caller's, so that one that is found under several names is known again: 24 bytes a file, and
 * as much again free.
 */
#pragma once

#include <stdint.h>

struct uma_file_ids;
/* NULL when out of memory. */
struct uma_file_ids *uma_file_ids_new(void);
struct uma_file_ids *uma_file_ids_free(struct uma_file_ids *ids);
/* 1: was not there, and is now with this value; 0: was there, with the value that it had; -ENOMEM. */
int uma_file_ids_add(struct uma_file_ids *ids, uint64_t device, uint64_t inode, uint32_t value);
/* Its value, which may be changed; good until the next file is added. NULL: not there. */
uint32_t *uma_file_ids_find(struct uma_file_ids *ids, uint64_t device, uint64_t inode);
