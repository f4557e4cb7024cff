/* SPDX-License-Identifier: MIT */
/*
 * command.h - one file per sub-command ends in one `const struct uma_command` with its name, help and function; main.c is the table of
 * them. Exit status: 0 yes/ok, 1 no, 2 usage, 3 unknown (could not be read, or not written out); `run` follows env(1).
 *
 * What is shared here: choosing the command, reading options (all of them refuse in the same words), taking a snapshot as the common
 * options say, and writing to standard output. Nothing here reads the machine itself or judges it.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"
#include "job/claims.h"
#include "uma.h"

#include <getopt.h>
#include <stdbool.h>

enum { UMA_EXIT_OK = 0, UMA_EXIT_NO = 1, UMA_EXIT_USAGE = 2, UMA_EXIT_UNKNOWN = 3 };

struct uma_command {
    const char *name;
    const char *summary;               /* one line for `umactl --help` */
    const char *usage;                 /* the whole text of --help, ends with a newline */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
};

extern const struct uma_command uma_command_status, uma_command_plan, uma_command_snapshot, uma_command_require, uma_command_run,
    uma_command_cache, uma_command_valve, uma_command_guard;

/* Options that every reading command takes. */
struct uma_common_options {
    const char *from; /* --from FILE or "-" */
    const char *root; /* --root DIR or UMACTL_ROOT */
    bool json;
};

/* ---- choosing the command (dispatch.c) ---------------------------------------------------------------------- */

/* main() for a table: --help, --version, no command (the first of the table), an unknown one (2, with the nearest name). */
int uma_command_dispatch(const struct uma_command *const *table, size_t n, int argc, char **argv);
/* The candidate that `word` is most likely a slip of, or NULL when none is near. `name_of(userdata, i)`: the i-th of n. */
const char *uma_command_nearest(const char *word, const char *(*name_of)(const void *userdata, size_t i), const void *userdata, size_t n);

/* ---- options ------------------------------------------------------------------------------------------------ */

/* Values of the common options; a command's own begin at UMA_OPTION_OWN. */
enum { UMA_OPTION_FROM = 0x100, UMA_OPTION_ROOT, UMA_OPTION_JSON, UMA_OPTION_VERSION, UMA_OPTION_STOP, UMA_OPTION_OWN };

/* Entries of the common options for a command's table of long options. */
#define UMA_COMMON_OPTIONS                                                                                                                 \
    { "from", required_argument, NULL, UMA_OPTION_FROM }, { "root", required_argument, NULL, UMA_OPTION_ROOT },                            \
        { "json", no_argument, NULL, UMA_OPTION_JSON }, { "version", no_argument, NULL, UMA_OPTION_VERSION }, {                            \
        "help", no_argument, NULL, 'h'                                                                                                     \
    }

struct uma_option_reader {
    const struct uma_command *command;
    const struct option *options; /* ends with a zeroed entry */
    const char *letters;          /* getopt's string, beginning with ":" */
    struct uma_common_options *common;
    bool takes_arguments; /* words that are no options are the command's own: argv[optind] and on, after the end */
    int status;           /* the exit status once UMA_OPTION_STOP was returned */
};

/*
 * The next option of the command's own (optarg as getopt sets it), -1 at the end, or UMA_OPTION_STOP: --help or --version was printed or
 * a mistake was told, leave with reader->status. At the end it has refused arguments of a command that takes none and --from together with
 * --root, and taken UMACTL_ROOT where neither is given.
 */
int uma_option_next(struct uma_option_reader *reader, int argc, char **argv);

/* ---- reading and writing ------------------------------------------------------------------------------------ */

/* What an observer needs to know: the root, and UMACTL_NVML. */
struct uma_observe_options uma_command_observe_options(const struct uma_common_options *options);
/*
 * Take a snapshot as the common options say: from a file, a folder or this machine. `what`: UMA_READ_...; a file always has all it has.
 * Errors are for the user as they are.
 */
int uma_command_snapshot_take(const struct uma_common_options *options, unsigned what, struct uma_snapshot *ret_snapshot,
                              struct uma_error *err);
/* One reading of the machine that `options` name. */
int uma_command_snapshot_read(const struct uma_observe_options *options, unsigned what, struct uma_snapshot *ret_snapshot,
                              struct uma_error *err);
/*
 * What running jobs have reserved on this machine, to be read before the machine is (valve/reserved.h says why); none of a file or a folder.
 */
void uma_command_claims_read(const struct uma_common_options *options, struct uma_claims *ret_claims);
/* What others have still to take of it, at most what the snapshot's machine has. A register that was passed over is told on stderr, once. */
uint64_t uma_command_reserved(const char *command, const struct uma_claims *claims, const struct uma_snapshot *snapshot);
/* "umactl status: TEXT" on stderr, hostile bytes escaped; then returns `status` (so: return uma_command_fail(...)). */
int uma_command_fail(const char *command, int status, const struct uma_error *err);
int uma_command_usage_error(const struct uma_command *command, const char *format, ...) UMA_PRINTF(2, 3);
/*
 * Write all of a text to stdout. 0 when it is out; 1 when the reader has gone (a closed pipe ends quietly: `umactl status | head -1`);
 * -errno on another error, which has been told on stderr.
 */
int uma_command_print(const struct uma_text *text);
/* Write all of it to fd, whatever kind of file that is. 0 or -errno. A closed pipe is -EPIPE, never a signal. */
int uma_command_write(int fd, const char *data, size_t length);
