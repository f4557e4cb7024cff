/* SPDX-License-Identifier: MIT */
/*
 * trail.h - every decision, written before it is acted on, and every receipt after it: fixed records with a checksum in a preallocated ring file (4 MiB; about 4,000 records), fdatasync(2) after
 * each decision, so that a machine that froze a second later still tells why. The sync is done by a second thread: the guard waits for it at most UMA_GUARD_TRAIL_WAIT before it acts, because a disk that
 * hangs must not keep it from acting. No allocation after opening.
 */
#pragma once

#include "guard/decide.h"

#include <pthread.h>

enum { UMA_GUARD_TRAIL_RECORDS = 4096, UMA_GUARD_RECEIPT_TEXT = 96 };
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
/* `folder` NULL or not writable: a trail that only counts (told in *ret_note, a static text), so that the guard runs. Never NULL but for want of memory. */
struct uma_guard_trail *uma_guard_trail_open(const char *folder, const char **ret_note);
void uma_guard_trail_close(struct uma_guard_trail *trail);
/* Numbered, stamped, checksummed, written with pwrite(2), and synced as above when `wait`. 0; -errno: it could not be written (counted; the guard acts all the same). */
int uma_guard_trail_write(struct uma_guard_trail *trail, struct uma_guard_trail_record *record, bool wait);

/* For readers (umactl guard history, status): valid records in order of time, the last `max`, allocated; others are counted in *ret_bad. -errno. */
int uma_guard_trail_read(const char *path, size_t max, struct uma_guard_trail_record **ret_list, size_t *ret_n, size_t *ret_bad);
