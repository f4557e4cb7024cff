/* SPDX-License-Identifier: MIT */
/*
 * declared.h - what running jobs said they would take (umactl run --need): their claims in the registers of reservations (valve/reservations.h), read without an allocation. A register that was seen stays
 * open and is read by pread(2), never mapped; the folder is looked through for others once a second at the most. A claim counts while its owner holds its lock.
 *
 * All in a register is what its user wrote there: numbers are bounded by their type alone, and `pid` is a number in the owner's own PID namespace. So an envelope only ever goes to processes below an "umactl" of that very
 * user (uma_guard_processes_declare()), and no user has more than a half of the places. Not thread-safe.
 */
#pragma once

#include "guard/processes.h"
#include "valve/reservations.h"

enum {
    UMA_GUARD_REGISTERS = 32,                           /* users with jobs at a time */
    UMA_GUARD_USER_ENVELOPES = UMA_GUARD_ENVELOPES / 2, /* of one user, his largest */
};

struct uma_guard_register {
    int fd;
    uint32_t uid;
    uint64_t device, inode;
};

struct uma_guard_declared {
    const char *folder; /* the caller's, kept */
    int dir;            /* -1: not open */
    int64_t looked;     /* when the folder was looked through last; 0: never */
    uint32_t n_registers;
    struct uma_guard_register registers[UMA_GUARD_REGISTERS];
    uint32_t n; /* envelopes, the largest where there are more */
    struct uma_guard_envelope list[UMA_GUARD_ENVELOPES];
    uint32_t uids[UMA_GUARD_ENVELOPES]; /* whose register it is of */
    struct uma_reservations read;
    _Alignas(8) char names[4096];
};

/* `folder` NULL: the usual one. Never fails: without it there are no envelopes. */
void uma_guard_declared_open(struct uma_guard_declared *declared, const char *folder);
void uma_guard_declared_close(struct uma_guard_declared *declared);
/* Reads all claims anew: list, uids, n. `now`: CLOCK_MONOTONIC. Two system calls a register and one a claim, and once a second those of looking for new registers. */
void uma_guard_declared_read(struct uma_guard_declared *declared, int64_t now);
/* "umactl-reservations-1000": 1000, written as umactl writes it. Pure. */
bool uma_guard_register_name(const char *name, size_t length, uint32_t *ret_uid);
/* One register that was read and checked, into the envelopes; `lives(userdata, slot)` says whether a claim does. Pure but for that. */
void uma_guard_declared_take(struct uma_guard_declared *declared, const struct uma_reservations *reservations, uint32_t uid,
                             bool (*lives)(void *userdata, unsigned slot), void *userdata);
