/* SPDX-License-Identifier: MIT */
#include "act/cgroup_scope.h"

#include "base/units.h"
#include "base/values.h"
#include "observe/cgroup.h"
#include "observe/lines.h"
#include "observe/source.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    FILE_MAX = 1 << 16, /* memory.stat is 2 KiB, cgroup.procs of 5,000 processes 40 KiB */
    ROOT_MAX = 1000,    /* of a folder that stands for the machine */
    GROUPS_MAX = 256,   /* groups that a job makes below its own: container runtimes make a handful */
};

#define PREFIX "umactl-"

static ssize_t read_at(int dir, const char *file, char *buffer, size_t size) {
    _cleanup_close_ int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    if (fd < 0)
        return -errno;
    while (n < size - 1) {
        ssize_t k = read(fd, buffer + n, size - 1 - n);
        if (k < 0)
            return -errno;
        if (k == 0)
            break;
        n += (size_t)k;
    }
    buffer[n] = '\0';
    return (ssize_t)n;
}

static struct uma_u64 number_at(int dir, const char *file) {
    char text[64];
    ssize_t n = read_at(dir, file, text, sizeof(text));
    return n < 0 ? uma_no_u64(uma_validity_of_errno((int)n)) : uma_cgroup_number_parse(text, (size_t)n);
}

static bool climbs(const char *path) {
    for (const char *s = path; (s = strstr(s, "/..")); s += 3)
        if (s[3] == '/' || s[3] == '\0')
            return true;
    return false;
}

/* The path of umactl's own group: under the memory controller (v1) or the unified hierarchy. "hierarchy:controllers:path" lines
 * (cgroups(7)). */
static int own_path(const char *root, bool v1, char *ret_path, size_t size) {
    char text[FILE_MAX], file[ROOT_MAX + 32];
    (void)snprintf(file, sizeof(file), "%.*s/proc/self/cgroup", ROOT_MAX, root);
    ssize_t n = read_at(AT_FDCWD, file, text, sizeof(text));
    for (char *s = text; n > 0 && *s;) {
        char *newline = strchrnul(s, '\n'), *first = memchr(s, ':', (size_t)(newline - s));
        char *second = first ? memchr(first + 1, ':', (size_t)(newline - first - 1)) : NULL;
        if (second && (v1 ? uma_list_has(first + 1, second, "memory") : second == first + 1)) {
            int k = snprintf(ret_path, size, "%.*s", (int)(newline - second - 1), second + 1);
            if (k < 0 || (size_t)k >= size)
                return -ENAMETOOLONG;
            /* "/../x": a group outside of our cgroup namespace (cgroup_namespaces(7)); below the mount it would be any folder of the machine */
            return ret_path[0] != '/' || climbs(ret_path) ? -EXDEV : 0;
        }
        s = *newline ? newline + 1 : newline;
    }
    return -ENOENT;
}

/* Would a group beside our own escape a limit that our own has? Then the job must stay below it. */
static bool own_is_limited(const char *folder) {
    static const char *const limits[] = { "memory.max", "memory.high", "memory.swap.max", "cpu.max",
                                          "pids.max",   "cpuset.cpus", "cpuset.mems" };
    _cleanup_close_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return true;
    for (size_t i = 0; i < ELEMENTS(limits); i++) {
        char text[4096];
        ssize_t n = read_at(dir, limits[i], text, sizeof(text));
        if (n == -ENOENT)
            continue;
        if (n < 0 || (n > 1 && strncmp(text, "max", 3) != 0))
            return true;
    }
    return false;
}

/* Groups of earlier runs whose umactl was killed: ours by name, their umactl gone, empty (rmdir refuses others). */
static void sweep(int parent) {
    _cleanup_close_ int copy = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (!dir)
        return;
    (void)TAKE_FD(copy);
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *dash = strrchr(entry->d_name, '-');
        uint64_t pid;
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 || !dash || uma_parse_u64_all(dash + 1, &pid) < 0 || pid == 0 ||
            pid > INT32_MAX)
            continue;
        if (kill((pid_t)pid, 0) < 0 && errno == ESRCH)
            (void)unlinkat(parent, entry->d_name, AT_REMOVEDIR);
    }
}

/* 0 and an open scope, or -errno. */
static int make_in(const char *parent, int version, bool need_memory, struct uma_cgroup_scope *scope) {
    _cleanup_close_ int dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    if (mkdirat(dir, scope->name, 0755) < 0)
        return -errno;
    sweep(dir);
    _cleanup_close_ int group = openat(dir, scope->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int procs = group >= 0 ? openat(group, "cgroup.procs", O_WRONLY | O_CLOEXEC) : -1;
    int r = procs < 0 ? -errno : 0;
    bool memory = group >= 0 && faccessat(group, version == 1 ? "memory.usage_in_bytes" : "memory.current", R_OK, 0) == 0;
    if (r == 0 && need_memory && !memory)
        r = -EOPNOTSUPP;
    if (r < 0) {
        (void)unlinkat(dir, scope->name, AT_REMOVEDIR);
        return r;
    }
    (void)snprintf(scope->parent, sizeof(scope->parent), "%s", parent);
    (void)snprintf(scope->path, sizeof(scope->path), "%.4000s/%s", parent, scope->name);
    scope->version = version;
    scope->memory = memory;
    scope->dir_fd = TAKE_FD(group);
    scope->procs_fd = TAKE_FD(procs);
    return 0;
}

static int make_v1(const char *root, struct uma_cgroup_scope *scope) {
    char own[2000], folder[4096];
    int r = own_path(root, true, own, sizeof(own));
    if (r < 0)
        return r;
    (void)snprintf(folder, sizeof(folder), "%.*s/sys/fs/cgroup/memory%s", ROOT_MAX, root, own[1] ? own : "");
    return make_in(folder, 1, true, scope);
}

/*
 * v2: a group that holds processes cannot hand controllers to its children (cgroup-v2.rst, "No Internal Process Constraint"), so a group
 * with memory accounting has to stand beside ours, and only when ours has no limit that it would escape. Else one below, for finding the
 * processes.
 */
static int make_v2(const char *root, struct uma_cgroup_scope *scope) {
    static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
    char own[2000], folder[4096];
    int r = own_path(root, false, own, sizeof(own));
    if (r < 0)
        return r;
    const char *mount = NULL;
    for (size_t i = 0; i < ELEMENTS(mounts) && !mount; i++) {
        (void)snprintf(folder, sizeof(folder), "%.*s%s/cgroup.procs", ROOT_MAX, root, mounts[i]);
        mount = access(folder, F_OK) == 0 ? mounts[i] : NULL;
    }
    if (!mount)
        return -ENOENT;
    (void)snprintf(folder, sizeof(folder), "%.*s%s%s", ROOT_MAX, root, mount, own[1] ? own : "");
    if (own[1] && !own_is_limited(folder)) {
        char beside[4096];
        (void)snprintf(beside, sizeof(beside), "%s", folder);
        *strrchr(beside, '/') = '\0';
        if (make_in(beside, 2, true, scope) == 0)
            return 0;
    }
    return make_in(folder, 2, false, scope);
}

void uma_cgroup_scope_create(const char *name, struct uma_cgroup_scope *ret_scope) {
    uma_cgroup_scope_create_in("", name, ret_scope);
}

void uma_cgroup_scope_create_unified(const char *root, const char *name, struct uma_cgroup_scope *ret_scope) {
    struct uma_cgroup_scope *scope = ret_scope;
    *scope = (struct uma_cgroup_scope){ .dir_fd = -1, .procs_fd = -1 };
    (void)snprintf(scope->name, sizeof(scope->name), "%s", name);
    int r = make_v2(root, scope);
    if (r < 0)
        (void)snprintf(scope->note, sizeof(scope->note), "no group could be made: %s",
                       r == -ENOENT ? "cgroup v2 is not mounted" : strerror(-r));
}

void uma_cgroup_scope_create_in(const char *root, const char *name, struct uma_cgroup_scope *ret_scope) {
    struct uma_cgroup_scope *scope = ret_scope;
    *scope = (struct uma_cgroup_scope){ .dir_fd = -1, .procs_fd = -1 };
    (void)snprintf(scope->name, sizeof(scope->name), PREFIX "%.80s-%d", name, (int)getpid());
    int v1 = make_v1(root, scope);
    if (v1 == 0)
        return;
    int v2 = make_v2(root, scope);
    if (v2 == 0) {
        if (!scope->memory)
            (void)snprintf(scope->note, sizeof(scope->note), "the group has no memory controller: used for finding processes only");
        return;
    }
    int why = v1 != -ENOENT ? v1 : v2;
    if (why == -ENOENT)
        (void)snprintf(scope->note, sizeof(scope->note), "no control groups here");
    else
        (void)snprintf(scope->note, sizeof(scope->note), "no group could be made: %s", strerror(-why));
}

static void memory_stat(int dir, int version, struct uma_cgroup_usage *usage) {
    char text[FILE_MAX];
    ssize_t n = read_at(dir, "memory.stat", text, sizeof(text));
    if (n <= 0)
        return;
    /* cgroup-v1/memory.rst: rss is anonymous memory and swap cache, total_ covers the groups below */
    usage->anon = uma_cgroup_keyed_parse(text, (size_t)n, version == 1 ? "total_rss" : "anon");
    usage->shmem = uma_cgroup_keyed_parse(text, (size_t)n, version == 1 ? "total_shmem" : "shmem");
    if (version == 1)
        usage->swap = uma_cgroup_keyed_parse(text, (size_t)n, "total_swap");
}

static void usage_v1(int dir, struct uma_cgroup_usage *usage) {
    char text[FILE_MAX];
    usage->current = number_at(dir, "memory.usage_in_bytes");
    usage->peak = number_at(dir, "memory.max_usage_in_bytes");
    memory_stat(dir, 1, usage);
    ssize_t n = read_at(dir, "memory.oom_control", text, sizeof(text));
    if (n > 0)
        usage->oom_kill = uma_cgroup_keyed_parse(text, (size_t)n, "oom_kill");
}

static void usage_v2(int dir, struct uma_cgroup_usage *usage) {
    char text[FILE_MAX];
    usage->current = number_at(dir, "memory.current");
    usage->peak = number_at(dir, "memory.peak"); /* since 5.19 */
    usage->swap = number_at(dir, "memory.swap.current");
    memory_stat(dir, 2, usage);
    ssize_t n = read_at(dir, "memory.events", text, sizeof(text));
    if (n > 0)
        usage->oom_kill = uma_cgroup_keyed_parse(text, (size_t)n, "oom_kill");
}

void uma_cgroup_scope_usage(const struct uma_cgroup_scope *scope, struct uma_cgroup_usage *ret_usage) {
    struct uma_cgroup_usage usage = { 0 };
    if (scope->dir_fd >= 0 && scope->memory) {
        if (scope->version == 1)
            usage_v1(scope->dir_fd, &usage);
        else
            usage_v2(scope->dir_fd, &usage);
    }
    *ret_usage = usage;
}

struct uma_u64 uma_cgroup_scope_memory(const struct uma_cgroup_scope *scope) {
    struct uma_cgroup_usage usage = { 0 };
    if (scope->dir_fd >= 0 && scope->memory)
        memory_stat(scope->dir_fd, scope->version, &usage);
    bool known = usage.anon.validity == UMA_KNOWN && usage.shmem.validity == UMA_KNOWN;
    return known ? uma_known_u64(usage.anon.value + usage.shmem.value) : (struct uma_u64){ 0 };
}

static void processes_of(int dir, void (*each)(void *userdata, pid_t pid), void *userdata) {
    char text[FILE_MAX];
    ssize_t n = read_at(dir, "cgroup.procs", text, sizeof(text));
    const char *s = text, *end = text + (n > 0 ? n : 0);
    for (uint64_t pid; s < end && (s = uma_parse_u64(s, end, &pid)); s++)
        if (pid > 0 && pid <= INT32_MAX)
            each(userdata, (pid_t)pid);
}

void uma_cgroup_scope_processes(const struct uma_cgroup_scope *scope, void (*each)(void *userdata, pid_t pid), void *userdata) {
    if (scope->dir_fd < 0)
        return;
    processes_of(scope->dir_fd, each, userdata);
    _cleanup_close_ int copy = openat(scope->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (!dir)
        return;
    (void)TAKE_FD(copy);
    int groups = 0;
    for (struct dirent *entry; (entry = readdir(dir)) && groups < GROUPS_MAX;) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        groups++;
        _cleanup_close_ int child = openat(scope->dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (child >= 0)
            processes_of(child, each, userdata);
    }
}

int uma_cgroup_scope_remove(struct uma_cgroup_scope *scope) {
    int r = 0;
    if (scope->dir_fd < 0)
        return 0;
    (void)close(scope->dir_fd);
    if (scope->procs_fd >= 0)
        (void)close(scope->procs_fd);
    scope->dir_fd = scope->procs_fd = -1;
    if (rmdir(scope->path) < 0 && errno != ENOENT)
        r = -errno;
    return r;
}
