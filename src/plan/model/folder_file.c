/* SPDX-License-Identifier: MIT */
#include "plan/model/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *uma_folder_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *uma_folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return !slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

char *uma_folder_path(const char *folder, const char *name) {
    char *path = NULL;
    const char *slash = *folder && folder[strlen(folder) - 1] == '/' ? "" : "/";
    return asprintf(&path, "%s%s%s", folder, slash, name) < 0 ? NULL : path;
}

int uma_folder_open_file(int folder, const char *name, const char *path, int *ret_fd, uint64_t *ret_size, struct uma_error *err) {
    /* O_NONBLOCK: a FIFO would wait for a writer */
    _cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        int code = errno;
        struct stat link;
        if (code == ENOENT && fstatat(folder, name, &link, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(link.st_mode))
            return uma_error_text(err, code, "%s: a link to a file that is not there; was a download not finished?", path);
        return uma_error_set(err, code, "%s: cannot open it", path);
    }
    struct stat st;
    if (fstat(fd, &st) < 0)
        return uma_error_set(err, errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return uma_error_text(err, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, "%s: not a regular file", path);
    *ret_size = (uint64_t)st.st_size;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int uma_folder_read_file(int folder, const char *name, const char *path, uint64_t max, struct uma_text *into, struct uma_error *err) {
    _cleanup_close_ int fd = -1;
    uint64_t size = 0;
    int r = uma_folder_open_file(folder, name, path, &fd, &size, err);
    if (r < 0)
        return r;
    if (size > max)
        return uma_error_text(err, EFBIG, "%s: %llu bytes; at most %llu are read of such a file", path, (unsigned long long)size,
                              (unsigned long long)max);
    uma_text_reset(into);
    if (!uma_text_reserve(into, (size_t)size))
        return uma_error_set(err, ENOMEM, "%s", path);
    while (into->length < size) {
        ssize_t n = pread(fd, into->data + into->length, (size_t)size - into->length, (off_t)into->length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return uma_error_set(err, errno, "%s: cannot read it", path);
        if (n == 0)
            break;
        into->length += (size_t)n;
    }
    into->data[into->length] = '\0';
    return 0;
}
