/* SPDX-License-Identifier: MIT */
/* options.h - the command line of uma-guard. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uma_guard_options {
    const char *policy;       /* NULL: the standard places */
    const char *run_folder;   /* the helper's socket, the driver's figures, the state, the control socket */
    const char *state_folder; /* the trail and the recording */
    const char *root;         /* "" for this machine; a machine as a folder is looked at and never acted on */
    int32_t within;           /* only processes below this one may be touched; 0: all that the policy leaves */
    bool dry_run, once, help, version;
};

extern const char uma_guard_usage[];

/* 0; -EINVAL: *ret_wrong is the argument that is wrong, *ret_expected what was expected of it. Arguments are kept, not copied. */
int uma_guard_options_parse(int argc, char **argv, struct uma_guard_options *ret_options, const char **ret_wrong,
                            const char **ret_expected);
