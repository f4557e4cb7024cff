/* SPDX-License-Identifier: MIT */
/*
 * terminal.h - who may use the controlling terminal. There is no pty between job and terminal: the job's process group itself becomes the foreground
 * group, so Ctrl-C, Ctrl-Z and the window size come to it from the kernel, and its output is its own.
 *
 * In a pipeline (umactl run -- train | less) others share umactl's group and may need the terminal: there the job gets it only when it asks
 * for it (the kernel stops it with SIGTTIN or SIGTTOU); until then umactl forwards what the terminal sends to the pipeline.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct uma_terminal {
    int fd;          /* /dev/tty, -1: none */
    pid_t own_group; /* umactl's process group */
    bool eager;      /* hand over at the start */
    bool shared;     /* others are in umactl's group */
    bool given;      /* the job has it */
};

void uma_terminal_open(struct uma_terminal *ret_terminal);
/* Make `group` the foreground group when umactl's is. SIGTTOU must be ignored. True when it is now. */
bool uma_terminal_give(struct uma_terminal *terminal, pid_t group);
/* Take it back when `group` has it still. */
void uma_terminal_take(struct uma_terminal *terminal, pid_t group);
void uma_terminal_close(struct uma_terminal *terminal);
