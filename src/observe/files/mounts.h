/* SPDX-License-Identifier: MIT */
/*
 * mounts.h - what lies where in a process's view: the file systems of /proc/PID/mountinfo, so that nothing that may hang (network, FUSE) is touched
 * unasked, memory is not taken for cache, and a file behind an overlay is counted once.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/root.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum uma_filesystem_kind {
    UMA_FILESYSTEM_LOCAL,   /* storage of this machine; also what is not known, which then is looked at */
    UMA_FILESYSTEM_MEMORY,  /* tmpfs, ramfs, hugetlbfs, devtmpfs: pages that are the file */
    UMA_FILESYSTEM_OVERLAY, /* overlay: pages belong to a file of a layer */
    UMA_FILESYSTEM_NETWORK, /* nfs, cifs, ceph, lustre, 9p, ...: touching it may wait for another machine */
    UMA_FILESYSTEM_FUSE,    /* a program answers, or does not */
    UMA_FILESYSTEM_PSEUDO,  /* proc, sysfs, cgroup, autofs, ...: no files with cache */
    UMA_FILESYSTEM_KINDS,
};
enum uma_filesystem_kind uma_filesystem_kind_of(const char *type); /* "ext4" */

struct uma_mount {
    int32_t id, parent;
    uint32_t major, minor;    /* st_dev of files on it (not on btrfs, whose subvolumes have others) */
    const char *root, *point; /* unescaped */
    const char *type, *source;
    /* overlay: upperdir=, or NULL; lowerdir=, lowerdir+= and data-only layers, uppermost first. As whoever mounted it gave them: in the view of that process, and
     * relative ones ("l/ABC") to a folder that only it knows. */
    const char *upper;
    uint32_t n_lower;
    const char *const *lower;
    enum uma_filesystem_kind kind;
    bool read_only;
};
#define UMA_MOUNTS_MAX 16384

struct uma_mounts {
    size_t n;
    struct uma_mount *list;
};

/*
 * Pure. Lines that are cut, foreign or beyond UMA_MOUNTS_MAX are skipped and counted in the positive result; -EINVAL: a text without a single good line,
 * with the first bad one named.
 */
int uma_mounts_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_mounts *ret_mounts,
                     struct uma_error *err);
/* /proc/PID/mountinfo; /proc/self/mountinfo for pid 0. Never recorded in a capture: it names servers, users and folders. */
int uma_mounts_read(struct uma_root *root, pid_t pid, struct uma_arena *arena, struct uma_mounts *ret_mounts, struct uma_error *err);
/*
 * The mount that an absolute path without links lies on, as a walk from the root finds it: a mount that a later one hides is not taken. NULL when
 * there is none. Pure.
 */
const struct uma_mount *uma_mounts_of_path(const struct uma_mounts *mounts, const char *path);
/* A mount of that device, one that shows the whole file system where there is one. NULL: none. Pure. */
const struct uma_mount *uma_mounts_of_device(const struct uma_mounts *mounts, dev_t device);
