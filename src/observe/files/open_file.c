/* SPDX-License-Identifier: MIT */
#include "observe/files/open_file.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

/* O_NONBLOCK: a lease that another process holds on the file is not waited for (fcntl(2), F_SETLEASE). */
enum { READ = O_RDONLY | O_NOCTTY | O_NONBLOCK };

/* O_NOATIME is for owners and CAP_FOWNER (open(2)); everybody else's open is refused with it, and is good without it. */
int uma_open_quietly(int folder, const char *name, int flags) {
    int fd = openat(folder, name, flags | O_NOATIME | O_CLOEXEC);
    if (fd < 0 && errno == EPERM)
        fd = openat(folder, name, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int refuse_unless_regular(int fd, struct stat *st) {
    if (fstat(fd, st) < 0)
        return -errno;
    if (S_ISREG(st->st_mode))
        return 0;
    return S_ISDIR(st->st_mode) ? -EISDIR : S_ISLNK(st->st_mode) ? -ELOOP : -ENXIO;
}

int uma_open_file_at(int folder, const char *name, bool follow, struct stat *ret_st) {
    int link_flag = follow ? 0 : O_NOFOLLOW;
    /* O_PATH finds the file without opening it, so that between looking at its type and opening it the name cannot come to mean another one */
    _cleanup_close_ int found = -1;
    if (name[0]) {
        found = openat(folder, name, O_PATH | O_CLOEXEC | link_flag);
        if (found < 0)
            return -errno;
    }
    int at = found >= 0 ? found : folder;
    struct stat st;
    int r = refuse_unless_regular(at, &st);
    if (r < 0)
        return r;
    char again[32];
    (void)snprintf(again, sizeof(again), "/proc/self/fd/%d", at);
    _cleanup_close_ int fd = uma_open_quietly(AT_FDCWD, again, READ);
    /* no /proc here, as in a bare chroot: by name once more, and looked at once more */
    if (fd == -ENOENT && name[0] && access("/proc/self/fd", F_OK) < 0)
        fd = uma_open_quietly(folder, name, READ | link_flag);
    if (fd < 0)
        return fd;
    r = refuse_unless_regular(fd, &st);
    if (r < 0)
        return r;
    if (ret_st)
        *ret_st = st;
    return TAKE_FD(fd);
}

int uma_cached_file_open(const struct uma_cached_file *file, struct stat *ret_st) {
    struct stat st = { 0 };
    _cleanup_close_ int fd = uma_open_file_at(AT_FDCWD, file->path, true, &st);
    if (fd < 0)
        return fd;
    if ((uint64_t)st.st_dev != file->device || (uint64_t)st.st_ino != file->inode)
        return -ESTALE;
    *ret_st = st;
    return TAKE_FD(fd);
}
