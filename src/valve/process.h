/* SPDX-License-Identifier: MIT */
/*
 * process.h - what the valve knows in one process, from its first call of CUDA on: the job's account and this process's slot in it, what the process holds, the machine's figures, and what kind of device
 * there is. In memory that the kernel empties in a child (MADV_WIPEONFORK): a child begins anew, by whatever call it was made.
 *
 * uma_valve_process() is NULL where the valve does nothing: switched off, or something that it needs is not to be had (told once): then every call passes.
 */
#pragma once

#include "valve/account.h"
#include "valve/held.h"
#include "valve/machine.h"
#include "valve/reserved.h"
#include "valve/settings.h"
#include "valve/spin.h"

enum uma_valve_unified { UMA_VALVE_NOT_ASKED, UMA_VALVE_UNIFIED, UMA_VALVE_DISCRETE };

/* Pools of a process that are looked at again; what later ones give back is seen when they are used next. */
enum { UMA_VALVE_POOLS = 32 };

struct uma_valve_process {
    _Atomic unsigned begun;   /* 0: not; 1: somebody is at it; 2: ready; 3: failed */
    _Atomic unsigned unified; /* enum uma_valve_unified */
    struct uma_valve_account *account;
    struct uma_valve_slot *slot;
    int account_fd;                   /* kept open for processes to come to find; -1 */
    _Atomic uint64_t unlooked;        /* bytes taken by small calls since the machine was last looked at */
    _Atomic uint64_t may_unlooked;    /* how many may be, by what was seen then; 0: it was not looked at yet */
    _Atomic uint64_t looked_ns;       /* when, by the coarse clock */
    _Atomic uint32_t calls_under_way; /* of those that take memory: while there is one, nothing can be told by differences */
    _Atomic uint32_t calls_begun;     /* of the same, and of those that give memory back: for one that was begun and ended meanwhile */
    _Atomic uint64_t told_ns;         /* when a line was last written */
    _Atomic uint64_t untold;          /* lines that were held back since */
    struct uma_valve_spin meminfo_lock;
    struct uma_valve_machine machine;
    struct uma_valve_reserved reserved;
    struct uma_valve_held *held;
    _Atomic uint64_t pool_claims;            /* bytes that calls under way may find idle in pools: no second call counts on the same ones */
    _Atomic uint32_t pools_looked_at;        /* threads that are asking the driver about pools: none is destroyed meanwhile */
    _Atomic uint64_t pools[UMA_VALVE_POOLS]; /* keys of those that hold something, as in `held`; 0: free */
};

/* Which settings: read once, by the constructor or whoever comes first. */
const struct uma_valve_settings *uma_valve_settings(void);

/* Begins it where that was not done. */
struct uma_valve_process *uma_valve_process(void);

/* The machine as it is now. False: not known. */
bool uma_valve_process_read(struct uma_valve_process *process, struct uma_valve_reading *ret_reading);

/* Is the memory of the devices the machine's? Asked of the driver once (CU_DEVICE_ATTRIBUTE_INTEGRATED of device 0): no, until it can say. */
bool uma_valve_process_unified(struct uma_valve_process *process);

/*
 * The account of this process's job, mapped: the one that the environment names, or that a process with the same token has open, or a new one with the ceiling of the settings and this floor. NULL: none (errno). `ret_fd`: open as long as the
 * process lives, -1 where it is memory alone.
 */
struct uma_valve_account *uma_valve_account_attach(const struct uma_valve_settings *settings, uint64_t floor, int *ret_fd);
/* One that nobody shares. NULL: none (errno). `ret_fd`: -1 where it is memory alone. */
struct uma_valve_account *uma_valve_account_alone(const struct uma_valve_settings *settings, uint64_t floor, int *ret_fd);
void uma_valve_account_leave(struct uma_valve_account *account, int fd);
