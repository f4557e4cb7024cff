/* SPDX-License-Identifier: MIT */
#include "guard/helper/options.h"

#include "guard/helper/say.h"
#include "guard/message.h"
#include "guard/warn_marker.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: uma-guard-helper [OPTION...]\n"
    "\n"
    "Beside uma-guard: asks the driver who has the GPU's memory, makes room in the page cache, hands on warnings to jobs, and tells people after\n"
    "the guard has acted. It is started by umactl-guard-helper.service and does what the guard says; by itself it changes nothing.\n"
    "\n"
    "      --run-folder DIR   where the guard and the helper meet (default: " UMA_GUARD_RUN_FOLDER ")\n"
    "      --policy FILE      read [Notify] from this file (default: /etc/umactl/guard.conf and its drop-ins)\n"
    "      --version          print the version\n"
    "  -h, --help             print this\n"
    "\n"
    "UMACTL_NVML names the driver's library, UMACTL_WARN_FOLDER the folder of the jobs' marks. SIGHUP reads the policy again.\n"
    "Exit status: 0 ended by SIGTERM or SIGINT, 1 it cannot work (another helper is there, no folder), 2 usage.\n";

enum { OPTION_RUN_FOLDER = 256, OPTION_POLICY, OPTION_VERSION };

static const struct option table[] = {
    { "run-folder", required_argument, NULL, OPTION_RUN_FOLDER },
    { "policy", required_argument, NULL, OPTION_POLICY },
    { "version", no_argument, NULL, OPTION_VERSION },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

static int mistake(const char *what, const char *word) {
    uma_helper_say(UMA_HELPER_ERROR, "%s%s; uma-guard-helper --help lists the options", what, word);
    return 2;
}

static int print(const char *text) {
    return fputs(text, stdout) < 0 || fflush(stdout) != 0 ? 1 : 0;
}

int uma_helper_options_read(int argc, char **argv, struct uma_helper_options *ret_options) {
    struct uma_helper_options options = { .run_folder = UMA_GUARD_RUN_FOLDER, .warn_folder = uma_guard_warn_folder() };
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", table, NULL)) != -1;)
        switch (c) {
        case OPTION_RUN_FOLDER:
            options.run_folder = optarg;
            break;
        case OPTION_POLICY:
            options.policy = optarg;
            break;
        case OPTION_VERSION:
            return print("uma-guard-helper " UMACTL_VERSION "\n");
        case 'h':
            return print(usage);
        case ':':
            return mistake("a value is missing after ", argv[optind - 1]);
        default:
            return mistake("unknown option ", argv[optind - 1]);
        }
    if (optind < argc)
        return mistake("unexpected argument ", argv[optind]);
    if (!options.run_folder[0] || (options.policy && !options.policy[0]))
        return mistake("an empty name", "");
    *ret_options = options;
    return UMA_HELPER_GO_ON;
}
