/* SPDX-License-Identifier: MIT */
/*
 * reserved.h - how much of the machine other jobs have reserved and not taken yet, as one process of a job sees it at each look at the machine: the registers of its own user and of root, without the claims of
 * its own job. Other users' claims count where a job is let in, not here: they could hold a running job's memory back by a number.
 *
 * A register is kept open, and read at each look (a microsecond or two). Whether an owner lives, and whether a register has appeared or was made anew, is asked once a second. No allocation.
 */
#pragma once

#include "valve/reservations.h"
#include "valve/spin.h"

struct uma_valve_register {
    int fd; /* -1: not open */
    uint32_t uid;
    uint64_t inode;
    uint32_t device_major, device_minor;
    uint64_t ids[UMA_CLAIMS_MAX]; /* of which it is known whether */
    bool lives[UMA_CLAIMS_MAX];
};

enum { UMA_VALVE_RESERVED_FOLDER = 448 };

struct uma_valve_reserved {
    struct uma_valve_spin lock;
    _Atomic uint64_t last;                  /* for who cannot have the lock */
    uint64_t asked_ns;                      /* when owners were asked for */
    char folder[UMA_VALVE_RESERVED_FOLDER]; /* of the environment, or the usual one: copied, for programs write their titles over it */
    unsigned n_registers, n_own;
    uint64_t own[UMA_OWN_CLAIMS_MAX];
    struct uma_valve_register registers[2];
    struct uma_reservations buffer;
};

/* In memory that is all zeros: what the environment says is read. */
void uma_valve_reserved_begin(struct uma_valve_reserved *reserved);
/* Bytes. It is read before the machine is: what a job takes between the two counts twice for this once, and never not at all. */
uint64_t uma_valve_reserved(struct uma_valve_reserved *reserved);
