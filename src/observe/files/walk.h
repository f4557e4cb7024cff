/* SPDX-License-Identifier: MIT */
/*
 * walk.h - every file below a folder, without following any link, so that nothing outside the tree is ever reached, whoever changes it meanwhile. Folders are opened
 * by name under the folder that held them (O_NOFOLLOW); what vanishes is counted; depth, number and time are bounded; memory does not grow with the
 * number of files, only with depth.
 */
#pragma once

#include "base/error.h"
#include "observe/files/mounts.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct uma_walk_entry {
    int folder;       /* open; with `name` it reaches the file: openat(folder, name, O_NOFOLLOW|...) */
    const char *name; /* "" when the path given is itself a file: `folder` is that file then (O_PATH) */
    const char *path; /* the path given, and the rest */
    const struct stat *st;
};

struct uma_walk {
    const struct uma_mounts
        *mounts; /* NULL: all is local. Mounts below that are network, FUSE or pseudo are not entered unless the path given lies on one */
    bool one_filesystem;                                             /* do not leave the path's own device */
    int64_t deadline_ns;                                             /* CLOCK_MONOTONIC, 0: none */
    uint64_t entries_max;                                            /* 0: none */
    int (*each)(void *userdata, const struct uma_walk_entry *entry); /* regular files only; non-zero stops the walk and is returned */
    bool (*stop)(void *userdata);                                    /* asked at least every 1,024 entries; NULL */
    void *userdata;
};

struct uma_walk_counts {
    uint64_t folders, files, links_inside, links_outside, vanished, denied, mounts_skipped;
    bool cut;            /* the time, the number or the depth ran out, or stop() said so */
    char denied_at[256]; /* the first that could not be read */
};

/*
 * `path` may be a file or a folder, and may itself be a link: whoever gives it names what it leads to. 0, the callback's non-zero, or -errno when the path itself
 * cannot be opened. Counts are added to *counts.
 */
int uma_walk(const struct uma_walk *walk, const char *path, struct uma_walk_counts *counts, struct uma_error *err);
