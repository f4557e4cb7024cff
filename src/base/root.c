/* SPDX-License-Identifier: MIT */
#include "base/root.h"

#include "base/units.h"
#include "base/write.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

struct uma_root {
    int fd; /* O_PATH of the root folder */
    bool live;
    char *name;     /* "" for this machine */
    int capture_fd; /* -1: none */
    char *capture;
};

struct uma_root *uma_root_close(struct uma_root *root) {
    if (!root)
        return NULL;
    uma_cleanup_close(&root->fd);
    uma_cleanup_close(&root->capture_fd);
    free(root->name);
    free(root->capture);
    free(root);
    return NULL;
}

static int open_capture(struct uma_root *root, const char *capture, struct uma_error *err) {
    if (mkdir(capture, 0700) < 0 && errno != EEXIST)
        return uma_error_set(err, errno, "%s: cannot create the folder", capture);
    root->capture_fd = open(capture, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root->capture_fd < 0)
        return uma_error_set(err, errno, "%s", capture);
    _cleanup_closedir_ DIR *d = opendir(capture);
    if (!d)
        return uma_error_set(err, errno, "%s", capture);
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            return uma_error_text(err, ENOTEMPTY, "%s: the folder for the capture is not empty (it holds \"%s\")", capture, e->d_name);
    root->capture = strdup(capture);
    return root->capture ? 0 : uma_error_set(err, ENOMEM, "%s", capture);
}

int uma_root_open(const char *path, const char *capture, struct uma_root **ret_root, struct uma_error *err) {
    _cleanup_root_ struct uma_root *root = calloc(1, sizeof(*root));
    if (!root)
        return uma_error_set(err, ENOMEM, "opening the root");
    root->capture_fd = -1;
    root->live = !path || strcmp(path, "/") == 0;
    root->name = strdup(root->live ? "" : path);
    root->fd = open(root->live ? "/" : path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root->fd < 0)
        return uma_error_set(err, errno, "%s: cannot be used as the root of a machine", path ? path : "/");
    if (!root->name)
        return uma_error_set(err, ENOMEM, "opening the root");
    if (capture) {
        int r = open_capture(root, capture, err);
        if (r < 0)
            return r;
    }
    *ret_root = TAKE_PTR(root);
    return 0;
}

bool uma_root_is_live(const struct uma_root *root) {
    return root->live;
}
const char *uma_root_name(const struct uma_root *root) {
    return root->name;
}
const char *uma_root_capture(const struct uma_root *root) {
    return root->capture;
}

/* In a folder that somebody gave us, "..", absolute links and magic links must not reach this machine's own files. */
static int open_in(const struct uma_root *root, int folder, const char *path, int flags) {
    if (root->live)
        return openat(folder, path, flags | O_CLOEXEC);
    struct open_how how = { .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC), .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
    long fd = syscall(SYS_openat2, folder, path, &how, sizeof(how));
    if (fd >= 0 || errno != ENOSYS)
        return (int)fd;
    /* before 5.6 and under user-mode emulation: walk by hand and refuse links altogether */
    char rest[PATH_MAX];
    if (strlen(path) >= sizeof(rest)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    (void)memcpy(rest, path, strlen(path) + 1);
    _cleanup_close_ int at = fcntl(folder, F_DUPFD_CLOEXEC, 3);
    if (at < 0)
        return -1;
    char *save = NULL, *part = strtok_r(rest, "/", &save);
    while (part) {
        char *next = strtok_r(NULL, "/", &save);
        if (strcmp(part, "..") == 0) {
            errno = EXDEV;
            return -1;
        }
        int step = openat(at, part, next ? O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC : flags | O_NOFOLLOW | O_CLOEXEC);
        if (step < 0)
            return -1;
        (void)close(at);
        at = step;
        part = next;
    }
    return TAKE_FD(at);
}

static int open_below(const struct uma_root *root, const char *path, int flags) {
    return open_in(root, root->fd, path, flags);
}

static int failed(const struct uma_root *root, const char *path, int code, struct uma_error *err) {
    return uma_error_set(err, code, "%s/%s", root->name, path);
}

/* Open a file of `folder`; -errno without words, so that callers say which path it was (or nothing, where failing is normal). */
static int open_regular(const struct uma_root *root, int folder, const char *path) {
    _cleanup_close_ int fd = open_in(root, folder, path, O_RDONLY | O_NOCTTY | (root->live ? 0 : O_NONBLOCK));
    if (fd < 0)
        return -errno;
    if (!root->live) {
        struct stat st;
        if (fstat(fd, &st) < 0)
            return -errno;
        if (S_ISDIR(st.st_mode))
            return -EISDIR;
        if (!S_ISREG(st.st_mode))
            return -EINVAL;
    }
    return TAKE_FD(fd);
}

static int open_file(const struct uma_root *root, const char *path, struct uma_error *err) {
    int fd = open_regular(root, root->fd, path);
    if (fd == -EINVAL)
        return uma_error_text(err, EINVAL, "%s/%s: not a regular file", root->name, path);
    return fd < 0 ? failed(root, path, -fd, err) : fd;
}

/* Read from offset 0 to the end or to max. Kernel files give at most a page or so per read, so loop. */
static int read_all(const struct uma_root *root, int fd, const char *path, size_t max, bool seekable, struct uma_text *into,
                    struct uma_error *err) {
    uma_text_reset(into);
    enum { STEP = 4096 };
    for (;;) {
        if (!uma_text_reserve(into, into->length ? STEP : 2 * STEP - 1))
            return failed(root, path, ENOMEM, err);
        size_t room = MIN_OF(into->capacity - into->length - 1, max + 1 - into->length);
        ssize_t n = seekable ? pread(fd, into->data + into->length, room, (off_t)into->length) : read(fd, into->data + into->length, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            into->data[into->length] = '\0';
            return failed(root, path, errno, err);
        }
        into->length += (size_t)n;
        into->data[into->length] = '\0';
        if (n == 0)
            return 0;
        if (into->length > max) {
            into->length = max;
            into->data[max] = '\0';
            return 1;
        }
    }
}

int uma_root_record(struct uma_root *root, const char *path, const char *text, size_t length, struct uma_error *err) {
    if (root->capture_fd < 0)
        return 0;
    _cleanup_close_ int at = fcntl(root->capture_fd, F_DUPFD_CLOEXEC, 3);
    char rest[PATH_MAX];
    if (at < 0 || strlen(path) >= sizeof(rest))
        return uma_error_set(err, at < 0 ? errno : ENAMETOOLONG, "%s/%s", root->capture, path);
    (void)memcpy(rest, path, strlen(path) + 1);
    char *save = NULL, *part = strtok_r(rest, "/", &save);
    for (char *next = NULL; part; part = next) {
        next = strtok_r(NULL, "/", &save);
        if (strcmp(part, "..") == 0)
            return uma_error_text(err, EXDEV, "%s/%s: leads out of the capture folder", root->capture, path);
        if (!next)
            break;
        if (mkdirat(at, part, 0700) < 0 && errno != EEXIST)
            return uma_error_set(err, errno, "%s/%s", root->capture, path);
        int step = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (step < 0)
            return uma_error_set(err, errno, "%s/%s", root->capture, path);
        (void)close(at);
        at = step;
    }
    if (!part)
        return uma_error_set(err, EINVAL, "%s/%s", root->capture, path);
    _cleanup_close_ int fd = openat(at, part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return uma_error_set(err, errno, "%s/%s", root->capture, path);
    int r = uma_write_all(fd, text, length);
    return r < 0 ? uma_error_set(err, -r, "%s/%s", root->capture, path) : 0;
}

int uma_root_read_unrecorded(struct uma_root *root, const char *path, size_t max, struct uma_text *into, struct uma_error *err) {
    _cleanup_close_ int fd = open_file(root, path, err);
    if (fd < 0)
        return fd;
    return read_all(root, fd, path, max, false, into, err);
}

int uma_root_read(struct uma_root *root, const char *path, size_t max, struct uma_text *into, struct uma_error *err) {
    int r = uma_root_read_unrecorded(root, path, max, into, err);
    if (r < 0 || root->capture_fd < 0)
        return r;
    int recorded = uma_root_record(root, path, into->data, into->length, err);
    return recorded < 0 ? recorded : r;
}

int uma_root_read_kept(struct uma_root *root, const char *path, size_t max, int *kept, struct uma_text *into, struct uma_error *err) {
    bool was_open = *kept >= 0;
    if (!was_open) {
        int fd = open_file(root, path, err);
        if (fd < 0)
            return fd;
        *kept = fd;
    }
    int r = read_all(root, *kept, path, max, true, into, err);
    if (r == -ENODEV && was_open) { /* the thing behind the file was removed and came back */
        uma_root_forget(kept);
        return uma_root_read_kept(root, path, max, kept, into, err);
    }
    if (r < 0 || root->capture_fd < 0)
        return r;
    int recorded = uma_root_record(root, path, into->data, into->length, err);
    return recorded < 0 ? recorded : r;
}

int uma_root_read_attribute(struct uma_root *root, const char *path, size_t max, int *kept, struct uma_text *into, struct uma_error *err) {
    if (*kept < 0) {
        int fd = open_file(root, path, err);
        if (fd < 0)
            return fd;
        *kept = fd;
    }
    uma_text_reset(into);
    if (!uma_text_reserve(into, max + 1))
        return failed(root, path, ENOMEM, err);
    ssize_t n;
    do
        n = pread(*kept, into->data, max + 1, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        int code = errno;
        into->data[0] = '\0';
        if (code == ENODEV)
            uma_root_forget(kept);
        return failed(root, path, code, err);
    }
    into->length = MIN_OF((size_t)n, max);
    into->data[into->length] = '\0';
    int recorded = root->capture_fd < 0 ? 0 : uma_root_record(root, path, into->data, into->length, err);
    return recorded < 0 ? recorded : (size_t)n > max;
}

int uma_root_open_folder(struct uma_root *root, const char *path, int *ret_folder, struct uma_error *err) {
    int fd = open_below(root, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return failed(root, path, errno, err);
    *ret_folder = fd;
    return 0;
}

/* One read(2) where it fits: half the calls of read_all(), which matters for five files of each of 5,000 processes. */
static int read_short(int fd, size_t max, struct uma_text *into) {
    uma_text_reset(into);
    enum { FIRST = 8192 };
    for (;;) {
        if (!uma_text_reserve(into, into->length ? FIRST / 2 : FIRST - 1))
            return -ENOMEM;
        size_t room = MIN_OF(into->capacity - into->length - 1, max + 1 - into->length);
        ssize_t n = read(fd, into->data + into->length, room);
        if (n < 0 && errno == EINTR)
            continue;
        int code = n < 0 ? -errno : 0;
        into->length += n < 0 ? 0 : (size_t)n;
        into->data[into->length] = '\0';
        if (code < 0)
            return code;
        if (into->length > max) {
            into->length = max;
            into->data[max] = '\0';
            return 1;
        }
        if ((size_t)n < room)
            return 0;
    }
}

int uma_root_read_in(struct uma_root *root, int folder, const char *folder_path, const char *name, size_t max, bool record,
                     struct uma_text *into, struct uma_error *err) {
    _cleanup_close_ int fd = open_regular(root, folder, name);
    int r = fd < 0 ? fd : read_short(fd, max, into);
    if (r < 0)
        return uma_error_set(err, -r, "%s/%s/%s", root->name, folder_path, name);
    if (!record || root->capture_fd < 0)
        return r;
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder_path, name) >= sizeof(path))
        return uma_error_set(err, ENAMETOOLONG, "%s/%s", folder_path, name);
    int recorded = uma_root_record(root, path, into->data, into->length, err);
    return recorded < 0 ? recorded : r;
}

void uma_root_forget(int *kept) {
    uma_cleanup_close(kept);
    *kept = -1;
}

int uma_root_read_line(struct uma_root *root, const char *path, size_t max, struct uma_text *into, struct uma_error *err) {
    int r = uma_root_read(root, path, max, into, err);
    if (r < 0)
        return r;
    into->length = strcspn(into->data, "\n");
    while (into->length > 0 && strchr(" \t\r", into->data[into->length - 1]))
        into->length--;
    into->data[into->length] = '\0';
    return r;
}

int uma_root_read_i64(struct uma_root *root, const char *path, int64_t *ret_value, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 };
    int r = uma_root_read(root, path, 64, &text, err);
    if (r < 0)
        return r;
    if (uma_parse_i64_all(text.data, ret_value) < 0)
        return uma_error_text(err, EINVAL, "%s/%s: expected a number, found \"%.32s\"", root->name, path, text.data);
    return 0;
}

int uma_root_list(struct uma_root *root, const char *path, size_t max, int (*each)(void *userdata, const char *name), void *userdata,
                  struct uma_error *err) {
    _cleanup_close_ int fd = open_below(root, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return failed(root, path, errno, err);
    _cleanup_closedir_ DIR *d = fdopendir(fd);
    if (!d)
        return failed(root, path, errno, err);
    TAKE_FD(fd);
    size_t seen = 0;
    errno = 0;
    for (const struct dirent *e = readdir(d); e && seen < max; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        seen++;
        int r = each(userdata, e->d_name);
        if (r != 0)
            return r;
        errno = 0;
    }
    return errno ? failed(root, path, errno, err) : (int)seen;
}

bool uma_root_exists(struct uma_root *root, const char *path) {
    _cleanup_close_ int fd = open_below(root, path, O_PATH);
    return fd >= 0;
}

bool uma_root_is_device(struct uma_root *root, const char *path, unsigned major_number) {
    struct stat st;
    return root->live && fstatat(root->fd, path, &st, 0) == 0 && S_ISCHR(st.st_mode) && major(st.st_rdev) == major_number;
}
