/* SPDX-License-Identifier: MIT */
/*
 * follow.h - keep the page cache of a loading job's weight files below a window: what the job has already copied leaves memory behind it. Follows mappings (pagemap)
 * and reads (fdinfo, residency) of a process and its descendants from outside; the decision is pure (follow_decide.h). Ends by itself when loading is over.
 *
 * What it never does: it never evicts a part that it knows was not read yet (unless MemFree is below `keep_free` and nothing else is left; of pread(2) only the number
 * of bytes is known, and which they were is guessed: follow_arrivals.h), never drops pages of a private writable mapping, never stops or changes the job, and gives
 * up on files that the job reads again and again (weights used in place).
 */
#pragma once

#include "base/error.h"
#include "uma.h"

#include <stdbool.h>
#include <sys/types.h>

/* The smallest window and the least memory to keep free: the kernel reads ahead as much (read_ahead_kb, 128 KiB to some MiB), and in less it would be evicted
 * before it is copied. */
#define UMA_FOLLOW_LEAST (UINT64_C(4) << 20)
/* A size of one of the two, as a user writes it. -EINVAL: no size, or too little. */
int uma_follow_size_parse(const char *s, uint64_t *ret_bytes, struct uma_error *err);

enum uma_follow_means {
    UMA_FOLLOW_FADVISE = 1 << 0,         /* pages that are not mapped: reads */
    UMA_FOLLOW_PROCESS_MADVISE = 1 << 1, /* mapped pages, from outside */
    UMA_FOLLOW_HELPER = 1 << 2,          /* mapped pages, by the preloaded helper inside the job */
};

/*
 * Helpers inside a job (src/window/protocol.h) look for their socket when they start, so it is there before the job is: listen, put the path into the job's
 * environment (UMA_WINDOW_VARIABLE), start the job, follow it with `helpers` set, close. A helper may connect before anybody follows: its
 * connection waits. Closing removes the socket; helpers then go on alone. Nothing but a socket "helpers" is made in the folder, which the
 * caller makes (mode 0700, the job's user's) and removes.
 */
struct uma_follow_helpers;
int uma_follow_helpers_listen(const char *folder, struct uma_follow_helpers **ret_helpers, struct uma_error *err);
const char *uma_follow_helpers_path(const struct uma_follow_helpers *helpers); /* of the socket; lives as long as helpers */
struct uma_follow_helpers *uma_follow_helpers_close(struct uma_follow_helpers *helpers);

struct uma_follow_options {
    pid_t pid;                          /* the job; its descendants are followed too */
    uint64_t window;                    /* bytes, 0: no window (then keep_free must be set) */
    uint64_t keep_free;                 /* bytes of MemFree, 0: no such rule */
    struct uma_follow_helpers *helpers; /* of this job, listening since before it was started; NULL: none */
    const char *const *
        paths; /* only these weight files and trees; none: whatever looks like weights, and files of 64 MiB and more that are read from the beginning */
    size_t n_paths;
    bool (*stop)(void *userdata);                   /* asked at every tick: end now, with a report; NULL */
    void (*tell)(void *userdata, const char *text); /* one line, something a person should know (a right that is missing); NULL */
    void (*waiting)(void *userdata); /* once, when two seconds have gone by and the job has opened no weight file yet; NULL */
    void *userdata;
};

enum uma_follow_end {
    UMA_FOLLOW_LOADED,   /* every weight file read, nothing new: loading is over */
    UMA_FOLLOW_IDLE,     /* files are partly read and nothing has moved for long */
    UMA_FOLLOW_IN_PLACE, /* the job reads its weights again and again: they are in use, not copied */
    UMA_FOLLOW_EXITED,   /* the job ended */
    UMA_FOLLOW_STOPPED,  /* stop() */
    UMA_FOLLOW_NOTHING,  /* no weight file was ever opened */
    UMA_FOLLOW_ENDS
};

struct uma_follow_report {
    enum uma_follow_end end;
    double seconds;
    uint64_t files, file_bytes;                  /* weight files seen, their sizes */
    uint64_t read_bytes;                         /* distinct bytes of them that the job read (mapped or by read), as far as can be seen */
    uint64_t evicted_bytes, evicted_again_bytes; /* the second: pages that the job read again after they were evicted */
    struct uma_u64 peak_with;    /* highest (anonymous + shared memory of the job + its weights' page cache) that was measured */
    struct uma_u64 peak_without; /* highest of the same had every byte read stayed: an estimate from the same run */
    struct uma_u64 cache_peak;   /* highest page cache of its weight files */
    struct uma_u64 lowest_free;  /* MemFree */
    uint64_t kept_free_bytes;    /* evicted from other models' files by keep_free */
    unsigned means;              /* enum uma_follow_means that were used */
    char note[256];              /* what could not be done and why, or "" */
};

/* Blocks until the end. -ESRCH: no such process; -EINVAL: it is this one, or a thread of the kernel, which load nothing. Call it in a thread with all signals blocked, or alone. */
int uma_follow(const struct uma_follow_options *options, struct uma_follow_report *ret_report, struct uma_error *err);
const char *uma_follow_end_name(enum uma_follow_end end); /* "loaded" */
