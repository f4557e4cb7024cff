/* SPDX-License-Identifier: MIT */
/*
 * follow_parts.h - what the files of uma_follow() share: the job's processes (follow_job.c), the weight files that they have (follow_files.c), looking which
 * parts of these are read (follow_look.c), evicting (follow_evict.c), keeping free (follow_free.c). Everything here races with a job that ends,
 * forks and unmaps: what is gone is an end, never an error.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "cache/follow.h"
#include "cache/follow_decide.h"
#include "cache/follow_end.h"
#include "observe/files/maps.h"
#include "observe/files/mounts.h"
#include "observe/files/presence.h"
#include "observe/files/residency.h"

#include <sys/stat.h>

enum {
    UMA_FOLLOW_PROCESSES_MAX = 1024, /* of one job; ranks, data loaders, compilers */
    UMA_FOLLOW_FILES_MAX = 4096,     /* a model of 700 GB in shards of 1 GB has 700 */
    UMA_FOLLOW_VIEWS_MAX = 8192,     /* mappings and descriptors of weight files in one process */
};

/* One mapping of a followed file in one process. */
struct uma_follow_mapping {
    struct uma_followed *file;
    uint64_t start, end, offset;
    uint64_t front; /* in the file: where presence was last seen to grow */
    int64_t moved_ns;
};

/* One descriptor. */
struct uma_follow_descriptor {
    struct uma_followed *file;
    int number;
    bool fresh; /* its position was not looked at yet */
    uint64_t position;
    int64_t moved_ns;
};

/* What is expensive is done again only after fifty times what it cost: `began_ns` is uma_follow_cost_ns(), this thread's own time, before it. */
int64_t uma_follow_cost_ns(void);
struct uma_follow_limiter {
    int64_t due_ns;
};
bool uma_follow_due(const struct uma_follow_limiter *limiter, int64_t now_ns);
void uma_follow_done(struct uma_follow_limiter *limiter, int64_t began_ns, int64_t least_ns);

enum uma_follow_right { UMA_FOLLOW_RIGHT_UNKNOWN, UMA_FOLLOW_RIGHT_YES, UMA_FOLLOW_RIGHT_NO };

struct uma_follow_process {
    pid_t pid;
    int pidfd, statm, io; /* io: -1 where it may not be read */
    bool gone;
    uint64_t size, file_rss, anon, shmem; /* bytes, of the last look */
    uint64_t paged_out;                   /* since then, by us: its file_rss is lower by as much */
    uint64_t rchar;
    uint64_t asked; /* of rchar, what was told of to uma_follow_asked(), or was before there was a file */
    uint64_t unexplained_rss, unexplained_rchar;
    enum uma_follow_right page_out;
    bool blind; /* its page map cannot be opened */
    struct uma_presence presence;
    size_t n_mappings, mappings_room;
    struct uma_follow_mapping *mappings;
    size_t n_descriptors, descriptors_room;
    struct uma_follow_descriptor *descriptors;
    struct uma_follow_limiter maps, fds, sweep;
    int64_t maps_ns, fds_ns, shmem_ns;
    bool had_descriptors; /* at the last look */
    bool fds_fresh;       /* they were read in this tick */
    uint64_t maps_size;   /* size when maps were last read */
};

/* One weight file. */
struct uma_followed {
    int fd;
    struct stat st;
    uint64_t map_inode;
    uint32_t map_major, map_minor; /* as maps name its device: another than st_dev on btrfs and overlay */
    enum uma_filesystem_kind kind;
    char *shown; /* its path as the process sees it */
    bool named;  /* looks like weights, or was asked for: followed wherever reading begins */
    bool owned;  /* this user owns it or may write it: the kernel pages its pages out */
    bool ignored;
    unsigned mapped, opened; /* mappings and descriptors that followed processes have */
    unsigned readers;        /* processes that have it open and read much */
    pid_t reader;            /* the last of them that was counted */
    bool was_used;
    int64_t met_ns, closed_ns;
    struct uma_follow_file *state;
    uint32_t *warm;       /* bitmap: chunks that were resident before the job read them; NULL: residency is not told */
    size_t read_front;    /* next chunk that a cold read is expected in */
    size_t assumed_front; /* next chunk of a warm file that is taken as read, in file order */
    uint64_t assumed;     /* bytes of the next one already attributed */
    struct uma_u64 resident;
    size_t unread_taken;   /* chunks at its end that were taken to keep memory free, read or not */
    uint64_t evicted_then; /* state->evicted when resident was read */
    struct uma_follow_limiter residency, sweep;
};

struct uma_follower {
    const struct uma_follow_options *options;
    struct uma_follow_report report;
    struct uma_follow_window window;
    char **real_paths; /* of options->paths, without links; NULL where there is none */
    struct uma_root *root;
    struct uma_arena *arena; /* of one reading of maps */
    struct uma_mounts mounts;
    struct uma_arena *mounts_arena;
    size_t n_processes;
    struct uma_follow_process *processes;
    size_t n_files;
    struct uma_followed **files;
    int64_t began_ns, now_ns, newest_ns, children_ns, judged_ns;
    uint64_t grown; /* bytes newly seen read in this tick */
    uint64_t free;  /* MemFree */
    int meminfo;
    bool told_rights, told_owner, told_shared, told_waiting;
    int64_t unread_ns;
    struct uma_follow_others *others; /* NULL: not needed yet */
};

void uma_follow_tell(struct uma_follower *f, const char *format, ...) UMA_PRINTF(2, 3);

/* ---- follow_job.c -------------------------------------------------------------------------------------------- */

int uma_follow_job_begin(struct uma_follower *f, struct uma_error *err);
/* New descendants, and those that ended; a few times a second. */
void uma_follow_job_list(struct uma_follower *f);
/* The cheap numbers of every process. Returns whether anything moved that reading moves. */
bool uma_follow_job_read(struct uma_follower *f);
/* The bytes that one of them has read by now. */
bool uma_follow_job_read_io(struct uma_follow_process *process);
bool uma_follow_job_over(const struct uma_follower *f);
void uma_follow_job_end(struct uma_follower *f);

/* ---- follow_files.c ------------------------------------------------------------------------------------------ */

/* Mappings and descriptors of a process, where something hints that they changed. */
void uma_follow_files_refresh(struct uma_follower *f, struct uma_follow_process *process);
/* After all processes: which files are in use, and passes that begin. */
void uma_follow_files_settle(struct uma_follower *f);
void uma_follow_files_end(struct uma_follower *f);
/* fdinfo of one descriptor; false: it is closed. */
bool uma_follow_descriptor_read(const struct uma_follow_process *process, int number, struct uma_fdinfo *ret_info);
bool uma_follow_is_warm(const struct uma_followed *file, size_t chunk);

/* ---- follow_look.c ------------------------------------------------------------------------------------------- */

void uma_follow_look(struct uma_follower *f, struct uma_follow_process *process);
/* Residency of the weight files, each as often as its cost allows; the peaks. */
void uma_follow_measure(struct uma_follower *f);

/* ---- follow_evict.c ------------------------------------------------------------------------------------------ */

/* Until at most `target` bytes of what was read are held. Returns the bytes that left. */
uint64_t uma_follow_evict(struct uma_follower *f, uint64_t target);
/* At the end of loading: what is left of files that were read, unless it is mapped by others. */
void uma_follow_evict_rest(struct uma_follower *f);

/* ---- follow_helpers.c ---------------------------------------------------------------------------------------- */

/* Connections that wait. */
void uma_follow_helpers_accept(struct uma_follow_helpers *helpers);
bool uma_follow_helpers_has(const struct uma_follow_helpers *helpers, pid_t pid);
/* -ENOTCONN: that process has no helper (any more). Else bytes that madvise took. */
ssize_t uma_follow_helpers_page_out(struct uma_follow_helpers *helpers, pid_t pid, const struct uma_address_range *ranges, size_t n);

/* ---- follow_free.c ------------------------------------------------------------------------------------------- */

void uma_follow_keep_free(struct uma_follower *f);
void uma_follow_keep_free_end(struct uma_follower *f);
