/* SPDX-License-Identifier: MIT */
/*
 * claim.h - one job's claim in its user's register of reservations (valve/reservations.h): made when the job is let in, kept up to date while it runs, gone with umactl, whatever ends it.
 *
 * Who decides and claims holds the register's lock from the one to the other, so that two that start at once are not both promised the same bytes. What is wrong with the register is an error with a name
 * and harms nothing else: a file that is not this user's, or is none of umactl's, is neither followed nor written to.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct uma_claim;

/* Where registers are: the environment's folder, or the usual one. */
const char *uma_claims_folder(void);

/* The user's register, made where there is none. -errno: it cannot be had. */
int uma_claim_open(const char *folder, struct uma_claim **ret_claim, struct uma_error *err);
/* NULL. The claim, if one was made, is withdrawn. */
struct uma_claim *uma_claim_close(struct uma_claim *claim);

/* Waits at most some seconds for others, who hold it for milliseconds: -EBUSY. -EUCLEAN: the file is damaged. */
int uma_claim_lock(struct uma_claim *claim, struct uma_error *err);
void uma_claim_unlock(struct uma_claim *claim);

/* With the lock: a slot. -ENOSPC: all are taken by jobs that run. */
int uma_claim_make(struct uma_claim *claim, uint64_t bytes, const char *name, struct uma_error *err);
/* 0: none was made. */
uint64_t uma_claim_id(const struct uma_claim *claim);
/* What the job has taken of it. NULL and a claim that was not made are fine. */
void uma_claim_update(struct uma_claim *claim, uint64_t taken);
void uma_claim_withdraw(struct uma_claim *claim);

/*
 * How much of it has left MemAvailable for certain: what the job's processes have of anonymous and shared memory, and what the device's driver has given them, as its own list says (`device`) or the valve (`valve`),
 * whichever knows of more; what is not known counts as nothing, and stays reserved. Pure.
 */
uint64_t uma_claim_taken(struct uma_u64 memory, struct uma_u64 device, struct uma_u64 valve);
