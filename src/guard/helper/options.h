/* SPDX-License-Identifier: MIT */
/* options.h - the command line of uma-guard-helper. */
#pragma once

struct uma_helper_options {
    const char *run_folder;  /* UMA_GUARD_RUN_FOLDER */
    const char *policy;      /* NULL: the standard places */
    const char *warn_folder; /* where jobs leave their marks */
};

enum { UMA_HELPER_GO_ON = -1 };

/* UMA_HELPER_GO_ON, or the exit status: an answer was printed, or what is wrong. */
int uma_helper_options_read(int argc, char **argv, struct uma_helper_options *ret_options);
