/* SPDX-License-Identifier: MIT */
#include "observe/files/local_path.h"

#include "base/error.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

/* MAXSYMLINKS of the kernel (include/linux/namei.h). */
enum { LINKS_MAX = 40 };

static bool is_untouchable(const struct uma_mount *mount) {
    return mount && (mount->kind == UMA_FILESYSTEM_NETWORK || mount->kind == UMA_FILESYSTEM_FUSE || mount->kind == UMA_FILESYSTEM_PSEUDO);
}

/* Take the last name off; nothing is above the root. */
static void up(struct uma_text *path) {
    const char *slash = path->length ? memrchr(path->data, '/', path->length) : NULL;
    path->length = slash ? (size_t)(slash - path->data) : 0;
    if (path->data)
        path->data[path->length] = '\0';
}

static int look(const struct uma_mounts *mounts, const char *door, const char *path, struct stat *ret_st) {
    char whole[PATH_MAX];
    if (mounts && is_untouchable(uma_mounts_of_path(mounts, path)))
        return -EXDEV;
    if ((size_t)snprintf(whole, sizeof(whole), "%s%s", door, path) >= sizeof(whole))
        return -ENAMETOOLONG;
    return fstatat(AT_FDCWD, whole, ret_st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ? -errno : 0;
}

/* What a link says, and what was still to be looked up behind it. */
static int follow(const char *door, const struct uma_text *link, const char *rest, struct uma_text *ret_pending) {
    char whole[PATH_MAX], target[PATH_MAX];
    (void)snprintf(whole, sizeof(whole), "%s%s", door, link->data); /* fitted in look() */
    ssize_t n = readlink(whole, target, sizeof(target));
    if (n < 0)
        return -errno;
    if ((size_t)n == sizeof(target) || (size_t)n + strlen(rest) >= PATH_MAX)
        return -ENAMETOOLONG;
    _cleanup_text_ struct uma_text pending = { 0 };
    uma_text_append_n(&pending, target, (size_t)n);
    uma_text_char(&pending, '/');
    uma_text_append(&pending, rest);
    if (pending.failed)
        return -ENOMEM;
    struct uma_text old = *ret_pending;
    *ret_pending = pending;
    pending = old;
    return 0;
}

static int resolve(const struct uma_mounts *mounts, const char *door, struct uma_text *pending, struct uma_text *done, struct stat *st) {
    unsigned links = 0;
    for (size_t at = 0;;) {
        at += strspn(pending->data + at, "/");
        const char *name = pending->data + at;
        size_t n = strcspn(name, "/");
        if (n == 0)
            return look(mounts, door, done->length ? done->data : "/", st);
        at += n;
        if (n == 1 && name[0] == '.')
            continue;
        if (n == 2 && name[0] == '.' && name[1] == '.') {
            up(done);
            continue;
        }
        uma_text_char(done, '/');
        uma_text_append_n(done, name, n);
        int r = done->failed ? -ENOMEM : look(mounts, door, done->data, st);
        if (r < 0)
            return r;
        if (!S_ISLNK(st->st_mode))
            continue;
        if (++links > LINKS_MAX)
            return -ELOOP;
        r = follow(door, done, pending->data + at, pending);
        if (r < 0)
            return r;
        at = 0;
        if (pending->data[0] == '/') {
            done->length = 0;
            done->data[0] = '\0';
        } else
            up(done);
    }
}

int uma_local_path(const struct uma_mounts *mounts, const char *door, const char *path, struct uma_text *ret_path, struct stat *ret_st) {
    if (path[0] != '/')
        return -EINVAL;
    if (strlen(path) >= PATH_MAX)
        return -ENAMETOOLONG;
    _cleanup_text_ struct uma_text pending = { 0 }, done = { 0 };
    struct stat st;
    uma_text_append(&pending, path);
    if (pending.failed)
        return -ENOMEM;
    int r = resolve(mounts, door, &pending, &done, &st);
    if (r < 0)
        return r;
    uma_text_reset(ret_path);
    uma_text_append(ret_path, done.length ? done.data : "/");
    *ret_st = st;
    return ret_path->failed ? -ENOMEM : 0;
}
