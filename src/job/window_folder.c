/* SPDX-License-Identifier: MIT */
#include "job/window_folder.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "umactl-window-"
#define RANDOM "XXXXXX"  /* mkdtemp(3) */
#define SOCKET "helpers" /* cache/follow.h */

enum {
    ENTRIES_MAX = 65536, /* a full /tmp is not searched to its end: what is left is removed another time */
    REMOVED_MAX = 64,
    TRIES_MAX = 8, /* a folder that another run took for left before it was locked is made again */
};

static bool is_ours(const struct stat *st) {
    return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && (st->st_mode & 0777) == 0700;
}

/* The folder, locked; -1: it is not one of ours, somebody has it, or it cannot be locked. */
static int lock_left(int place, const char *name) {
    struct stat st;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || strlen(name) != strlen(PREFIX RANDOM))
        return -1;
    if (fstatat(place, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !is_ours(&st))
        return -1;
    _cleanup_close_ int fd = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !is_ours(&st) || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -1;
    return TAKE_FD(fd);
}

/* Whatever else lies in it makes rmdir fail, and it stays. */
static bool remove_left(int place, const char *name) {
    struct stat st;
    _cleanup_close_ int fd = lock_left(place, name);
    if (fd < 0)
        return false;
    if (fstatat(fd, SOCKET, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode))
        (void)unlinkat(fd, SOCKET, 0);
    return unlinkat(place, name, AT_REMOVEDIR) == 0;
}

static void remove_all_left(const char *path) {
    _cleanup_closedir_ DIR *dir = opendir(path);
    unsigned removed = 0, entries = 0;
    if (!dir)
        return;
    for (struct dirent *d; removed < REMOVED_MAX && entries < ENTRIES_MAX && (d = readdir(dir)); entries++)
        removed += remove_left(dirfd(dir), d->d_name);
}

/* False: another run removed it before it was locked. */
static bool lock(struct uma_window_folder *folder) {
    struct stat st;
    folder->lock_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder->lock_fd < 0) {
        (void)rmdir(folder->path);
        return false;
    }
    bool locked = flock(folder->lock_fd, LOCK_EX | LOCK_NB) == 0, taken = !locked && errno == EWOULDBLOCK;
    if (taken || fstat(folder->lock_fd, &st) < 0 || st.st_nlink == 0) {
        (void)close(folder->lock_fd);
        return false;
    }
    if (!locked) { /* where nobody can lock, nobody removes */
        (void)close(folder->lock_fd);
        folder->lock_fd = -1;
    }
    return true;
}

int uma_window_folder_make(struct uma_window_folder *ret_folder, struct uma_error *err) {
    const char *places[] = { secure_getenv("XDG_RUNTIME_DIR"), secure_getenv("TMPDIR"), "/tmp" };
    int error = ENOENT;
    for (size_t i = 0; i < ELEMENTS(places); i++) {
        struct uma_window_folder folder;
        if (!places[i] || places[i][0] != '/')
            continue;
        remove_all_left(places[i]);
        for (int tries = 0; tries < TRIES_MAX; tries++) {
            int n = snprintf(folder.path, sizeof(folder.path), "%s/" PREFIX RANDOM, places[i]);
            if (n >= (int)sizeof(folder.path))
                break;
            if (!mkdtemp(folder.path)) { /* mode 0700 */
                error = errno;
                break;
            }
            if (lock(&folder)) {
                *ret_folder = folder;
                return 0;
            }
            error = EBUSY;
        }
    }
    return uma_error_set(err, error, "a folder for the helper's socket");
}

void uma_window_folder_remove(struct uma_window_folder *folder) {
    if (!folder->path[0])
        return;
    (void)rmdir(folder->path);
    if (folder->lock_fd >= 0)
        (void)close(folder->lock_fd);
    *folder = (struct uma_window_folder){ .lock_fd = -1 };
}
