/* SPDX-License-Identifier: MIT */
/*
 * soak.h - a random life of a job under the valve (soak.c: its supervisor; soak_worker.c: its processes; soak_actor.c: the calls of one thread). What is asked of the valve all along: what the job has never passes the ceiling, and what it
 * says that a process has is what the driver has given to it.
 *
 * Built twice: for the preloaded library, and linked with the valve's own sources (SOAK_LINKED), so that sanitizers see into them.
 */
#pragma once

#include "api.h"
#include "fakes/cuda/fake.h"
#include "valve/account.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SOAK_THREADS = 4,
    SOAK_THINGS = 12,
    SOAK_MIB = 1 << 20,
    SOAK_BLOCK = 2 << 20 /* of the fake's pools: sizes are multiples, so that nothing is rounded */
};
/* Launching a graph takes memory without asking; no graph of a soak is larger. */
enum { SOAK_GRAPH = 2 << 20 };

/* Shared by all processes of one soak. */
struct soak_control {
    _Atomic uint64_t calls, refused, failing, reopened, forks, execs, kills, processes, rounds, snapshots, failures;
    _Atomic bool stop;
};
extern struct soak_control *soak_control;

extern struct uma_valve_account *soak_account;

/* A process that the supervisor, or another, has executed as one of its own: `control` is the descriptor of struct soak_control. */
int soak_process(const char *control, int argc, char *argv[]);
/* The program again, as one of those. */
void soak_execute(const char *what, uint64_t seed);
unsigned soak_count_files(void);
void soak_pause_us(unsigned us);
/* errno, and the end of the process. */
void soak_give_up(const char *what);

/* One line, and the soak has failed. */
void soak_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- chance: xorshift64* (Vigna, An experimental exploration of Marsaglia's xorshift generators) ---- */

static inline uint64_t soak_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}
static inline unsigned soak_below(uint64_t *state, unsigned n) {
    return (unsigned)((soak_random(state) >> 33) % n);
}

/* ---- one thread's things ---- */

enum soak_kind { SOAK_NONE, SOAK_DEVICE, SOAK_HOST, SOAK_ARRAY, SOAK_MIPMAP, SOAK_ASYNC, SOAK_VMM, SOAK_MODULE, SOAK_LIBRARY };

struct soak_thing {
    enum soak_kind kind;
    uint64_t key, size, address; /* address: of a mapping; 0: none */
    unsigned references;         /* of a handle */
    bool in_context, in_pool;    /* of the actor's own, and goes with it */
};

struct soak_actor {
    uint64_t random;
    void *handle; /* of the driver's library */
    struct api api;
    CUcontext primary, own; /* own: NULL, none */
    CUmemoryPool pool;      /* the actor's own; NULL: none */
    CUgraphExec graph;
    bool unified; /* the fake says that its memory is the machine's */
    bool reuse;   /* the fake gives addresses anew: what was freed may be another's */
    uint64_t ceiling;
    struct soak_thing things[SOAK_THINGS];
    uint64_t freed; /* an address that was freed; 0: none */
    uint64_t calls, refused, failing, reopened;
};

/* The driver's functions, by one of the ways in which programs find them. */
bool soak_open(struct soak_actor *actor);
void soak_close(struct soak_actor *actor);
/* One random call, or a few that belong together. */
void soak_step(struct soak_actor *actor);
/* Its pools are looked at by the valve, and keep what they have. */
void soak_look(struct soak_actor *actor);
/* Everything is given back. */
void soak_give_all(struct soak_actor *actor);
/* The calls of a child of fork whose parent has begun: the driver refuses all. */
bool soak_refused_as_child(struct soak_actor *actor);
/* Adds what was counted to the shared counters. */
void soak_count(struct soak_actor *actor);
