/* SPDX-License-Identifier: MIT */
/*
 * busy.h - does a job train or load right now, so that dropping everybody's cache would make it read everything again? The judgement is a pure
 * function of the holders and of two readings of the processes that have files of weights open or mapped.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

/* A process that has files of weights open or mapped, looked at twice. */
struct uma_weight_reader {
    int32_t pid;
    const char *name; /* or NULL */
    uint64_t weights; /* sizes of those files */
    /* rchar and read_bytes of /proc/PID/io: bytes of read(2) and alike, and from storage, also by mappings, O_DIRECT and io_uring; RssFile: pages of files
     * that it has mapped */
    struct uma_weight_progress {
        struct uma_u64 read, storage, mapped;
    } before, after;
};

enum uma_busy { UMA_BUSY_NOT, UMA_BUSY_TRAINS, UMA_BUSY_LOADS };
struct uma_busy_job {
    enum uma_busy busy;
    int32_t pid;
    const char *name, *kind;   /* kind: of a holder, or NULL */
    uint64_t bytes_per_second; /* loads */
};

/*
 * Does a job train (a holder whose role that is), or load: does a reader get weights at UMA_LOADING_BYTES a second or more? Slower than any storage that
 * models are loaded from, and far above what a server reads from its sockets for tokens. A training job is named before a loading one. Pure.
 */
#define UMA_LOADING_BYTES (UINT64_C(8) << 20)
struct uma_busy_job uma_busy_judge(const struct uma_holder *holders, size_t n_holders, const struct uma_weight_reader *readers,
                                   size_t n_readers, double seconds);

/* Look for readers of weights, twice, `seconds` apart; *ret_seconds: the time it really was. Processes that ended in between are left out. */
int uma_weight_readers_watch(struct uma_root *root, const struct uma_processes *processes, double seconds, struct uma_arena *arena,
                             size_t *ret_n, struct uma_weight_reader **ret_readers, double *ret_seconds, struct uma_error *err);
