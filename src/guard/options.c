/* SPDX-License-Identifier: MIT */
#include "guard/options.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/message.h"

#include <errno.h>
#include <string.h>

const char uma_guard_usage[] =
    "usage: uma-guard [--policy FILE] [--run-folder FOLDER] [--state-folder FOLDER] [--root FOLDER] [--within PID] [--dry-run] [--once]\n"
    "\n"
    "Keeps this machine from freezing for want of memory. Started by umactl-guard.service; `umactl guard` speaks to it.\n"
    "\n"
    "  --policy FILE          what it may do; default: /etc/umactl/guard.conf and its drop-ins\n"
    "  --run-folder FOLDER    sockets and state; default: " UMA_GUARD_RUN_FOLDER "\n"
    "  --state-folder FOLDER  trail and recording; default: " UMA_GUARD_STATE_FOLDER "\n"
    "  --root FOLDER          look at a machine that is a folder, and act on nothing\n"
    "  --within PID           touch only processes below PID\n"
    "  --dry-run              decide and record, and send no signal\n"
    "  --once                 look once, and end\n"
    "  --help, --version\n";

static int parse_pid(const char *value, int32_t *ret_pid) {
    uint64_t pid;
    /* 2^22 is the most that a process number can be (PID_MAX_LIMIT, include/linux/threads.h) */
    if (uma_parse_u64_all(value, &pid) != 0 || pid == 0 || pid > 4194304)
        return -EINVAL;
    *ret_pid = (int32_t)pid;
    return 0;
}

/* The value of an option that takes one: behind "=", or the next argument. NULL: there is none. An option is none: "--policy --dry-run" would be a guard that acts, where one was meant that does not. */
static const char *value_of(const char *argument, size_t name_length, int argc, char **argv, int *i) {
    if (argument[name_length] == '=')
        return argument + name_length + 1;
    return *i + 1 < argc && argv[*i + 1][0] != '-' ? argv[++*i] : NULL;
}

int uma_guard_options_parse(int argc, char **argv, struct uma_guard_options *ret_options, const char **ret_wrong,
                            const char **ret_expected) {
    struct uma_guard_options o = { .run_folder = UMA_GUARD_RUN_FOLDER, .state_folder = UMA_GUARD_STATE_FOLDER, .root = "" };
    const char *within = NULL;
    const struct {
        const char *name;
        bool *flag;
        const char **value;
    } table[] = {
        { "--policy", NULL, &o.policy },
        { "--run-folder", NULL, &o.run_folder },
        { "--state-folder", NULL, &o.state_folder },
        { "--root", NULL, &o.root },
        { "--within", NULL, &within },
        { "--dry-run", &o.dry_run, NULL },
        { "--once", &o.once, NULL },
        { "--help", &o.help, NULL },
        { "-h", &o.help, NULL },
        { "--version", &o.version, NULL },
    };
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        bool known = false;
        for (size_t k = 0; k < ELEMENTS(table) && !known; k++) {
            size_t n = strlen(table[k].name);
            if (strncmp(argument, table[k].name, n) != 0 || (argument[n] != '\0' && (argument[n] != '=' || table[k].value == NULL)))
                continue;
            known = true;
            if (table[k].flag != NULL)
                *table[k].flag = true;
            else if ((*table[k].value = value_of(argument, n, argc, argv, &i)) == NULL || (*table[k].value)[0] == '\0') {
                *ret_wrong = argument;
                *ret_expected = "a value behind it";
                return -EINVAL;
            }
        }
        if (!known) {
            *ret_wrong = argument;
            *ret_expected = "one of the options that --help lists";
            return -EINVAL;
        }
    }
    if (within != NULL && parse_pid(within, &o.within) != 0) {
        *ret_wrong = within;
        *ret_expected = "the number of a process behind --within";
        return -EINVAL;
    }
    if (strcmp(o.root, "/") == 0)
        o.root = "";
    *ret_options = o;
    return 0;
}
