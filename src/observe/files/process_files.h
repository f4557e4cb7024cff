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
    uint64_t device, inode; /* st_dev of stat(2) where it could be had, else of maps or the mount; 0: not known */
    /*
     * For opening from here: "/models/a"; "/proc/77/root/models/a" (another mount namespace); "/proc/77/fd/5" (deleted, or out of reach by name); for what is
     * mapped only "/proc/77/map_files/7f00-7f10", which root alone may open. It leads to this file as long as that process keeps it.
     */
    const char *path;
    const char *shown; /* for people: the path in its process's view, or in this one's where it can be seen here */
    bool deleted;      /* no name is left (st_nlink 0); where it could not be looked at: as /proc says */
    bool looked_at;    /* its size is known, and so is that it is a regular file */
    bool may_hang;     /* on a network or FUSE mount, or on one that no view shows: it was not touched, and opening it may wait for ever */
    enum uma_filesystem_kind kind; /* LOCAL where not known */
    const struct uma_mount *mount; /* in the arena; NULL: not known, and for memfds and System V shared memory */
    int32_t mount_id;              /* in its process's view, -1 unknown */
    int32_t pid;                   /* whose view the path is in */
    bool other_view;               /* that process has another mount namespace than this one */
    uint64_t size;                 /* st_size, 0 when not known */
    size_t n_mapped_by, n_open_by;
    int32_t *mapped_by, *open_by; /* ascending, each once */
};
#define UMA_USED_FILES_MAX 262144

struct uma_used_files {
    size_t n;
    struct uma_used_file *list;
    uint64_t processes, denied; /* looked at; not readable for this user, not among those */
    bool cut;                   /* the time or the room ran out */
};
/*
 * Regular files (and memfds and System V shared memory, marked deleted) of every process of this machine but this one. `deadline_ns`: CLOCK_MONOTONIC, 0 none.
 * Nothing on network or FUSE mounts is touched (no stat, no open): such files are there with size 0 and what maps and links say. Files of proc, sysfs and their like, and
 * /dev but for /dev/shm, are left out. Kernel threads and zombies are passed over. -EOPNOTSUPP in a folder (--root): there nothing is live.
 */
int uma_used_files_read(struct uma_root *root, int64_t deadline_ns, struct uma_arena *arena, struct uma_used_files *ret_files,
                        struct uma_error *err);
