/* SPDX-License-Identifier: MIT */
#include "act/limit_group.h"

#include "base/units.h"
#include "observe/cgroup.h"

#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PREFIX "umactl_limit-"

/* A machine of many containers has a thousand groups, eight deep; a look at each takes some microseconds. */
enum { FOLDERS_MAX = 20000, DEPTH_MAX = 32 };

/* Field 22 of /proc/PID/stat, behind a name that may hold anything. 0: there is no such process, or it is over and only not waited for. */
static uint64_t start_of(pid_t pid) {
    char path[64], text[2048];
    uint64_t start;
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *s = strrchr(text, ')');
    if (s && (s[2] == 'Z' || s[2] == 'X'))
        return 0;
    for (int field = 2; s && field < 22; field++) {
        s = strchr(s, ' ');
        s = s ? s + 1 : NULL;
    }
    return s && uma_parse_u64(s, text + n, &start) ? start : 0;
}

void uma_limit_group_create(unsigned serial, struct uma_cgroup_scope *ret_scope) {
    char name[80];
    pid_t self = getpid();
    (void)snprintf(name, sizeof(name), PREFIX "%d-%llu-%u", (int)self, (unsigned long long)start_of(self), serial);
    uma_cgroup_scope_create_unified("", name, ret_scope);
}

bool uma_limit_group_name_parse(const char *name, pid_t *ret_pid, uint64_t *ret_start) {
    uint64_t pid, start, serial;
    const char *end = name + strlen(name), *s = name + strlen(PREFIX);
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || !(s = uma_parse_u64(s, end, &pid)) || *s != '-' ||
        !(s = uma_parse_u64(s + 1, end, &start)) || pid == 0 || pid > INT32_MAX || start == 0 || *s != '-' ||
        !(s = uma_parse_u64(s + 1, end, &serial)) || *s)
        return false;
    *ret_pid = (pid_t)pid;
    *ret_start = start;
    return true;
}

/* cgroup.events counts the groups below, too. */
static bool is_used(int at, const char *file) {
    char text[256];
    _cleanup_close_ int fd = openat(at, file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
    struct uma_u64 populated = n > 0 ? uma_cgroup_keyed_parse(text, (size_t)n, "populated") : (struct uma_u64){ 0 };
    return populated.validity != UMA_KNOWN || populated.value != 0;
}

bool uma_limit_group_is_used(const struct uma_cgroup_scope *scope) {
    return scope->dir_fd < 0 || is_used(scope->dir_fd, "cgroup.events");
}

static bool is_left(const FTSENT *entry) {
    char file[4300];
    pid_t pid;
    uint64_t start;
    if (!uma_limit_group_name_parse(entry->fts_name, &pid, &start) || start_of(pid) == start ||
        snprintf(file, sizeof(file), "%s/cgroup.events", entry->fts_path) >= (int)sizeof(file))
        return false;
    return !is_used(AT_FDCWD, file);
}

unsigned uma_limit_group_sweep(bool (*each)(void *userdata, const char *path), void *userdata) {
    static const char *const mounts[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup" };
    unsigned removed = 0, folders = 0;
    char *places[] = { NULL, NULL };
    for (size_t i = 0; i < ELEMENTS(mounts) && !places[0]; i++) {
        char file[64];
        (void)snprintf(file, sizeof(file), "%s/cgroup.procs", mounts[i]);
        if (access(file, F_OK) == 0)
            (void)memcpy(&places[0], &mounts[i], sizeof(places[0])); /* fts_open(3) does not write to it */
    }
    FTS *tree = places[0] ? fts_open(places, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL) : NULL;
    for (FTSENT *entry; tree && folders < FOLDERS_MAX && (entry = fts_read(tree));) {
        if (entry->fts_info != FTS_D)
            continue;
        folders++;
        if (entry->fts_level > DEPTH_MAX)
            (void)fts_set(tree, entry, FTS_SKIP);
        if (!is_left(entry))
            continue;
        if (!each(userdata, entry->fts_path))
            break;
        removed += rmdir(entry->fts_path) == 0;
        (void)fts_set(tree, entry, FTS_SKIP);
    }
    if (tree)
        (void)fts_close(tree);
    return removed;
}
