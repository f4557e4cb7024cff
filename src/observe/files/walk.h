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

/* Folders inside one another, the root included; each is an open file while the walk is below it. What is deeper is cut, and said. */
#define UMA_WALK_DEPTH_MAX 128

struct uma_walk_entry {
    int folder;       /* open */
    const char *name; /* in `folder`; "" when the path given is itself a file: `folder` is that file then (O_PATH) */
    const char *path; /* the path given, and the rest; of any length */
    const struct stat *st;
};
/*
 * The entry's file for reading; never waits, follows no link. O_NOATIME where allowed. -ESTALE: its name is another file's by now, or
 * a link's; else -errno.
 */
int uma_walk_open(const struct uma_walk_entry *entry);

struct uma_walk {
    const struct uma_mounts
        *mounts;          /* NULL: all is local. Network, FUSE and pseudo mounts below are not touched, unless of the path's own kind */
    bool one_filesystem;  /* do not leave the path's own device */
    int64_t deadline_ns;  /* CLOCK_MONOTONIC, 0: none */
    uint64_t entries_max; /* names of any type, 0: none */
    int (*each)(void *userdata, const struct uma_walk_entry *entry); /* regular files only; non-zero stops the walk and is returned */
    bool (*stop)(void *userdata);                                    /* asked at least every 1,024 entries; NULL */
    void *userdata;
};

struct uma_walk_counts {
    uint64_t folders, files;
    uint64_t links_inside, links_outside; /* not followed. Inside: they lead to nothing or to what is in the tree */
    uint64_t vanished, denied;            /* denied: also input/output errors */
    uint64_t mounts_skipped;              /* mounts not to be touched, other devices, folders mounted inside themselves */
    bool cut;                             /* the time, the number, the depth or open files ran out, or stop() said so */
    bool too_deep, too_many_open;         /* of these: folders lie deeper than is walked; no more files may be open */
    char denied_at[256];                  /* the first that could not be read */
};

/*
 * `path` may be a file or a folder, and may itself be a link: whoever gives it names what it leads to. 0, the callback's non-zero, or -errno when the path itself
 * cannot be opened (-EINVAL: a device, socket or pipe). Counts are added to *counts. The walk is in no order but the file system's. Thread-safe.
 */
int uma_walk(const struct uma_walk *walk, const char *path, struct uma_walk_counts *counts, struct uma_error *err);
