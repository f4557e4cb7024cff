/* SPDX-License-Identifier: MIT */
/*
 * claims.h - what all running jobs have reserved, of every user whose register is there, for whoever lets a job in or tells a person. Reads only. A file that is no register of the user that its name says is
 * passed over, and named.
 *
 * Whose numbers they are: a user can claim in his own name alone, and his claims count for everybody's gates, as the memory would if he took it; all of them together are never more than the machine has.
 */
#pragma once

#include "valve/reservations.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uma_claim_seen {
    uint64_t id, reserved, taken, unspent; /* bytes */
    uint32_t uid, pid;                     /* pid: as its umactl says */
    bool own;                              /* of a job that this process runs in */
    char name[UMA_CLAIM_NAME_MAX];         /* hostile text */
};

struct uma_claims {
    size_t n;
    struct uma_claim_seen *list; /* those that live */
    size_t n_passed_over;
    char passed_over[256], why[64]; /* the first such file, hostile text, and what is the matter with it */
};

/* Never fails: what cannot be read has no claims, and is among those passed over. */
void uma_claims_read(const char *folder, struct uma_claims *ret_claims);
void uma_claims_done(struct uma_claims *claims);

/* What others have still to take, at most `most` (MemTotal). */
uint64_t uma_claims_unspent(const struct uma_claims *claims, uint64_t most);
/*
 * The same for who read the machine between two readings of the claims: what was there before counts as before or as now, whichever is more, because the machine may not show yet what was taken meanwhile; what
 * is new counts whole, what is gone not at all. `self`: not counted, besides the own.
 */
uint64_t uma_claims_unspent_since(const struct uma_claims *before, const struct uma_claims *now, uint64_t self, uint64_t most);
