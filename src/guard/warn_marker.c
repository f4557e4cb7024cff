/* SPDX-License-Identifier: MIT */
#include "guard/warn_marker.h"

#include "base/cleanup.h"
#include "guard/processes_text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
    STAT_TEXT = 1024, /* of /proc/PID/stat: of its 52 numbers the first 24, and a name of at most 64 bytes */
    /* of /proc/PID/status: SigCgt lies within the first 1,400 bytes, but for many groups (Groups: up to 65,536 numbers), where it then is not found: no warning rather than a wrong one */
    STATUS_TEXT = 8192,
    MARKS_MAX = 4096, /* that are looked at for dead ones */
};

const char *uma_guard_warn_folder(void) {
    const char *folder = secure_getenv(UMA_GUARD_WARN_FOLDER_VARIABLE);
    return folder && folder[0] ? folder : UMA_GUARD_WARN_FOLDER;
}

static bool name_format(int32_t pid, uint64_t start, char *buffer, size_t size) {
    int n = snprintf(buffer, size, UMA_GUARD_WARN_NAME "%" PRId32 "-%" PRIu64, pid, start);
    return pid > 0 && n > 0 && (size_t)n < size;
}

/* Digits without a leading zero, up to `end`. */
static const char *number(const char *s, uint64_t most, uint64_t *ret_value) {
    uint64_t value = 0;
    if (*s < '1' || *s > '9')
        return NULL;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value) || value > most)
            return NULL;
    *ret_value = value;
    return s;
}

bool uma_guard_warn_name_parse(const char *name, int32_t *ret_pid, uint64_t *ret_start) {
    uint64_t pid, start;
    size_t n = strlen(UMA_GUARD_WARN_NAME);
    if (strncmp(name, UMA_GUARD_WARN_NAME, n) != 0)
        return false;
    const char *s = number(name + n, INT32_MAX, &pid);
    s = s && *s == '-' ? number(s + 1, UINT64_MAX, &start) : NULL;
    if (!s || *s)
        return false;
    *ret_pid = (int32_t)pid;
    *ret_start = start;
    return true;
}

bool uma_guard_warn_mark_fine(const void *data, size_t length, int32_t pid, uint64_t start) {
    struct uma_guard_warn_mark mark;
    if (length != sizeof(mark))
        return false;
    memcpy(&mark, data, sizeof(mark));
    return mark.magic == UMA_GUARD_WARN_MAGIC && mark.pid == pid && mark.start == start && mark.signal >= 34 && mark.signal <= 64;
}

bool uma_guard_warn_marked(int folder, int32_t pid, uint64_t start, uint32_t uid, struct uma_guard_warn_mark *ret_mark) {
    char name[64], bytes[sizeof(struct uma_guard_warn_mark) + 1];
    struct stat st;
    if (!name_format(pid, start, name, sizeof(name)))
        return false;
    /* a FIFO is opened at once by a reader with O_NONBLOCK, and is no plain file */
    _cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != uid || st.st_nlink != 1)
        return false;
    ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
    if (n < 0 || !uma_guard_warn_mark_fine(bytes, (size_t)n, pid, start))
        return false;
    if (ret_mark)
        memcpy(ret_mark, bytes, sizeof(*ret_mark));
    return true;
}

/* ---- the signal ------------------------------------------------------------------------------------------------- */

/* "SigBlk:\t0000000000000200": is the bit set? */
static bool mask_has(const char *status, size_t length, const char *word, int signo) {
    size_t n = strlen(word);
    const char *end = status + length;
    for (const char *line = status; line && (size_t)(end - line) > n + 16; line = memchr(line, '\n', (size_t)(end - line))) {
        if (*line == '\n')
            line++;
        if ((size_t)(end - line) < n + 16)
            return false;
        if (memcmp(line, word, n) != 0)
            continue;
        uint64_t mask = 0;
        for (const char *s = line + n; s < line + n + 16; s++) {
            int digit = *s >= '0' && *s <= '9' ? *s - '0' : *s >= 'a' && *s <= 'f' ? *s - 'a' + 10 : -1;
            if (digit < 0)
                return false;
            mask = mask << 4 | (uint64_t)digit;
        }
        return mask >> (signo - 1) & 1;
    }
    return false;
}

bool uma_guard_signal_awaited(const char *status, size_t length, int signo) {
    if (signo < 1 || signo > 64)
        return false;
    return mask_has(status, length, "SigBlk:\t", signo) || mask_has(status, length, "SigCgt:\t", signo);
}

static ssize_t read_of(int32_t pid, const char *what, char *buffer, size_t size) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%" PRId32 "/%s", pid, what);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : pread(fd, buffer, size, 0);
}

bool uma_guard_signal_awaited_by(int32_t pid, int signo) {
    char status[STATUS_TEXT] = "";
    ssize_t n = read_of(pid, "status", status, sizeof(status));
    return n > 0 && uma_guard_signal_awaited(status, (size_t)n, signo);
}

bool uma_guard_stat_of(int32_t pid, struct uma_guard_stat *ret_stat) {
    char text[STAT_TEXT];
    ssize_t n = read_of(pid, "stat", text, sizeof(text));
    return n > 0 && uma_guard_stat_parse(text, (size_t)n, ret_stat);
}

uint64_t uma_guard_start_of(int32_t pid) {
    struct uma_guard_stat stat;
    return uma_guard_stat_of(pid, &stat) ? stat.start : 0;
}

int uma_guard_signal_if_awaited(int32_t pid, uint64_t start, int signo) {
    if (pid <= 0)
        return -ESRCH;
    _cleanup_close_ int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process < 0)
        return -errno;
    /* after the process is held: what is read now is of it, or of nobody whom the signal reaches */
    if (start == 0 || uma_guard_start_of(pid) != start)
        return -ESRCH;
    if (!uma_guard_signal_awaited_by(pid, signo))
        return -ENOTSUP;
    return syscall(SYS_pidfd_send_signal, process, signo, NULL, 0) < 0 ? -errno : 0;
}

/* ---- the job's side ----------------------------------------------------------------------------------------------- */

static bool lock(int fd) {
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    return fcntl(fd, F_OFD_SETLK, &whole) == 0;
}

/* Marks of this user that nobody holds: their umactl was killed. One that is still empty is being made. */
static void sweep(int folder) {
    _cleanup_close_ int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = again >= 0 ? fdopendir(again) : NULL;
    if (!dir)
        return;
    (void)TAKE_FD(again);
    int n = 0;
    for (struct dirent *d; n < MARKS_MAX && (d = readdir(dir));) {
        int32_t pid;
        uint64_t start;
        struct stat st;
        if (!uma_guard_warn_name_parse(d->d_name, &pid, &start))
            continue;
        n++;
        _cleanup_close_ int fd = openat(folder, d->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size > 0 && lock(fd))
            (void)unlinkat(folder, d->d_name, 0);
    }
}

static int put(int fd, uint64_t start, int signo) {
    struct uma_guard_warn_mark mark = { .magic = UMA_GUARD_WARN_MAGIC, .pid = getpid(), .signal = (uint32_t)signo, .start = start };
    if (!lock(fd))
        return -errno;
    (void)fchmod(fd, 0644); /* a guard of another user than root reads it, whatever this user's umask */
    ssize_t n = pwrite(fd, &mark, sizeof(mark), 0);
    return n == (ssize_t)sizeof(mark) ? 0 : n < 0 ? -errno : -ENOSPC;
}

int uma_guard_warn_mark_make(const char *folder, uint64_t start, int signo, struct uma_guard_warn_made *ret_made, struct uma_error *err) {
    char name[64];
    *ret_made = (struct uma_guard_warn_made){ .fd = -1 };
    _cleanup_close_ int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return uma_error_set(err, errno, "%.255s", folder);
    if (start == 0 || !name_format(getpid(), start, name, sizeof(name)) ||
        snprintf(ret_made->path, sizeof(ret_made->path), "%s/%s", folder, name) >= (int)sizeof(ret_made->path))
        return uma_error_text(err, ENAMETOOLONG, "%.255s: no name for a mark", folder);
    sweep(dir);
    (void)unlinkat(dir, name, 0); /* one of this very process: an exec of umactl by umactl */
    _cleanup_close_ int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return uma_error_set(err, errno, "%s", ret_made->path);
    int r = put(fd, start, signo);
    if (r < 0) {
        (void)unlinkat(dir, name, 0);
        return uma_error_set(err, -r, "%s", ret_made->path);
    }
    ret_made->fd = TAKE_FD(fd);
    return 0;
}

void uma_guard_warn_mark_remove(struct uma_guard_warn_made *made) {
    if (made->fd < 0)
        return;
    (void)unlink(made->path);
    (void)close(TAKE_FD(made->fd));
}
