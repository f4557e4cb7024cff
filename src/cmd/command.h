/* SPDX-License-Identifier: MIT */
/*
 * command.h - one file per sub-command ends in one `const struct uma_command` with its name, help and function; main.c is the table of
 * them. Exit status: 0 yes/ok, 1 no, 2 usage, 3 unknown (could not be read); `run` follows env(1).
 */
#pragma once

#include "base/error.h"
#include "base/text.h"
#include "uma.h"

#include <stdbool.h>

enum { UMA_EXIT_OK = 0, UMA_EXIT_NO = 1, UMA_EXIT_USAGE = 2, UMA_EXIT_UNKNOWN = 3 };

struct uma_command {
    const char *name;
    const char *summary;               /* one line for `umactl --help` */
    const char *usage;                 /* the whole text of --help, ends with a newline */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
};

extern const struct uma_command uma_command_status, uma_command_snapshot, uma_command_require, uma_command_run;

/* Options that every reading command takes. */
struct uma_common_options {
    const char *from; /* --from FILE or "-" */
    const char *root; /* --root DIR or UMACTL_ROOT */
    bool json;
};

/*
 * Take a snapshot as the common options say: from a file, a folder or this machine. `what`: UMA_READ_...; a file always has all it has.
 * Errors are for the user as they are.
 */
int uma_command_snapshot_take(const struct uma_common_options *options, unsigned what, struct uma_snapshot *ret_snapshot,
                              struct uma_error *err);
/* "umactl status: TEXT" on stderr, hostile bytes escaped; then returns `status` (so: return uma_command_fail(...)). */
int uma_command_fail(const char *command, int status, const struct uma_error *err);
int uma_command_usage_error(const struct uma_command *command, const char *format, ...) UMA_PRINTF(2, 3);
/* Write all of a text to stdout; a closed pipe ends quietly, another error is told. 0 or -errno. */
int uma_command_print(const struct uma_text *text);
