/* SPDX-License-Identifier: MIT */
/*
 * child.h - one program that tells people: started without a shell, in a process group of its own, with nothing of ours but what it is given, and ended when it takes too long. Never waited for: whoever has it
 * polls its descriptor. It is reaped by its number, and no other child is.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct uma_helper_program {
    const char *path;
    const char *const *argv;
    const char *const *environment;
    int in, extra; /* become descriptors 0 and 3; -1: /dev/null, none */
    bool as_other; /* as this user and group, without any other group */
    uid_t uid;
    gid_t gid;
};

struct uma_helper_child {
    pid_t pid; /* 0: none */
    int pidfd; /* readable at its end; -1: the kernel has none (before 5.3), and its end is seen when it is looked for */
    int64_t ends_ns;
    bool killed;
};

int uma_helper_child_start(const struct uma_helper_program *program, int64_t ends_ns, struct uma_helper_child *ret_child,
                           struct uma_error *err);
/* 1: it has ended (child->pid is 0 again), *ret_status is its wait(2) status; 0: it runs, and is killed when its time is over. */
int uma_helper_child_check(struct uma_helper_child *child, int64_t now_ns, int *ret_status);
/* Ends it now, whole group, and waits for it at most a moment. */
void uma_helper_child_end(struct uma_helper_child *child);
/* Text in memory, as a file to read from; -errno. */
int uma_helper_text_file(const char *data, size_t length, struct uma_error *err);
/* The first of the usual folders that has this program; false: none. */
bool uma_helper_program_find(const char *name, char *ret_path, size_t size);
