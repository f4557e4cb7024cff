/* SPDX-License-Identifier: MIT */
/*
 * follow_decide.h - which parts of a loading job's weight files have been copied and may leave memory, and which of them first. A function of what was seen (this
 * part of that file has become present) and of the clock that it is given: a recorded history can be replayed. Touches nothing of the machine.
 *
 * Files are cut into chunks. A chunk is untouched, then held (some of it was seen read), then evicted; bytes that are seen in it after it was
 * evicted and that no longer fit into it were read a second time. What was never seen read is never chosen.
 *
 * Of a file that is only read, not mapped, nothing but the count of bytes tells: pages that come back may have been read ahead and evicted before the job came to them,
 * or by somebody else. They are a cost then, and no sign that the file is used where it lies, until more was asked for than it has.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uma_follow_file;

struct uma_follow_chunk {
    struct uma_follow_file *file;
    struct uma_follow_chunk *older, *newer; /* by when it last grew; only while listed */
    int64_t retry_ns;                       /* stuck: not to be tried before */
    uint32_t held;                          /* bytes seen read since it was last evicted */
    uint32_t low, high;                     /* where in it */
    uint32_t left;                          /* bytes that stayed when it was last evicted, too few to be worth another try */
    uint32_t pass, read; /* bytes read: in this pass over the file, at most its length for each reader; distinct ones, ever */
    uint32_t arrived;    /* the look that found it in memory since it was last evicted; 0: none (follow_arrivals.h) */
    uint8_t failures;    /* evictions that left most of it where it was */
    bool listed, evicted;
};

struct uma_follow_file {
    uint64_t size;
    size_t n_chunks;
    struct uma_follow_chunk *chunks;
    uint64_t held, read;               /* sums of its chunks */
    uint64_t evicted, again;           /* ever */
    uint64_t pass_evicted, pass_again; /* in this pass: since it was last opened or mapped anew */
    uint64_t asked;                    /* bytes that reads of it asked for in this pass: uma_follow_asked() */
    bool by_count;                     /* told by the caller: nobody maps it, so what is read of it is known by that count alone */
    unsigned readers;                  /* processes that read it in this pass, told by the caller: each may read each byte once; 0: one */
    uint64_t stuck;                    /* bytes that would not leave and are not tried any more */
    uint32_t looks;                    /* at what of it is in memory: follow_arrivals.h */
    size_t front;                      /* the chunk that grew last */
    int64_t moved_ns;                  /* when it last grew */
    bool in_place;                     /* used where it lies: left alone */
    bool in_use;                       /* open or mapped; told by the caller */
};

struct uma_follow_window {
    uint64_t limit; /* bytes that may be held; UINT64_MAX: no limit */
    uint64_t now;   /* the same under pressure: between a quarter of the limit and all of it */
    uint32_t chunk; /* bytes, a power of two */
    uint64_t held;  /* of listed chunks */
    struct uma_follow_chunk *oldest, *newest;
};

/*
 * 2 MiB chunks: no folio of the page cache is larger (with 4 KiB pages), so eviction by chunks cuts none, and a 99 GB model has 47,000 of them. Windows below 32 MiB
 * are cut into at least 16 chunks of at least 64 KiB, which is what a fault maps around itself (fault_around_bytes).
 */
#define UMA_FOLLOW_CHUNK_MOST (UINT32_C(2) << 20)
#define UMA_FOLLOW_CHUNK_LEAST (UINT32_C(64) << 10)
/* `limit` 0: none. */
void uma_follow_window_begin(struct uma_follow_window *window, uint64_t limit);

/* A file of `size` bytes, at most UMA_FOLLOW_FILE_MAX. -EFBIG, -ENOMEM. */
#define UMA_FOLLOW_FILE_MAX (UINT64_C(1) << 44) /* 16 TiB: 8 million chunks */
int uma_follow_file_new(const struct uma_follow_window *window, uint64_t size, struct uma_follow_file **ret_file, struct uma_error *err);
/* Takes its chunks off the list. */
struct uma_follow_file *uma_follow_file_free(struct uma_follow_window *window, struct uma_follow_file *file);
uint32_t uma_follow_chunk_length(const struct uma_follow_window *window, const struct uma_follow_file *file, size_t index);

/* Bytes of it that may still be read for a first time in this pass, by each of its readers. */
uint64_t uma_follow_unread(const struct uma_follow_window *window, const struct uma_follow_file *file, size_t index);
/*
 * In chunk `index`, `bytes` between `low` and `high` are there and were read by the job. Less than was held says nothing: pages that are
 * unmapped after they were copied are in memory still. Returns the bytes that are new.
 */
uint32_t uma_follow_saw(struct uma_follow_window *window, struct uma_follow_file *file, size_t index, uint32_t bytes, uint32_t low,
                        uint32_t high, int64_t now_ns);
/*
 * A process that has these files open asked for `bytes` with read(2) or its kin, of which it is not known from which: from any that was not read once by now, as far as
 * that goes, and from all by their sizes for the rest. So no file has more than it has bytes before all of them have.
 */
void uma_follow_asked(struct uma_follow_file *const *files, size_t n, uint64_t bytes);
/* The file was opened or mapped again after nobody had it: a new pass over it, which says nothing about whether one pass reads twice. */
void uma_follow_pass(struct uma_follow_window *window, struct uma_follow_file *file);
/* It is closed and unmapped, or loading is over: what was stuck is tried again. */
void uma_follow_closed(struct uma_follow_window *window, struct uma_follow_file *file);

/*
 * The bytes to get down to, so that what is read until the next look (as much as until this one, and half as much again) still fits: at least half of
 * the window is kept.
 */
uint64_t uma_follow_target(const struct uma_follow_window *window, uint64_t grown);
/* MemFree is too low, or not any more: the window halves down to a quarter, and comes back by eighths. */
void uma_follow_press(struct uma_follow_window *window, bool pressed);

/* The oldest chunks, until what stays held is at most `target`; at most `max`. Those that are stuck and not yet due are passed over. */
size_t uma_follow_choose(const struct uma_follow_window *window, uint64_t target, int64_t now_ns, struct uma_follow_chunk **ret_chunks,
                         size_t max);
/*
 * What came of it: `left` bytes of the chunk are still there. More than an eighth: stuck, tried again after 1, 2 and 4 s and then not any more (two processes
 * map it, it is locked or dirty); less are the ends of folios that reach into the next chunk and go with that.
 */
void uma_follow_evicted(struct uma_follow_window *window, struct uma_follow_chunk *chunk, uint32_t left, int64_t now_ns);
/* It cannot be evicted by any means that there is. */
void uma_follow_give_up(struct uma_follow_window *window, struct uma_follow_chunk *chunk);
