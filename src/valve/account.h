/* SPDX-License-Identifier: MIT */
/*
 * account.h - what one job has taken from the pool: memory that all its processes share (a memfd), where each writes in a slot of its own, and which goes when the last of
 * them does: nothing is left that a later job could find.
 *
 * `umactl run` makes it before the job starts; otherwise the first process of the job that uses CUDA does, and its children find it. Adding is a few atomic operations on
 * the process's own slot, checking is a sum over the slots in use. No lock, no allocation, no system call but where a process seems to have died.
 *
 * Nothing in it is trusted further than to be a number: any process of the job may write there, and a job that cheats itself only loses its own protection.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The job's environment: "PID:START:FD:INODE", the process that holds the account open, when it started (clock ticks since boot), under which number, and the file's inode. */
#define UMA_VALVE_ACCOUNT_VARIABLE "UMACTL_VALVE_ACCOUNT"
#define UMA_VALVE_VERSION 1
/* The name of the memfd, before the token of the job. */
#define UMA_VALVE_ACCOUNT_NAME "umactl-valve-"
/* Nobody makes it shorter under those who have mapped it, which would end them (fcntl(2), 3.17). */
#define UMA_VALVE_ACCOUNT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
/* Somewhere in the library, followed by its version in digits: by this umactl knows it before it is loaded into anything. */
#define UMA_VALVE_MARK "umactl-valve version "
#define UMA_VALVE_ACCOUNT_MAGIC UINT64_C(0x31766c61766d75) /* "umvalv1" */
#define UMA_VALVE_NONE UINT64_MAX                          /* no ceiling */
#define UMA_VALVE_FREEING UINT32_C(0x80000000)             /* no pid is so large (PID_MAX_LIMIT is 1 << 22) */

enum {
    UMA_VALVE_SLOTS = 1024, /* processes of one job that use CUDA at the same time; what comes later has an account of its own */
    UMA_VALVE_EVENTS = 64,  /* the newest; a reader that looks twice a second misses none that a person could read */
};

/* A process. On lines of its own, so that processes do not wait for each other's. */
struct uma_valve_slot {
    _Atomic uint32_t pid;           /* as in its own PID namespace; 0: free; UMA_VALVE_FREEING and the pid of who frees it */
    _Atomic uint32_t pid_namespace; /* uma_valve_pid_namespace() of it: in another one, its pid says nothing */
    _Atomic uint64_t start_time;    /* clock ticks since boot (proc_pid_stat(5), field 22); 0: not written yet */
    _Atomic uint64_t used;          /* bytes taken through calls that say how many, with those under way */
    _Atomic uint64_t under_way; /* of these: asked of the driver and not answered yet, so that the machine's figures may not show them */
    _Atomic uint64_t overhead;  /* bytes of contexts and modules, as measured around the calls that made them */
    _Atomic uint64_t refused;   /* calls that were answered with out of memory here */
    char name[16];              /* comm; hostile text */
    _Atomic uint64_t
        stack; /* where its stack begins (field 28), which is another after execve(2): what it had went with the old program; 0: not to be seen */
    _Atomic uint64_t untouched; /* of `used`: managed memory, which leaves the machine page by page as it is touched, and may not have */
    uint8_t rest[48];
};

enum uma_valve_event_kind {
    UMA_VALVE_REFUSED_CEILING = 1,
    UMA_VALVE_REFUSED_FLOOR,
    UMA_VALVE_MADE_ROOM,
    UMA_VALVE_RETRIED,
    UMA_VALVE_EVENT_KINDS
};

struct uma_valve_event {
    _Atomic uint64_t sequence; /* from 1; written last, so that a reader knows a whole one */
    /* Read by others while they are written, and thrown away then: hence atomic, each for itself. */
    _Atomic uint64_t time_ns;         /* CLOCK_MONOTONIC */
    _Atomic uint64_t size;            /* bytes of the call */
    _Atomic uint64_t used, ceiling;   /* of the job */
    _Atomic uint64_t available, free; /* of the machine; 0 when not known */
    _Atomic uint64_t floor, reserved; /* of the machine, and of other jobs */
    _Atomic uint64_t evicted;         /* bytes, of MADE_ROOM */
    _Atomic uint32_t pid, kind;       /* enum uma_valve_event_kind */
};

struct uma_valve_account {
    uint64_t magic;
    uint64_t size;            /* of this struct: both ends are of one build */
    _Atomic uint64_t ceiling; /* bytes that the job may have, or UMA_VALVE_NONE */
    _Atomic uint64_t floor;   /* bytes of MemAvailable that stay with the machine; 0: none */
    _Atomic uint32_t n_slots; /* no slot at or above this was ever used */
    _Atomic uint32_t
        helper; /* not 0: somebody watches `wanted` and makes room; who got no answer sets it to 0, and the helper, if there still is one, back */
    _Atomic uint32_t asked, answered; /* the helper answers the question `asked` when `answered` says the same; futex words */
    _Atomic uint64_t wanted, given;   /* bytes of MemFree asked for; bytes evicted for the last answer */
    /* since the job began */
    _Atomic uint64_t most;                          /* bytes that it had at once, by calls that were answered */
    _Atomic uint64_t evicted;                       /* bytes of page cache, to make room */
    _Atomic uint64_t counts[UMA_VALVE_EVENT_KINDS]; /* events of each kind, also of those that were overwritten */
    _Atomic uint64_t next_event;
    struct uma_valve_event events[UMA_VALVE_EVENTS];
    struct uma_valve_slot slots[UMA_VALVE_SLOTS];
};

/* ---- a process and its account ---- */

/* All zeros, then as said: the struct that is shared. */
void uma_valve_account_begin(struct uma_valve_account *account, uint64_t ceiling, uint64_t floor);
/* Is what was mapped (`size` bytes) an account of this build? */
bool uma_valve_account_valid(const struct uma_valve_account *account, uint64_t size);

/* A slot for this process; NULL when all are taken by processes that live. */
struct uma_valve_slot *uma_valve_account_join(struct uma_valve_account *account);

/* ---- taking ---- */

/*
 * Count `size` bytes as taken and under way, if the job stays at or below its ceiling with them. `ret_used`: what the job has without them. Of two processes that ask at once for what only one can
 * have, one gets it, unless they ask in the very same microseconds again and again: then neither may.
 */
bool uma_valve_account_take(struct uma_valve_account *account, struct uma_valve_slot *slot, uint64_t size, uint64_t *ret_used);
/* The driver gave them. `given` may differ from what was taken before (rounding); */
void uma_valve_account_taken(struct uma_valve_slot *slot, uint64_t size, uint64_t given);
/* It did not. */
void uma_valve_account_untake(struct uma_valve_slot *slot, uint64_t size);
void uma_valve_account_give_back(struct uma_valve_slot *slot, uint64_t size);

/* After the driver gave: `most` is raised to what the job has now, calls under way and overhead left out, if that is more. */
void uma_valve_account_note_most(struct uma_valve_account *account);

/* Sums over all slots. */
uint64_t uma_valve_account_used(const struct uma_valve_account *account);
uint64_t uma_valve_account_under_way(const struct uma_valve_account *account);

/* Free the slots of processes that have died without giving back: bytes freed. Only of this process's PID namespace. Some microseconds for each slot in use. */
uint64_t uma_valve_account_prune(struct uma_valve_account *account);

void uma_valve_account_tell(struct uma_valve_account *account, const struct uma_valve_event *event);
/* The events after `after` that are whole, oldest first, into `ret`: how many; `after` is moved on. Those that were overwritten meanwhile are passed over. */
unsigned uma_valve_account_events(const struct uma_valve_account *account, uint64_t *after, struct uma_valve_event *ret, unsigned n);

/* ---- facts of a process, by system calls alone ---- */

/* Clock ticks since boot, at which it started; 0 when there is none, or it cannot be seen. */
uint64_t uma_valve_start_time(uint32_t pid);
/* The same, or UMA_VALVE_ENDED, and where its stack begins: another place after execve(2); 0: hidden, as it is from other users. */
#define UMA_VALVE_ENDED UINT64_MAX /* all its threads have: what it had is back, though its parent has not waited for it yet */
uint64_t uma_valve_start_of(uint32_t pid, uint64_t *ret_stack);
/* A number for this process's PID namespace and clock (time namespace), from their inodes; 0 when they cannot be seen. */
uint32_t uma_valve_pid_namespace(void);
