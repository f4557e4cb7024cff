/* SPDX-License-Identifier: MIT */
/*
 * evict.h - take files, trees and listed files out of the page cache one by one, and keep a receipt of what was measured: before, after, what was written
 * out first, what stays and who maps it. A tree's links are never followed; a listed file is evicted only if it still is that file
 * (device and inode). Files that vanish are counted. Files whose pages are the file (tmpfs, memfd) are left alone, and counted.
 */
#pragma once

#include "act/evict_file.h"
#include "base/root.h"
#include "observe/files/walk.h"
#include "uma.h"

struct uma_eviction_options {
    enum uma_evict_dirty dirty;
    bool dry_run;                 /* measure only */
    bool every_file;              /* a receipt for each; else for the largest and for those that were kept */
    uint64_t larger_than;         /* smaller files (apparent size) are left alone; 0: none */
    bool (*stop)(void *userdata); /* NULL */
    /* At most ten times a second; `bytes`: evicted so far, in a dry run those that are in the cache. NULL */
    void (*progress)(void *userdata, uint64_t files, uint64_t bytes, const char *at);
    void *userdata;
};

/* Receipts that are kept without `every_file`: more than any text shows. */
enum { UMA_EVICTION_SHOWN = 1024 };

struct uma_evicted_file {
    char *path, *model; /* model: NULL where it is no model's */
    char *shown;        /* what it is or was called, where `path` is a door in /proc; NULL: path says it */
    bool deleted;       /* no name is left */
    uint64_t device, inode, size;
    struct uma_u64 before, after, evicted;
    struct uma_u64 dirty;   /* that is left */
    struct uma_u64 written; /* that was dirty and was written out first */
    bool synced;
    int error;       /* -errno of writing out or evicting; 0 */
    const char *why; /* static: why residency is unknown; NULL */
    size_t n_mapped_by;
    int32_t *mapped_by; /* of those that were kept, after it */
    size_t n_locked_by;
    int32_t *locked_by; /* of those that map it: who has locked pages of it in memory */
    uint64_t locked;    /* bytes of it that one of them has, the most */
};

struct uma_eviction {
    struct uma_eviction_options options;
    size_t n, capacity;
    struct uma_evicted_file *files;                       /* after uma_eviction_finish(): most resident before first */
    uint64_t folded_files, folded_before, folded_evicted; /* receipts that were not kept, all of files that left wholly */
    /* sums over all files; bytes of those whose residency is known */
    uint64_t n_files, before, evicted, kept, written;
    uint64_t n_unknown, n_failed, n_synced;
    uint64_t n_dirty_unknown;            /* nothing tells whether data of it is still unwritten, and so stays */
    uint64_t memory_files, memory_bytes; /* left alone: they are memory; their sizes */
    uint64_t smaller;                    /* left alone: not larger than asked */
    uint64_t vanished, denied;           /* changed or gone meanwhile; not to be opened */
    struct uma_walk_counts walk;
    char failed_at[256]; /* the first file with an error, and the error */
    char *hub_folder; /* links led out of a path within this folder of one model in a Hugging Face cache, where their files are too; NULL */
    char *hub_model;  /* its name; NULL */
    bool interrupted;
    bool mapped_known;     /* who maps what was kept has been looked up */
    uint64_t users_denied; /* processes whose files this user may not see */
    double seconds;
    /* private */
    struct uma_arena *scratch;
    struct uma_file_ids *seen; /* of no value: which files were met */
    uint64_t kind_device;
    enum uma_filesystem_kind kind;
    int64_t told_ns;
    size_t root_length;                 /* of the path that is walked */
    const char *root_real, *root_shown; /* shown: where it has no path here */
    struct uma_blob_names *blob_names;
};

int uma_eviction_init(struct uma_eviction *ret_eviction, const struct uma_eviction_options *options, struct uma_error *err);
void uma_eviction_done(struct uma_eviction *eviction);

/*
 * A file or a tree; what a link in /proc/PID/fd leads to as well, also where it has no name any more. `mounts`: as for a walk. 0, also when it was interrupted; -errno when the path itself cannot be opened, with nothing done.
 * Errors of single files are in the receipt.
 */
int uma_eviction_path(struct uma_eviction *eviction, const char *path, const struct uma_mounts *mounts, struct uma_error *err);
/* A file of a listing. 0, whatever became of it; -ENOMEM. */
int uma_eviction_listed(struct uma_eviction *eviction, const struct uma_cached_file *file, struct uma_error *err);
/* Sort, and look up once who maps and locks what was kept. */
int uma_eviction_finish(struct uma_eviction *eviction, struct uma_root *root, struct uma_error *err);

/* Why something of it is still there; an OR. Pure. */
enum {
    UMA_KEPT_MAPPED = 1 << 0,
    UMA_KEPT_DIRTY = 1 << 1,  /* not written out: --no-sync, or writing failed */
    UMA_KEPT_LOCKED = 1 << 3, /* locked in memory by a process that maps it (mlock(2)) */
    UMA_KEPT_IN_USE = 1 << 2, /* none of these: read again meanwhile, or mapped by a process that this user cannot look into */
};
unsigned uma_evicted_file_kept(const struct uma_evicted_file *file);
