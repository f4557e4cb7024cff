/* SPDX-License-Identifier: MIT */
/*
 * file_view.h - where a process's paths lead: its mount namespace and root folder, the mounts there, and how a path of it is reached from this process.
 * Processes of one view share it. Says which paths may be touched: network and FUSE mounts may wait for ever. Follows no link.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "base/text.h"
#include "observe/files/mounts.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct uma_file_view {
    bool own;                /* this process's mount namespace: /proc shows paths there as this process sees them, chroot or not */
    const char *name, *root; /* /proc/PID/ns/mnt, and /proc/PID/root where not own; "" for "/" */
    struct uma_mounts mounts;
    bool has_mounts;
    const struct uma_mount **by_id;   /* ascending */
    const struct uma_mount **hanging; /* network, FUSE and autofs */
    size_t n_hanging;
};
#define UMA_FILE_VIEWS_MAX 4096 /* a machine full of containers has some hundreds */

struct uma_file_views {
    struct uma_root *root;
    struct uma_arena *arena; /* mounts live here, as long as the caller's results */
    struct uma_file_view **list;
    size_t n, capacity;
};

/* Views of this machine; the first is this process's own. -errno: not even that one. */
int uma_file_views_open(struct uma_root *root, struct uma_arena *arena, struct uma_file_views *ret_views, struct uma_error *err);
void uma_file_views_done(struct uma_file_views *views);
/*
 * The number of the view of the process whose /proc/PID is open as `folder`. -EACCES not this user's, -ENOENT or -ESRCH gone or a zombie,
 * -ENOMEM, -E2BIG too many.
 */
int uma_file_views_of(struct uma_file_views *views, int folder, pid_t pid);

/* By the mount id of fdinfo, which other views' processes may hold too (a descriptor that was passed on): whose it is, or NULL. */
const struct uma_mount *uma_file_views_mount(const struct uma_file_views *views, int view, int32_t id, int *ret_view);
/* By the device of maps. NULL: in no view. */
const struct uma_mount *uma_file_views_device(const struct uma_file_views *views, int view, dev_t device);
bool uma_mount_may_hang(const struct uma_mount *mount);

/* A path of /proc within the view: less the view's root. NULL: not below that root. */
const char *uma_file_view_inner(const struct uma_file_view *view, const char *path);
/* No mount that may hang lies on the way. `inner` as of uma_file_view_inner. */
bool uma_file_view_is_safe(const struct uma_file_view *view, const char *inner);
/*
 * stat(2) of an inner path, through `folder` (/proc/PID of a process of that view) where the view is not own. Refuses what is not safe, and any link
 * on the way, which /proc's paths do not have.
 */
bool uma_file_view_stat(const struct uma_file_view *view, int folder, const char *inner, struct stat *ret_st);
