/* SPDX-License-Identifier: MIT */
/*
 * ask.h - around each call of the driver that takes memory: before it, may it? After it, what came of it. No lock is held while the driver works. Every function takes what a failed or
 * switched-off valve leaves (a ticket that counts nothing), so that a hook reads the same in all cases.
 */
#pragma once

#include "valve/held.h"

#include <stdbool.h>
#include <stdint.h>

struct uma_valve_ticket {
    struct uma_valve_process *process; /* NULL: nothing is counted */
    const char *call;                  /* name of the entry point, for the log */
    uint64_t size;                     /* counted */
    bool retried;
};

/*
 * Is this thread inside a call of the driver that the valve lets through? What the driver itself calls then is its own affair, and counted already. Every hook begins with it.
 */
bool uma_valve_inside(void);
void uma_valve_enter(void);
void uma_valve_leave(void);

/*
 * Bytes that a call is going to take. False: it must be answered with CUDA_ERROR_OUT_OF_MEMORY, which was told. `size` 0 (arguments that the driver will refuse, or that say
 * nothing) is let through and counts nothing.
 */
bool uma_valve_ask(const char *call, uint64_t size, struct uma_valve_ticket *ret_ticket);
/* The driver refused for want of memory: was room made, so that it is worth asking once more? Once a ticket. */
bool uma_valve_ask_again(struct uma_valve_ticket *ticket);
/* It gave. Counted as a holding, of `given` bytes, from now on. */
void uma_valve_given(struct uma_valve_ticket *ticket, enum uma_valve_kind kind, uint64_t key, uint64_t given, uint32_t context);
/* It did not, or gave what is counted elsewhere. */
void uma_valve_not_given(struct uma_valve_ticket *ticket);

/*
 * The pools of streams and graphs are asked what they keep: what they gave back to the machine meanwhile is no longer the job's (hooks_async.c). True: one has less than before.
 */
bool uma_valve_pools_look(struct uma_valve_process *process);

/* ---- giving back ---- */

/*
 * Before a free is passed on, the holding is taken out: the driver may hand the same address to another thread the moment it is free. False: it is not ours.
 */
bool uma_valve_freeing(enum uma_valve_kind kind, uint64_t key, struct uma_valve_holding *ret_holding);
/* The free succeeded. */
void uma_valve_freed(const struct uma_valve_holding *holding);
/* It failed: it is still held. */
void uma_valve_not_freed(const struct uma_valve_holding *holding);
