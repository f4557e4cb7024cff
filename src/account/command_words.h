/* SPDX-License-Identifier: MIT */
/*
 * command_words.h - from a process's argument list to the program it is really about: behind env, sudo, numactl, sh -c '...', uv run,
 * python -m, torchrun and accelerate launch. Only positions that a command can stand in are looked at: a file that is called like a
 * program is not that program. Bounded in time and memory whatever the arguments are; knows no engine by name.
 */
#pragma once

#include "base/arena.h"
#include "uma.h"

struct uma_command_words {
    const char *program; /* last component of the path of what runs: "vllm", "llama-server"; "python" for a module or script */
    const char *module;  /* python -m MODULE, or NULL */
    const char *script;  /* path of a .py script, or NULL */
    bool python;         /* run by a Python interpreter */
    bool launched;       /* behind torchrun, accelerate launch or deepspeed: a training launcher */
    size_t n;            /* arguments after the program, module or script */
    const char *const *args;
};

/* A shell's string can hold several commands ("cd x && exec vllm serve y"): this many are looked at. */
enum { UMA_COMMANDS_MAX = 16 };

/* Fills ret_commands and returns how many there are, in order. Strings stay in argv or `arena`. Out of memory: what was found so far. */
size_t uma_command_resolve(const char *const *argv, size_t argc, struct uma_arena *arena,
                           struct uma_command_words ret_commands[UMA_COMMANDS_MAX]);

/* The last component of a path. */
const char *uma_path_last(const char *path);

enum uma_option_state {
    UMA_OPTION_NOT_GIVEN,
    UMA_OPTION_GIVEN,
    UMA_OPTION_WITHOUT_VALUE, /* stands last, or another option follows */
};
/*
 * The value of "--flag value" or "--flag=value"; the last one counts, and '_' and '-' are the same in names of more than one letter, as
 * argparse and its users have it. Words after "--" are not options.
 */
enum uma_option_state uma_option_find(const struct uma_command_words *command, const char *flag, const char **ret_value);
