/* SPDX-License-Identifier: MIT */
#include "act/tunable.h"

#include "base/write.h"
#include "observe/tuning.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static bool begins(const char *s, const char *prefix) {
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* One component of a path, not empty, not hidden (so neither "." nor ".."); names of disks hold '!' for '/' (cciss!c0d0). */
static size_t component(const char *s) {
    static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-!.";
    return *s == '.' ? 0 : strspn(s, fine);
}

bool uma_tunable_path_fine(const char *path) {
    static const struct {
        const char *folder;
        unsigned least, most; /* components below it */
    } folders[] = { { "proc/sys/vm/", 1, 1 }, { "sys/kernel/mm/", 2, 3 }, { "sys/block/", 3, 3 } };
    if (strlen(path) >= UMA_TUNABLE_PATH_MAX)
        return false;
    for (size_t i = 0; i < ELEMENTS(folders); i++) {
        if (!begins(path, folders[i].folder))
            continue;
        unsigned n = 0;
        for (const char *p = path + strlen(folders[i].folder);; p++) {
            size_t length = component(p);
            if (length == 0)
                return false;
            if (i == 2 && n == 1 && (length != 5 || !begins(p, "queue")))
                return false;
            n++;
            p += length;
            if (*p != '/')
                return *p == '\0' && n >= folders[i].least && n <= folders[i].most;
        }
    }
    return false;
}

bool uma_tunable_value_fine(const char *value) {
    static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.";
    size_t n = strspn(value, fine);
    return n > 0 && n < UMA_TUNABLE_VALUE_MAX && value[n] == '\0';
}

const char *uma_tunable_counterpart(const char *path) {
    static const char *const pairs[][2] = {
        { "proc/sys/vm/dirty_bytes", "proc/sys/vm/dirty_ratio" },
        { "proc/sys/vm/dirty_background_bytes", "proc/sys/vm/dirty_background_ratio" },
    };
    for (size_t i = 0; i < ELEMENTS(pairs); i++)
        for (size_t k = 0; k < 2; k++)
            if (strcmp(path, pairs[i][k]) == 0)
                return pairs[i][1 - k];
    return NULL;
}

static int full_path(const char *prefix, const char *path, char ret_full[4096], struct uma_error *err) {
    if (!uma_tunable_path_fine(path))
        return uma_error_text(err, EINVAL, "%.200s: not a setting that umactl changes", path);
    if ((size_t)snprintf(ret_full, 4096, "%s/%s", prefix, path) >= 4096)
        return uma_error_set(err, ENAMETOOLONG, "%s/%s", prefix, path);
    return 0;
}

/* Where a right is missing it is said which one: the file's mode alone does not tell. */
static int failed(const char *full, int code, struct uma_error *err) {
    if (code == EACCES || code == EPERM)
        return uma_error_text(err, code, "%s: only root may change it (CAP_SYS_ADMIN of the machine, not of a container)", full);
    if (code == EROFS)
        return uma_error_text(err, code, "%s: read-only here, as in a container; change it on the machine itself, as root", full);
    return uma_error_set(err, code, "%s", full);
}

static int read_full(const char *full, char ret_value[UMA_TUNABLE_VALUE_MAX], struct uma_error *err) {
    char text[1024];
    _cleanup_close_ int fd = open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (n < 0)
        return uma_error_set(err, errno, "%s", full);
    const char *start;
    size_t length;
    char value[UMA_TUNABLE_VALUE_MAX] = "";
    if (uma_choice_parse(text, (size_t)n, &start, &length) && length < sizeof value)
        (void)memcpy(value, start, length);
    if (!uma_tunable_value_fine(value))
        return uma_error_text(err, EINVAL, "%s: expected one value, found \"%.*s\"", full,
                              (int)MIN_OF(strcspn(text, "\n"), (size_t)MIN_OF(n, 40)), text);
    (void)memcpy(ret_value, value, sizeof value);
    return 0;
}

int uma_tunable_read(const char *prefix, const char *path, char ret_value[UMA_TUNABLE_VALUE_MAX], struct uma_error *err) {
    char full[4096];
    int r = full_path(prefix, path, full, err);
    return r < 0 ? r : read_full(full, ret_value, err);
}

int uma_tunable_writable(const char *prefix, const char *path, struct uma_error *err) {
    char full[4096];
    int r = full_path(prefix, path, full, err);
    if (r < 0)
        return r;
    return faccessat(AT_FDCWD, full, W_OK, AT_EACCESS) == 0 ? 0 : failed(full, errno, err);
}

int uma_tunable_write(const char *prefix, const char *path, const char *value, char ret_now[UMA_TUNABLE_VALUE_MAX], struct uma_error *err) {
    char full[4096], line[UMA_TUNABLE_VALUE_MAX + 1];
    int r = full_path(prefix, path, full, err);
    if (r < 0)
        return r;
    if (!uma_tunable_value_fine(value))
        return uma_error_text(err, EINVAL, "%s: \"%.40s\" is not a value", full, value);
    _cleanup_close_ int fd = open(full, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return failed(full, errno, err);
    int n = snprintf(line, sizeof line, "%s\n", value);
    ssize_t written = write(fd, line, (size_t)n); /* in one piece: the kernel takes each write(2) for a value */
    if (written == n)
        (void)!ftruncate(fd, n); /* nothing to the kernel's files; of one that stands for them no tail of a longer value is left */
    int code = written < 0 ? errno : written < n ? EIO : 0;
    char now[UMA_TUNABLE_VALUE_MAX] = "";
    struct uma_error reading = { 0 };
    r = read_full(full, now, &reading);
    if (r == 0)
        (void)memcpy(ret_now, now, sizeof now);
    if (code)
        return code == EINVAL ? uma_error_text(err, code, "%s: the kernel does not take %s", full, value) : failed(full, code, err);
    if (r < 0)
        return uma_error_text(err, -r, "%s", reading.text);
    if (strcmp(now, value) != 0)
        return uma_error_text(err, EIO, "%s: set to %s, and it is %s", full, value, now);
    return 0;
}
