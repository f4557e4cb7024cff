/* SPDX-License-Identifier: MIT */
/* In its place: what uma-guard's own options mean is said in its manual page, and this command passes them on as they are. */
#include "cmd/guard.h"

#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: umactl guard run [OPTION...]\n"
    "\n"
    "Run uma-guard here, in the foreground, in place of this program; what it does is told on standard error. The guard of a machine is\n"
    "started by systemd (umactl-guard.service); this is for trying a policy, with --dry-run first.\n"
    "\n"
    "      --policy FILE    what it may do (default: the standard files, see umactl guard policy)\n"
    "      --run-folder FOLDER\n"
    "                       sockets and state (default: " UMA_GUARD_RUN_FOLDER ")\n"
    "      --state-folder FOLDER\n"
    "                       what it writes down (default: " UMA_GUARD_STATE_FOLDER ")\n"
    "      --within PID     touch only processes below PID\n"
    "      --dry-run        decide and write down, and send no signal\n"
    "      --once           look once, and end\n"
    "      --root DIR       look at a machine laid out as a folder, and act on nothing\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Exit status: uma-guard's own; 2 usage, 3 it could not be started.\n";

static const struct uma_command *const self = &uma_command_guard_run;

enum { OPTION_WITHIN = UMA_GUARD_OPTION_OWN, OPTION_DRY_RUN, OPTION_ONCE };

/* The options are read here so that a mistake is told as everywhere, then handed on as they were. */
static int check(int argc, char **argv) {
    static const struct option table[] = { { "policy", required_argument, NULL, UMA_GUARD_OPTION_POLICY },
                                           { "run-folder", required_argument, NULL, UMA_GUARD_OPTION_RUN_FOLDER },
                                           { "state-folder", required_argument, NULL, UMA_GUARD_OPTION_STATE_FOLDER },
                                           { "within", required_argument, NULL, OPTION_WITHIN },
                                           { "dry-run", no_argument, NULL, OPTION_DRY_RUN },
                                           { "once", no_argument, NULL, OPTION_ONCE },
                                           { "root", required_argument, NULL, UMA_OPTION_ROOT },
                                           { "version", no_argument, NULL, UMA_OPTION_VERSION },
                                           { "help", no_argument, NULL, 'h' },
                                           { 0 } };
    struct uma_common_options common = { 0 };
    struct uma_guard_places places = { 0 };
    struct uma_option_reader reader = { self, table, ":h", &common, false, 0 };
    return uma_guard_places_read(&reader, argc, argv, &places);
}

static int run(int argc, char **argv) {
    static char name[] = "uma-guard";
    char path[PATH_MAX];
    struct uma_error err = { 0 };
    int status = check(argc, argv);
    if (status >= 0)
        return status;
    if (uma_guard_program_find(path, &err) < 0)
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    argv[0] = name;
    (void)execv(path, argv);
    (void)uma_error_set(&err, errno, "%s", path);
    return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
}

const struct uma_command uma_command_guard_run = { "guard run", "run uma-guard here, in the foreground", usage, run };
