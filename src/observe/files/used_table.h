/* SPDX-License-Identifier: MIT */
/*
 * used_table.h - files and who uses them, while they are gathered: each file once however many processes, names and views it has, with the best way to
 * open it that was seen. Pure; bounded.
 */
#pragma once

#include "base/arena.h"
#include "observe/files/process_files.h"
#include "observe/intern.h"

#include <stdbool.h>
#include <stdint.h>

/* Ways to a file, the worse first: a better one takes the place of what was known. */
enum uma_used_way {
    UMA_USED_BY_NUMBERS, /* not looked at: what maps and fdinfo say */
    UMA_USED_BY_MAPPING, /* /proc/PID/map_files, which needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN */
    UMA_USED_BY_OPEN,    /* /proc/PID/fd */
    UMA_USED_BY_VIEW,    /* its name, through /proc/PID/root */
    UMA_USED_BY_NAME,    /* its name here */
};

struct uma_used_table {
    struct uma_arena *arena; /* of the results; keys too */
    struct uma_intern keys;
    struct uma_used_item *items;
    size_t n, capacity;
    struct uma_used_pair *pairs;
    size_t n_pairs, pairs_capacity;
    bool cut;
};
/* One file and one process. 5,000 processes with 100 files each are an eighth of it. */
#define UMA_USED_PAIRS_MAX (4u * 1024 * 1024)

void uma_used_table_done(struct uma_used_table *table);
/*
 * The number of the file that `device` and `inode` tell from others; these two are not those of `file` where the kernel gave none. The first, and any way better than that known, puts `file` (all but its lists of processes; texts are
 * copied) there. -1: no room, and `cut` is set.
 */
int32_t uma_used_table_put(struct uma_used_table *table, uint64_t device, uint64_t inode, const struct uma_used_file *file,
                           enum uma_used_way way);
/* Processes come in ascending order. */
void uma_used_table_use(struct uma_used_table *table, int32_t number, int32_t pid, bool mapped);
/* -ENOMEM. */
int uma_used_table_finish(struct uma_used_table *table, struct uma_used_files *ret_files);
