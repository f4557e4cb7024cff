/* SPDX-License-Identifier: MIT */
/*
 * What the kernel does when a setting is written, for plain files that stand for settings: dirty_bytes and dirty_ratio put each other to 0 and bytes take no 0
 * (mm/page-writeback.c), some values are refused or become others. Preloaded, or linked into a test. Never acts on a file of the kernel's own.
 *
 * UMA_SETTINGS_REFUSE="swappiness=22,dirty_bytes=1": these are refused with that errno. UMA_SETTINGS_TAKE="read_ahead_kb=128": these become that.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t write(int fd, const void *data, size_t length);

static ssize_t plain_write(int fd, const void *data, size_t length) {
    return syscall(SYS_write, fd, data, length);
}

/* The word behind NAME= in a list with commas; false when it is not there. */
static bool listed(const char *variable, const char *name, char ret[64]) {
    const char *list = getenv(variable);
    size_t n = strlen(name);
    for (const char *p = list ? list : ""; *p; p += strcspn(p, ","), p += *p == ',')
        if (strncmp(p, name, n) == 0 && p[n] == '=') {
            (void)snprintf(ret, 64, "%.*s", (int)strcspn(p + n + 1, ","), p + n + 1);
            return true;
        }
    return false;
}

static const char *counterpart_of(const char *name) {
    static const char *const pairs[][2] = { { "dirty_bytes", "dirty_ratio" }, { "dirty_background_bytes", "dirty_background_ratio" } };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (size_t k = 0; k < 2; k++)
            if (strcmp(name, pairs[i][k]) == 0)
                return pairs[i][1 - k];
    return NULL;
}

static long number_of(int fd) {
    char text[32] = "";
    return pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

static void put_zero(const char *path, const char *name, const char *counterpart) {
    char other[4096];
    if ((size_t)snprintf(other, sizeof other, "%.*s%s", (int)(name - path), path, counterpart) >= sizeof other)
        return;
    int fd = open(other, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    /* in one piece, so that a kill never finds it half done: as long as what it replaces */
    char text[32] = "";
    ssize_t length = pread(fd, text, sizeof text, 0);
    (void)memset(text, '\n', sizeof text);
    text[0] = '0';
    (void)!plain_write(fd, text, length > 2 ? (size_t)length : 2);
    (void)close(fd);
}

static ssize_t take(int fd, size_t length, const char *value) {
    char line[80];
    int n = snprintf(line, sizeof line, "%s\n", value);
    return plain_write(fd, line, (size_t)n) == n ? (ssize_t)length : -1;
}

ssize_t write(int fd, const void *data, size_t length) {
    char link[64], path[4096], word[64], value[64] = "";
    struct statfs where;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!slash || length == 0 || length >= sizeof value || fstatfs(fd, &where) < 0 || where.f_type == PROC_SUPER_MAGIC ||
        where.f_type == SYSFS_MAGIC)
        return plain_write(fd, data, length);
    if (listed("UMA_SETTINGS_REFUSE", name, word)) {
        errno = atoi(word);
        return -1;
    }
    if (listed("UMA_SETTINGS_TAKE", name, word))
        return take(fd, length, word);
    const char *counterpart = counterpart_of(name);
    if (!counterpart)
        return plain_write(fd, data, length);
    (void)memcpy(value, data, length);
    bool zero = strcmp(value, "0\n") == 0, bytes = strstr(name, "_bytes") != NULL, background = strstr(name, "_background_") != NULL;
    if (zero && bytes) {
        errno = EINVAL;
        return -1;
    }
    /* the limit's handlers look whether it changed, those of the background do not; one that is not 0 has the other at 0 anyway, but after a kill here */
    char own[4096];
    (void)snprintf(own, sizeof own, "%s", path);
    int old = open(own, O_RDONLY | O_CLOEXEC);
    bool same = old >= 0 && number_of(old) == strtol(value, NULL, 10);
    if (old >= 0)
        (void)close(old);
    ssize_t r = plain_write(fd, data, length);
    if (r > 0 && (background || !same || !zero))
        put_zero(path, name, counterpart);
    return r;
}
