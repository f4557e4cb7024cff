/* SPDX-License-Identifier: MIT */
#include "guard/group.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/statfs.h>

static int open_v2(const char *path) {
    struct statfs kind;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstatfs(fd, &kind) != 0 || kind.f_type != CGROUP2_SUPER_MAGIC)
        return -1;
    return TAKE_FD(fd);
}

void uma_guard_groups_open(struct uma_guard_groups *groups) {
    groups->folder = open_v2("/sys/fs/cgroup");
    if (groups->folder < 0)
        groups->folder = open_v2("/sys/fs/cgroup/unified");
}

void uma_guard_groups_close(struct uma_guard_groups *groups) {
    uma_cleanup_close(&groups->folder);
    groups->folder = -1;
}

bool uma_guard_group_path_parse(const char *text, size_t n, char *ret_path, size_t size) {
    const char *end = text + n;
    for (const char *line = text; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL) /* cut */
            return false;
        if (stop - line > 4 && memcmp(line, "0::/", 4) == 0) {
            const char *path = line + 4;
            size_t length = (size_t)(stop - path);
            /* "/.." comes first where the group is above the namespace's root */
            if (length >= size || memchr(path, '\0', length) != NULL || path[0] == '/' || memmem(path - 1, length + 1, "/..", 3) != NULL)
                return false;
            memcpy(ret_path, path, length);
            ret_path[length] = '\0';
            return true;
        }
        line = stop + 1;
    }
    return false;
}

static ssize_t read_in(int folder, const char *name, char *buffer, size_t size) {
    _cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, buffer, size);
    return n < 0 ? -errno : n;
}

static int open_group(const struct uma_guard_groups *groups, const struct uma_guard_scan *scan, int32_t pid) {
    char text[4096] = "", path[3072], name[32]; /* a path that does not fit is left to the signals */
    uma_guard_process_path(name, pid, "cgroup");
    ssize_t n = read_in(scan->proc, name, text, sizeof(text));
    if (n < 0)
        return (int)n;
    if (!uma_guard_group_path_parse(text, (size_t)n, path, sizeof(path)))
        return -ENOENT;
    int fd = openat(groups->folder, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static bool has_no_groups_below(int folder) {
    char text[512];
    ssize_t n = read_in(folder, "cgroup.stat", text, sizeof(text));
    return n > 0 && memmem(text, (size_t)n, "nr_descendants 0\n", 17) == text;
}

/* Is each process of the group marked? Its list is read in pieces; a number may be cut at the end of one. */
static int holds_only_the_tree(int folder, struct uma_guard_scan *scan) {
    char text[2048];
    size_t kept = 0;
    uint32_t count = 0;
    _cleanup_close_ int fd = openat(folder, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (;;) {
        ssize_t n = read(fd, text + kept, sizeof(text) - kept);
        if (n < 0)
            return -errno;
        if (n == 0)
            return kept == 0 && count > 0;
        const char *end = text + kept + (size_t)n, *at = text, *stop;
        while ((stop = memchr(at, '\n', (size_t)(end - at))) != NULL) {
            uint64_t pid;
            if (uma_parse_u64(at, stop, &pid) != stop || pid == 0 || pid > INT32_MAX) /* 0: of another namespace */
                return 0;
            const struct uma_guard_seen *seen = uma_guard_scan_find(scan, (int32_t)pid);
            if (seen == NULL || !seen->in)
                return 0;
            count++;
            at = stop + 1;
        }
        kept = (size_t)(end - at);
        if (kept > 20)
            return 0;
        memmove(text, at, kept);
    }
}

int uma_guard_groups_kill(const struct uma_guard_groups *groups, struct uma_guard_scan *scan, int32_t pid, bool dry_run) {
    if (groups->folder < 0)
        return 0;
    _cleanup_close_ int folder = open_group(groups, scan, pid);
    if (folder < 0)
        return folder == -ENOENT ? 0 : folder;
    int alone = has_no_groups_below(folder) ? holds_only_the_tree(folder, scan) : 0;
    if (alone <= 0 || dry_run)
        return alone;
    _cleanup_close_ int file = openat(folder, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return -errno;
    return write(file, "1", 1) == 1 ? 1 : -errno;
}
