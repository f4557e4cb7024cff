/* SPDX-License-Identifier: MIT */
/*
 * process_files.h - the files that processes have open or mapped, from /proc/PID/fd, fdinfo and maps: what keeps cache in place, and deleted files that nothing else
 * can find. Processes end while they are read; their names and paths are hostile text. Other users' processes are not readable without
 * CAP_SYS_PTRACE: they are counted, not guessed.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/root.h"
#include "observe/files/maps.h"
#include "observe/files/mounts.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One file in use, all its users together. Files are told apart by device and inode. */
struct uma_used_file {
    uint64_t device, inode; /* st_dev of stat(2) where it could be had, else of maps */
    const char
        *path; /* for opening from here: "/models/a", "/proc/77/root/models/a" (another mount namespace), "/proc/77/fd/5" (deleted) */
    const char *shown; /* for people: as its process sees it */
    bool deleted;
    int32_t mount_id; /* in its process's view, -1 unknown */
    int32_t pid;      /* whose view the path is in */
    bool other_view;  /* that process has another mount namespace than this one */
    uint64_t size;    /* st_size, 0 when not known */
    size_t n_mapped_by, n_open_by;
    int32_t *mapped_by, *open_by; /* ascending, each once */
};
#define UMA_USED_FILES_MAX 262144

struct uma_used_files {
    size_t n;
    struct uma_used_file *list;
    uint64_t processes, denied; /* looked at; of these not readable for this user */
    bool cut;
};
/*
 * Regular files (and memfds, marked deleted) of every process of this machine. `deadline_ns`: CLOCK_MONOTONIC, 0 none. Nothing on network or FUSE mounts is
 * touched (no stat, no open): such files are there with size 0 and what maps and links say. Kernel threads are passed over.
 */
int uma_used_files_read(struct uma_root *root, int64_t deadline_ns, struct uma_arena *arena, struct uma_used_files *ret_files,
                        struct uma_error *err);
