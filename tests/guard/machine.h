/* SPDX-License-Identifier: MIT */
/*
 * machine.h - a machine that only exists on paper: memory, programs that take it in ways that were seen, a driver that answers late, and what signals do to them; so that the guard's decision can be tried on thousands
 * of them in a closed loop: a stopped program stops growing, a killed one gives its memory back when it pleases. It knows the truth (who is to blame), which the decision does not.
 */
#pragma once

#include "guard/decide.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)

enum { MACHINE_PROGRAMS = 400 };

enum memory_kind { OF_GPU, OF_ANON, OF_SHMEM };
enum shape { STEADILY, FASTER, IN_LUMPS, IN_BURSTS };

/* What a program does: from `begin` on it takes `amount` bytes at `rate`, keeps them for `keep`, and gives them back where it is told to. */
struct program {
    bool used, alive, guilty, large;
    int32_t pid, parent, tree; /* tree: index of its root */
    uint32_t flags;
    uint64_t start;
    char name[UMA_GUARD_NAME_MAX];
    double anon, shmem, gpu, swap;
    /* growth */
    enum memory_kind kind;
    enum shape shape;
    double rate, amount, taken, lump, in_call; /* in_call: of a call of the driver that goes on when the program is stopped */
    int64_t begin, keep, ended;                /* ended: when it had all of it; 0: not yet */
    bool gives_back;
    double jitter; /* bytes it wanders by */
    double wander;
    /* signals */
    bool stopped, ignores_term, unkillable, cannot_stop;
    int64_t stop_at, cont_at, exit_at; /* 0: nothing under way */
    int64_t late;                      /* how long after its end the driver keeps its memory */
    double ghost;                      /* bytes that the driver keeps of it */
    int64_t ghost_until;
    /* what the last answer of the driver said */
    double gpu_said, gpu_said_before;
    bool said, said_before;
    /* of the last table */
    double held_before;
    int64_t table_before;
    int32_t envelope;
};

struct machine {
    uint64_t seed;
    int64_t now;
    double total, kernel, cache, cache_rate, noise, noise_size, excursion, excursion_goal;
    int64_t excursion_until, next_excursion;
    double swap_total, swap_used, swap_below; /* swap_below: available memory at which the kernel begins to swap */
    double per_cpu;
    double stalls, pressure;                                /* counters */
    int64_t answer_every, answered, answered_before, asked; /* of the driver; answer_every 0: never */
    int64_t answer_delay;
    bool envelope_used;
    struct uma_guard_envelope envelope;
    int n;
    struct program programs[MACHINE_PROGRAMS];
    struct uma_guard_process table[MACHINE_PROGRAMS];
    size_t n_table;
    int64_t table_time;
    int64_t spawn_every, next_spawn; /* a storm of forks: program 0's children */
    double spawn_size;
    double lowest;
    bool frozen;
};

double machine_random(struct machine *m); /* 0 to 1 */
double machine_between(struct machine *m, double low, double high);
double machine_between_log(struct machine *m, double low, double high);
void machine_begin(struct machine *m, uint64_t seed, double total);
/* Index; -1: there are too many. `parent` -1: of its own. */
int machine_program(struct machine *m, const char *name, int parent);
void machine_run(struct machine *m, int64_t until);
double machine_available(const struct machine *m);
void machine_read(struct machine *m, struct uma_guard_reading *ret_reading);
void machine_take_table(struct machine *m);
/* What the loop would do; false: it could not be done. */
bool machine_do(struct machine *m, const struct uma_guard_action *action);
/* No process of the tree is left. */
bool machine_gone(const struct machine *m, int32_t pid);
const struct program *machine_find(const struct machine *m, int32_t pid);
