/* SPDX-License-Identifier: MIT */
/*
 * warn_marker.h - how a job's umactl says that it wants to be told before the guard ends the job (umactl run --warn), and how it is told. The mark is a small file of a fixed name, FOLDER/umactl-warn-PID-START,
 * that belongs to the user of that process; it names a realtime signal that this umactl waits for. Whoever warns sends that signal, and umactl does the rest, as its own user: it writes the file or sends
 * the signal that the job chose. Nobody with more rights than the job's ever opens, writes or follows what a user named.
 *
 * Safe against a hostile mark: it counts only for a process of the very user that owns the file, with that pid and start; and the signal is sent only to a process that blocks or catches it, because any
 * other would be ended by it. Nothing here allocates, but uma_guard_warn_mark_make().
 */
#pragma once

#include "base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UMA_GUARD_WARN_FOLDER "/dev/shm"                    /* where every user may make a file, in memory, and gone with the machine */
#define UMA_GUARD_WARN_FOLDER_VARIABLE "UMACTL_WARN_FOLDER" /* another one: for a container that was given the host's, and for tests */
#define UMA_GUARD_WARN_NAME "umactl-warn-"
#define UMA_GUARD_WARN_MAGIC UINT64_C(0x316e726177616d75) /* "umawarn1" */
#define UMA_GUARD_WARN_PROGRAM "umactl"                   /* only a process of this name can have a mark: nobody else need be looked up */

struct uma_guard_stat;

/* The file. */
struct uma_guard_warn_mark {
    uint64_t magic;
    int32_t pid;
    uint32_t signal; /* SIGRTMIN to SIGRTMAX of its libc: 34 to 64 */
    uint64_t start;  /* clock ticks since boot */
    uint64_t reserved_[5];
};
_Static_assert(sizeof(struct uma_guard_warn_mark) == 64, "the file is the same for all builds");

/* The environment's folder, or the usual one. */
const char *uma_guard_warn_folder(void);

/*
 * Has this process a mark? `folder`: open on it (O_PATH will do). `uid`: whose process it is (owner of /proc/PID). Four system calls, no allocation. *ret_mark may be NULL. Once for each new process named
 * "umactl" is enough: a mark is there before the job grows. Everything below such a process, and what it is below, has a warning: UMA_GUARD_WARNS.
 */
bool uma_guard_warn_marked(int folder, int32_t pid, uint64_t start, uint32_t uid, struct uma_guard_warn_mark *ret_mark);
/* The file's bytes: is it the mark of that process? Pure. */
bool uma_guard_warn_mark_fine(const void *data, size_t length, int32_t pid, uint64_t start);
/* "umactl-warn-77-1234": 77 and 1234, written as umactl writes them. Pure. */
bool uma_guard_warn_name_parse(const char *name, int32_t *ret_pid, uint64_t *ret_start);

/*
 * The signal to that very process (pid and start), and only if it blocks or catches it. 0; -ESRCH: it is gone, or another has its number; -ENOTSUP: the signal would end it, or be nothing to it; -EPERM.
 * Nothing is allocated.
 */
int uma_guard_signal_if_awaited(int32_t pid, uint64_t start, int signo);
/* What /proc/PID/stat says (processes_text.h); false: it cannot be said. */
bool uma_guard_stat_of(int32_t pid, struct uma_guard_stat *ret_stat);
/* When the process began, in clock ticks since boot; 0: it cannot be said. */
uint64_t uma_guard_start_of(int32_t pid);
/* Does /proc/PID/status say that its first thread blocks the signal, or that it catches it? One that sits in sigwait(3) just now blocks nothing there, and is taken for one that would be ended. Pure. */
bool uma_guard_signal_awaited(const char *status, size_t length, int signo);

/* That question about a running process. */
bool uma_guard_signal_awaited_by(int32_t pid, int signo);

/* ---- the job's side ----------------------------------------------------------------------------------------------- */

/* This process's mark, kept for as long as the descriptor is held (a lock on it tells others that its owner lives). Removes marks of this user whose owners are gone. */
struct uma_guard_warn_made {
    int fd; /* -1: none */
    char path[256];
};
/* -errno: there is none. *ret_made is closed by uma_guard_warn_mark_remove() in any case. */
int uma_guard_warn_mark_make(const char *folder, uint64_t start, int signo, struct uma_guard_warn_made *ret_made, struct uma_error *err);
void uma_guard_warn_mark_remove(struct uma_guard_warn_made *made);
/* The signal that umactl run waits for. */
static inline int uma_guard_warn_signal(void) {
    return SIGRTMIN + 11; /* far from those that libraries take from either end */
}
