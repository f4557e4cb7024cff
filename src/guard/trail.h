/* SPDX-License-Identifier: MIT */
/*
 * trail.h - every decision, written before it is acted on, and every receipt after it: fixed records with a checksum in a preallocated ring file (8 MiB; 4,096 records), synced, so that a machine that froze a
 * second later still tells why. A second thread writes and syncs: the guard waits for it at most UMA_GUARD_TRAIL_WAIT_NS before it acts, because a disk that hangs must not keep it from acting, nor may the page that a write waits for where
 * memory is short. No allocation after opening.
 */
#pragma once

#include "guard/decide.h"
#include "guard/write_behind.h"

enum { UMA_GUARD_TRAIL_RECORDS = 4096, UMA_GUARD_RECEIPT_TEXT = 96 };
/* A record has a place of its own of so many bytes, half a page: one that is cut takes no other with it. The places begin after the page that says what the file is. */
enum { UMA_GUARD_TRAIL_PLACE = 2048, UMA_GUARD_TRAIL_START_OF_RECORDS = 4096 };
#define UMA_GUARD_TRAIL_WAIT_NS 2000000 /* 2 ms: a brake is to be there within 20 ms of its condition */
#define UMA_GUARD_TRAIL_MAGIC 0x3152544d47414d55ull

enum uma_guard_trail_kind {
    UMA_GUARD_TRAIL_NONE,
    UMA_GUARD_TRAIL_START,
    UMA_GUARD_TRAIL_DECISION,
    UMA_GUARD_TRAIL_RECEIPT,
    UMA_GUARD_TRAIL_NOTE
};

struct uma_guard_trail_record {
    uint64_t magic, number;  /* number: 1, 2, ...; its place in the ring is number % UMA_GUARD_TRAIL_RECORDS */
    int64_t real, monotonic; /* nanoseconds */
    uint8_t boot[16];        /* boot id */
    uint32_t kind, dry_run;
    int32_t result;                     /* RECEIPT: 0 or -errno */
    uint32_t n_processes;               /* RECEIPT: that were signalled */
    int64_t took_ns;                    /* RECEIPT: from the reading that showed the condition to the action */
    uint64_t headroom_after;            /* RECEIPT */
    struct uma_guard_decision decision; /* DECISION: whole; RECEIPT: actions[0] and candidates[0] are what was done and to whom */
    char text[UMA_GUARD_RECEIPT_TEXT];  /* NOTE, START: words (ASCII) */
    uint32_t reserved_, checksum;       /* CRC-32 of all before it */
};

struct uma_guard_trail; /* trail.c */
/*
 * `folder` NULL or not writable, or another guard's: a trail that only counts (told in *ret_note, a static text), so that the guard runs. The note is also set where a file of another form was set aside; NULL: nothing to say.
 * Never NULL but for want of memory. Takes some milliseconds.
 */
struct uma_guard_trail *uma_guard_trail_open(const char *folder, const char **ret_note);
/* Waits at most two seconds for what is not written yet. */
void uma_guard_trail_close(struct uma_guard_trail *trail);
/*
 * Numbered, stamped, checksummed, and handed to the thread; `wait`: until it is on disk, for as long as above. 0; -ETIMEDOUT: not on disk yet; -EAGAIN: lost, the disk hangs; -ENODEV: nothing is kept; -errno of the write.
 * All are counted, and the guard acts all the same. Without `wait` a failed write shows in the counts alone.
 */
int uma_guard_trail_write(struct uma_guard_trail *trail, struct uma_guard_trail_record *record, bool wait);
void uma_guard_trail_kept(struct uma_guard_trail *trail, struct uma_guard_kept *ret_kept);

/* For readers (umactl guard history, status): valid records in order of their numbers, the last `max`, allocated; others are counted in *ret_bad. -errno; -EBADMSG: it is no trail. */
int uma_guard_trail_read(const char *path, size_t max, struct uma_guard_trail_record **ret_list, size_t *ret_n, size_t *ret_bad);
/* The same of a trail in memory. Pure but for the allocation. */
int uma_guard_trail_parse(const void *data, size_t length, size_t max, struct uma_guard_trail_record **ret_list, size_t *ret_n,
                          size_t *ret_bad);

/* Is it a record as the writer makes them, of that place (its number modulo UMA_GUARD_TRAIL_RECORDS)? Checks the sum, counts, kinds and terminators, so that it can be used as the struct that it is. Pure. `data` has UMA_GUARD_TRAIL_PLACE bytes. */
bool uma_guard_trail_record_fine(const void *data, size_t place);
/* The first bytes of a trail, which say what it is. */
#define UMA_GUARD_TRAIL_HEAD "umactl guard trail 1"
