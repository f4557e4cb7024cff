/* SPDX-License-Identifier: MIT */
/*
 * recording_code.h - how readings are put into few bytes and taken out again: what changed since the reading before, in numbers of variable length. A block stands for itself: its first reading is the change from nothing.
 * A seal (a checksum of the block up to it) follows whatever was handed to the disk, and bytes before a seal are never changed: a block that was written again and cut while it was is valid up to an earlier seal.
 * Pure; never reads or writes beyond its ends, whatever the bytes are.
 */
#pragma once

#include "guard/reading.h"

enum {
    /* Two pages: with a reading every second a block is some minutes, and 24 KiB of the guard's memory hold three that wait for the disk. */
    UMA_GUARD_BLOCK = 8192,
    UMA_GUARD_SEAL = 5,                /* bytes of a seal, kept free in a block that is not full */
    UMA_GUARD_RECORDED_PROCESSES = 96, /* of a table: the largest; about 60 bytes each */
    UMA_GUARD_RECORDED_TREES = 64,
};
#define UMA_GUARD_BLOCK_MAGIC 0x3142524d47414d55ull
#define UMA_GUARD_SEQUENCE_MOST ((1ull << 48) - 1) /* no guard comes there */

struct uma_guard_block_head {
    uint64_t magic, sequence; /* 1, 2, ...; its place in the ring follows from it */
    uint8_t boot[16];
    int64_t real, boottime; /* CLOCK_REALTIME and CLOCK_BOOTTIME of one moment */
};

enum uma_guard_entry {
    UMA_GUARD_ENTRY_END, /* zeros */
    UMA_GUARD_ENTRY_READING,
    UMA_GUARD_ENTRY_DECIDED, /* a reading that a decision with actions was taken on */
    UMA_GUARD_ENTRY_PROCESSES,
    UMA_GUARD_ENTRY_ENVELOPES,
    UMA_GUARD_ENTRY_SEAL,
};

struct uma_guard_into { /* where bytes go */
    uint8_t *at, *end;
    bool full; /* not all that was to go there did */
};
struct uma_guard_from { /* where they come from */
    const uint8_t *at, *end;
    bool bad; /* there were too few, or they are no number */
};

void uma_guard_put_byte(struct uma_guard_into *into, uint8_t value);
void uma_guard_put_number(struct uma_guard_into *into, uint64_t value);
uint8_t uma_guard_get_byte(struct uma_guard_from *from);
uint64_t uma_guard_get_number(struct uma_guard_from *from);

/*
 * One reading, as the change from *base, which becomes it. Values of a group that is not known are left out (and are 0 when read again). What no machine has (a size above 2^62) is cut to that by the writer and is bad for the reader.
 */
void uma_guard_put_reading(struct uma_guard_into *into, struct uma_guard_reading *base, const struct uma_guard_reading *reading);
void uma_guard_get_reading(struct uma_guard_from *from, struct uma_guard_reading *base, struct uma_guard_reading *ret_reading);

void uma_guard_put_process(struct uma_guard_into *into, const struct uma_guard_process *process);
/* `n`: processes of its table, which `tree` is one of. */
void uma_guard_get_process(struct uma_guard_from *from, size_t n, struct uma_guard_process *p);
void uma_guard_put_envelope(struct uma_guard_into *into, const struct uma_guard_envelope *envelope);
void uma_guard_get_envelope(struct uma_guard_from *from, struct uma_guard_envelope *e);
