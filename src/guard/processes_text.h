/* SPDX-License-Identifier: MIT */
/*
 * processes_text.h - the files of /proc/PID that the guard reads, as text: stat, status, cgroup, cmdline. Pure, bounded by `n`, no allocation; what is not understood is not known. Formats: proc(5) and the
 * kernel's Documentation/filesystems/proc.rst. Names are hostile text: "foo) Z (" is one.
 */
#pragma once

#include "guard/reading.h"

struct uma_guard_stat {
    int32_t pid, parent, session;
    char state;        /* 'R', 'S', 'T', 'Z', ... */
    bool terminal;     /* has a controlling terminal */
    uint32_t flags;    /* PF_* of include/linux/sched.h */
    uint64_t faults;   /* minor and major */
    uint64_t threads;  /* with the first; 0 of one that is gone */
    uint64_t start;    /* clock ticks since boot */
    uint64_t resident; /* pages; 0 of one that ends */
    char name[UMA_GUARD_NAME_MAX];
};
#define UMA_GUARD_FLAG_EXITING UINT32_C(0x00000004)       /* PF_EXITING */
#define UMA_GUARD_FLAG_KERNEL_THREAD UINT32_C(0x00200000) /* PF_KTHREAD, unchanged since 2.6.27 */

/* False: it is no such file, or cut, and *ret_stat is as it was. */
bool uma_guard_stat_parse(const char *text, size_t n, struct uma_guard_stat *ret_stat);

struct uma_guard_status {
    bool known_uid, known_memory; /* of one without memory (kernel thread, zombie) all is 0, and known */
    uint32_t uid;                 /* effective: with whose rights it acts, and makes files */
    uint64_t anon, shmem, swap;   /* bytes: RssAnon, RssShmem, VmSwap */
};
/* False: nothing of it was there. `whole`: the text is not cut, so that what is not in it is not there. */
bool uma_guard_status_parse(const char *text, size_t n, bool whole, struct uma_guard_status *ret_status);

/* The paths of /proc/PID/cgroup, one a line and hierarchy: `*at` begins at the text and moves. False: no more. A line that is cut is left out. */
bool uma_guard_cgroup_next(const char **at, const char *end, const char **ret_path, size_t *ret_length);

/* Does this command line of a shell leave it to somebody at a terminal: neither a script nor -c? */
bool uma_guard_shell_sits(const char *cmdline, size_t n);
