/* SPDX-License-Identifier: MIT */
/*
 * holder_kinds.h - which engine or trainer a process is, what it is for, and the cap on its memory that its command line or environment
 * sets. Recognised are program, module and script names in the place of a command, and the titles that engines give their workers; never
 * a word somewhere in an argument. Pure; bounded whatever the arguments are.
 */
#pragma once

#include "account/command_words.h"
#include "base/arena.h"
#include "uma.h"

struct uma_program {
    const char *kind;  /* one of the contract's kinds, "other" for a known server of another kind, or NULL: not recognised */
    const char *model; /* as it was named, or NULL */
    enum uma_role role;
    struct uma_cap cap;
    bool python; /* a Python interpreter, or a title over it */
    bool worker; /* its own arguments are gone or empty: what a parent was given holds for it */
};

/* Recognise one process by itself. `pool_total`: bytes that engines call total (MemTotal), to turn fractions into bytes. */
void uma_program_recognise(const struct uma_process *process, struct uma_u64 pool_total, struct uma_arena *arena,
                           struct uma_program *ret_program);

/* The model and cap of a recognised command; holder_caps.c. `process` for its environment. */
void uma_program_read_flags(const struct uma_process *process, const struct uma_command_words *command, struct uma_u64 pool_total,
                            struct uma_arena *arena, struct uma_program *program);
