/* SPDX-License-Identifier: MIT */
/*
 * gather.h - one reading of the page cache while it is made: what page_cache.c (order, walks, the end) and gather_used.c (files of processes) share. Each way
 * to a file ends in uma_gather_file(), which measures it once. Opens files, reads nothing of them.
 */
#pragma once

#include "observe/files/cached_table.h"
#include "observe/files/overlay_layer.h"
#include "observe/files/page_cache.h"

struct uma_gather {
    struct uma_root *root;
    const struct uma_page_cache_request *request;
    const struct uma_snapshot *snapshot;
    struct uma_arena *scratch; /* lives as long as the reading */
    struct uma_mounts mounts;  /* this process's */
    struct uma_overlay_layers *layers;
    struct uma_cached_table *table;
    struct uma_page_cache_counts counts;
    int64_t deadline_ns, next_progress_ns;
    bool stopped;       /* by progress() */
    bool cut;           /* something was left out: */
    const char *cut_by; /* the first reason of it, static; NULL: none, or stopped */
    uint64_t untouched; /* files in use on file systems that may not answer */
    uint64_t devices_denied;
};

/* One way to a file. */
struct uma_gather_way {
    const char *path, *shown, *container;
    const struct uma_mount *mount; /* in the view of `in_view`; NULL: not known */
    const char *in_view;           /* the path in the view that `mount` is of, without links; NULL: it has none */
    enum uma_filesystem_kind kind;
    bool deleted;
    bool better; /* `path` is a plain one: take it where the file was found by a door in /proc before */
};

/*
 * Measure it unless it was seen before. `fd`: open, or -errno why it is not, or UMA_GATHER_UNOPENED, when `open_it` is asked for it once it is known to be new; it
 * stays the caller's. 0 or -ENOMEM.
 */
#define UMA_GATHER_UNOPENED INT32_MIN
struct uma_gather_opener {
    int (*open)(const void *userdata); /* a descriptor or -errno */
    const void *userdata;
};
int uma_gather_file(struct uma_gather *gather, const struct uma_gather_way *way, int fd, const struct stat *st,
                    const struct uma_gather_opener *opener, const struct uma_cached_users *users);
/* Something is left out, for this reason: static text. */
void uma_gather_cut(struct uma_gather *gather, const char *reason);
/* As that, where a reading below ended early: because the time was over, or else for this reason. */
void uma_gather_cut_or_late(struct uma_gather *gather, const char *reason);
/* Time to go on? Tells the caller's progress(), at most ten times a second. */
bool uma_gather_goes_on(struct uma_gather *gather, const char *at);
/* Name, else id, of the container that a process is in; NULL: none, or not known. */
const char *uma_gather_container(const struct uma_gather *gather, int32_t pid);

/* Files that processes have open or mapped. */
int uma_gather_used(struct uma_gather *gather, struct uma_error *err);
