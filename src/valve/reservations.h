/* SPDX-License-Identifier: MIT */
/*
 * reservations.h - what running jobs have declared and may not have taken yet: one file of a user's, on tmpfs, with a slot for each of his claims. `umactl run --need` writes it (job/claim.h); gates and valves
 * read it. The file is FOLDER/umactl-reservations-UID, and counts only when it is a plain file of that user's, of the right size and kind.
 *
 * A claim lives as long as its owner holds an open-file-description lock on the slot's byte (F_OFD_SETLK, fcntl(2)): the kernel lets go of it when the owner is gone, whatever ended it and in whatever PID
 * namespace it was, so that there is no number of a process that could be another's by now. Readers ask for it through a descriptor that cannot write.
 *
 * It is read by pread(2) and never mapped: a file that its owner cuts short would end every program that has it mapped. All that is in it is numbers and a name, from whoever may write it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define UMA_RESERVATIONS_FOLDER "/dev/shm"
#define UMA_RESERVATIONS_FOLDER_VARIABLE                                                                                                   \
    "UMACTL_RESERVATIONS" /* another folder: for a container that was given the host's, and for tests */
#define UMA_RESERVATIONS_NAME "umactl-reservations-"
/* In the environment of a job: its own claim and those of the jobs that it runs in, "HEX,HEX": they are not others'. */
#define UMA_RESERVATION_VARIABLE "UMACTL_RESERVATION"
#define UMA_RESERVATIONS_MAGIC UINT64_C(0x31767365726d75) /* "umresv1" */

enum {
    UMA_CLAIMS_MAX = 256,    /* jobs of one user at a time */
    UMA_OWN_CLAIMS_MAX = 8,  /* jobs inside of each other */
    UMA_CLAIM_NAME_MAX = 28, /* bytes of a name; the last is 0 */
};

struct uma_reservations_head {
    uint64_t magic;
    uint32_t size;   /* of the whole file */
    uint32_t n_used; /* no slot at or above this was ever used */
    uint8_t rest[48];
};

struct uma_reservation {
    uint64_t id;       /* of all claims ever; 0: none */
    uint64_t reserved; /* bytes; 0: none */
    uint64_t taken;    /* of these, what has left MemAvailable already */
    uint32_t pid;      /* the owner's, in its own PID namespace: for people */
    uint32_t rest;
    char name[UMA_CLAIM_NAME_MAX]; /* hostile text */
    uint32_t rest2;
};

struct uma_reservations {
    struct uma_reservations_head head;
    struct uma_reservation claims[UMA_CLAIMS_MAX];
};

_Static_assert(sizeof(struct uma_reservations_head) == 64 && sizeof(struct uma_reservation) == 64, "the file is the same for all builds");

/* The lock that whoever takes a slot holds meanwhile, and the one that the owner of a slot holds: bytes of the file. */
enum { UMA_RESERVATIONS_LOCK = 0, UMA_CLAIM_LOCKS = 1 };

/* Is the open file a register of this user's? Where it is not, `ret_why` is what is the matter with it. */
bool uma_reservations_accept(int fd, uint32_t uid, const char **ret_why);
/*
 * All of it into `ret`, of which only [0, head.n_used) is written, and n_used is at most UMA_CLAIMS_MAX. False: it cannot be read, or is none. Two system calls at most, one where there are few claims.
 */
bool uma_reservations_read(int fd, struct uma_reservations *ret);
/* The same rule for bytes in memory: is it one? n_used is brought into bounds, names end. Pure. */
bool uma_reservations_check(struct uma_reservations *reservations, uint64_t size);

/* Does an owner hold the slot? Locks of other users, who may only read the file, are none. */
bool uma_reservation_lives(int fd, unsigned slot);
/* Bytes that are still to come. */
static inline uint64_t uma_reservation_unspent(const struct uma_reservation *claim) {
    return claim->id && claim->reserved > claim->taken ? claim->reserved - claim->taken : 0;
}

/* "HEX,HEX" into `ret`: how many. What is not understood ends it. NULL: none. Pure. */
unsigned uma_own_claims_parse(const char *text, uint64_t ret[UMA_OWN_CLAIMS_MAX]);
static inline bool uma_own_claims_have(const uint64_t *own, unsigned n, uint64_t id) {
    while (n > 0)
        if (own[--n] == id)
            return true;
    return false;
}
