/* SPDX-License-Identifier: MIT */
/*
 * used_lookup.h - which file a descriptor or a mapping is, and how it is best reached from here. Each name of each view is looked at once; what may hang, or is
 * not known not to, is never touched: it is put down by the numbers that the kernel gave.
 */
#pragma once

#include "base/arena.h"
#include "base/text.h"
#include "observe/files/file_view.h"
#include "observe/files/maps.h"
#include "observe/files/used_table.h"
#include "observe/intern.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    UMA_USED_NOT_A_FILE = -1, /* not a regular file, or nothing that page cache is about; or the table has no room (table.cut) */
    UMA_USED_GONE = -2,       /* closed, unmapped or ended meanwhile */
};

struct uma_used_lookup {
    struct uma_file_views views;
    struct uma_used_table table;
    int32_t shm_mount; /* the kernel's own tmpfs, of memfds and System V shared memory; -1 unknown */
    dev_t shm_device;
    /* the process that is being read */
    int32_t pid; /* or of one of its threads, when the first thread has ended */
    int folder;  /* /proc/PID, open */
    int view;    /* its number */
    /* what was looked up before */
    struct uma_arena *keys;
    struct uma_intern known; /* (view, mount or device, inode, path) */
    int32_t *known_file;     /* its file's number, or UMA_USED_NOT_A_FILE */
    size_t known_capacity;
    struct uma_text unescaped, path, key, shown; /* of the one that is being looked up */
};

void uma_used_lookup_done(struct uma_used_lookup *lookup);
/* By what /proc shows, before anything is asked: nearly all of a process's descriptors, and never a file with page cache. Pure. */
bool uma_used_is_uninteresting(const char *path);
/* Descriptor `number` of the folder `descriptors` (/proc/PID/fd), which leads to the path `text`. The file's number in the table, or one of the two above. */
int32_t uma_used_lookup_open(struct uma_used_lookup *lookup, int descriptors, const char *number, const char *text,
                             const struct uma_fdinfo *info);
/* A line of maps with its path as there (uma_maps_line). */
int32_t uma_used_lookup_mapping(struct uma_used_lookup *lookup, const struct uma_mapping *mapping, const char *raw, size_t n);
