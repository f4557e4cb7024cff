/* SPDX-License-Identifier: MIT */
#include "guard/ring_file.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

/* Two guards that begin at the same moment may each find the other's half-made file: after so many tries the other one has it. */
enum { TRIES = 4 };

static const char *reason(int code) {
    switch (code) {
    case EWOULDBLOCK:
        return "another guard keeps its records there";
    case ELOOP:
        return "there is a symbolic link in the place of the file";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return "there is no room for the file on its disk";
    case EROFS:
        return "its disk cannot be written to";
    case EACCES:
    case EPERM:
        return "the folder may not be written to";
    case ENOENT:
    case ENOTDIR:
        return "there is no such folder";
    default:
        return "the file cannot be opened";
    }
}

/* Is the open file still the one of that name? Another guard may have set it aside before it was locked. */
static bool is_there(int folder, const char *name, int fd) {
    struct stat here, there;
    return fstat(fd, &here) == 0 && fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

static bool has_form(int fd, const struct uma_guard_ring_form *form) {
    struct stat st;
    uint8_t head[UMA_GUARD_RING_HEAD];
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (uint64_t)st.st_size == form->size &&
           pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) && memcmp(head, form->head, sizeof(head)) == 0;
}

static int write_zeros(int fd, uint64_t size) {
    static const uint8_t zeros[4096];
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < sizeof(zeros) ? (size_t)(size - at) : sizeof(zeros);
        ssize_t r = pwrite(fd, zeros, n, (off_t)at);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return r < 0 ? -errno : -EIO;
        at += (uint64_t)r;
    }
    return 0;
}

/* The head is written last: a file that was cut before it is one of another form, and is begun anew. */
static int fill(int folder, int fd, const struct uma_guard_ring_form *form) {
    int r = 0;
    if (fchmod(fd, 0640) < 0)
        return -errno;
    do
        r = posix_fallocate(fd, 0, (off_t)form->size);
    while (r == EINTR);
    if (r)
        return -r;
    if (form->zeroed && (r = write_zeros(fd, form->size)) < 0)
        return r;
    ssize_t n = pwrite(fd, form->head, sizeof(form->head), 0);
    if (n != (ssize_t)sizeof(form->head))
        return n < 0 ? -errno : -EIO;
    (void)fdatasync(fd);
    (void)fsync(folder); /* its name, too */
    return 0;
}

static int make(int folder, const struct uma_guard_ring_form *form) {
    _cleanup_close_ int fd = openat(folder, form->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    if (!is_there(folder, form->name, fd))
        return -ESTALE; /* another guard took it for one of another form before it was locked */
    int r = fill(folder, fd, form);
    if (r < 0) {
        (void)unlinkat(folder, form->name, 0);
        return r;
    }
    return TAKE_FD(fd);
}

static int set_aside(int folder, const char *name) {
    char old[64];
    size_t n = strlen(name);
    if (n + sizeof(".old") > sizeof(old))
        return -ENAMETOOLONG;
    memcpy(old, name, n);
    memcpy(old + n, ".old", sizeof(".old"));
    return renameat(folder, name, folder, old) < 0 ? -errno : 0;
}

/* One try: a descriptor, -ESTALE to try again, -errno. */
static int attempt(int folder, const struct uma_guard_ring_form *form, const char **ret_note) {
    /* not blocking: what stands there may be a pipe */
    _cleanup_close_ int fd = openat(folder, form->name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        int r = make(folder, form);
        return r == -EEXIST ? -ESTALE : r;
    }
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    if (!is_there(folder, form->name, fd))
        return -ESTALE;
    if (has_form(fd, form))
        return TAKE_FD(fd);
    int r = set_aside(folder, form->name);
    if (r < 0)
        return r;
    *ret_note = "what was kept there has another form: it is set aside with the ending .old, and begun anew";
    return -ESTALE;
}

int uma_guard_ring_file_open(const char *folder, const struct uma_guard_ring_form *form, const char **ret_note) {
    *ret_note = NULL;
    _cleanup_close_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = dir < 0 ? -errno : -ESTALE;
    for (int i = 0; i < TRIES && r == -ESTALE; i++)
        r = attempt(dir, form, ret_note);
    if (r < 0)
        *ret_note = reason(-r);
    return r;
}

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void uma_guard_boot_id(uint8_t ret_boot[16]) {
    char text[40];
    memset(ret_boot, 0, 16);
    _cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text));
    size_t digits = 0;
    for (ssize_t i = 0; i < length && digits < 32; i++) {
        int digit = hex(text[i]);
        if (digit < 0)
            continue; /* the dashes between the groups */
        ret_boot[digits / 2] = (uint8_t)(ret_boot[digits / 2] << 4 | digit);
        digits++;
    }
}
