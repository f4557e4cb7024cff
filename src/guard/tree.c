/* SPDX-License-Identifier: MIT */
#include "guard/tree.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

int uma_guard_scan_open(struct uma_guard_scan *scan, const char *prefix) {
    char path[512];
    size_t n = strlen(prefix);
    scan->proc = -1;
    if (n + sizeof("/proc") > sizeof(path))
        return -ENAMETOOLONG;
    memcpy(path, prefix, n);
    memcpy(path + n, "/proc", sizeof("/proc"));
    scan->proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return scan->proc < 0 ? -errno : 0;
}

void uma_guard_scan_close(struct uma_guard_scan *scan) {
    uma_cleanup_close(&scan->proc);
    scan->proc = -1;
}

/* Fields are numbered as in proc(5): 3 state, 4 ppid, 20 num_threads, 22 starttime. The name (2) ends at the last ')' of the text: it may hold brackets and spaces itself, and what follows it does not. */
bool uma_guard_seen_parse(const char *text, size_t n, struct uma_guard_seen *ret_seen) {
    struct uma_guard_seen seen = { 0 };
    uint64_t pid, parent = 0, threads = 0;
    const char *end = text + n, *at = uma_parse_u64(text, end, &pid);
    const char *name_end = memrchr(text, ')', n);
    if (at == NULL || name_end == NULL || name_end <= at || end - at < 2 || at[0] != ' ' || at[1] != '(' || end - name_end < 4 ||
        name_end[1] != ' ')
        return false;
    seen.state = name_end[2];
    at = name_end + 3;
    for (unsigned field = 4; field <= 22; field++) {
        uint64_t value = 0;
        if (at >= end || *at != ' ')
            return false;
        at++;
        const char *number = at;
        while (at < end && *at != ' ' && *at != '\n')
            at++;
        if ((field == 4 || field == 20 || field == 22) && uma_parse_u64(number, at, &value) != at)
            return false;
        if (field == 4)
            parent = value;
        else if (field == 20)
            threads = value;
        else if (field == 22)
            seen.start = value;
    }
    if (pid == 0 || pid > INT32_MAX || parent > INT32_MAX || seen.state <= ' ')
        return false;
    seen.pid = (int32_t)pid;
    seen.parent = (int32_t)parent;
    seen.alone = threads <= 1;
    *ret_seen = seen;
    return true;
}

bool uma_guard_seen_gone(const struct uma_guard_seen *seen) {
    return (seen->state == 'Z' && seen->alone) || seen->state == 'X' || seen->state == 'x';
}

int uma_guard_scan_one(const struct uma_guard_scan *scan, int32_t pid, struct uma_guard_seen *ret_seen) {
    char name[24], text[1024]; /* a stat line has at most 52 fields of 20 digits, and its first 22 are far shorter */
    size_t at = sizeof(name) - sizeof("/stat");
    struct uma_guard_seen seen;
    memcpy(name + at, "/stat", sizeof("/stat"));
    for (uint32_t left = (uint32_t)pid; left != 0; left /= 10)
        name[--at] = (char)('0' + left % 10);
    _cleanup_close_ int fd = openat(scan->proc, name + at, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    ssize_t n = read(fd, text, sizeof(text));
    if (n < 0)
        return -errno;
    if (!uma_guard_seen_parse(text, (size_t)n, &seen) || seen.pid != pid)
        return -EINVAL;
    *ret_seen = seen;
    return 0;
}

static int by_pid_place(const struct uma_guard_scan *scan, int32_t pid, uint32_t *ret_place) {
    uint32_t low = 0, high = scan->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (scan->list[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_place = low;
    return low < scan->n && scan->list[low].pid == pid;
}

struct uma_guard_seen *uma_guard_scan_find(struct uma_guard_scan *scan, int32_t pid) {
    uint32_t place;
    return by_pid_place(scan, pid, &place) ? &scan->list[place] : NULL;
}

/* The kernel lists processes in the order of their numbers (proc_pid_readdir); a folder's order is any, and they are put in order one by one. */
static void add(struct uma_guard_scan *scan, const struct uma_guard_seen *seen) {
    uint32_t place;
    if (by_pid_place(scan, seen->pid, &place))
        return;
    if (scan->n == UMA_GUARD_SCAN_MAX) {
        scan->whole = false;
        return;
    }
    memmove(&scan->list[place + 1], &scan->list[place], (scan->n - place) * sizeof(scan->list[0]));
    scan->list[place] = *seen;
    scan->n++;
}

int uma_guard_scan_take(struct uma_guard_scan *scan) {
    _Alignas(struct dirent64) char buffer[8192]; /* about 340 names at a time */
    scan->n = 0;
    scan->whole = true;
    if (lseek(scan->proc, 0, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        ssize_t n = getdents64(scan->proc, buffer, sizeof(buffer));
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const void *)(buffer + at);
            struct uma_guard_seen seen;
            uint64_t pid;
            const char *end = entry->d_name + strlen(entry->d_name);
            at += entry->d_reclen;
            if (uma_parse_u64(entry->d_name, end, &pid) != end || pid == 0 || pid > INT32_MAX)
                continue;
            if (uma_guard_scan_one(scan, (int32_t)pid, &seen) == 0)
                add(scan, &seen);
        }
    }
}

void uma_guard_scan_clear(struct uma_guard_scan *scan) {
    for (uint32_t i = 0; i < scan->n; i++)
        scan->list[i].in = scan->list[i].resolved = false;
}

/* Walks up from one until somebody is decided, or there is nobody above; then what was found holds for all on the way, but those who stay out, and who is below them. */
static void resolve(struct uma_guard_scan *scan, struct uma_guard_seen *first,
                    bool (*stays_out)(const struct uma_guard_seen *seen, void *userdata), void *userdata) {
    struct uma_guard_seen *top = first;
    uint32_t steps = 0;
    while (!top->in && !top->resolved && steps++ < scan->n) { /* `steps`: a folder's parents may go round */
        struct uma_guard_seen *parent = stays_out != NULL && stays_out(top, userdata) ? NULL : uma_guard_scan_find(scan, top->parent);
        if (parent == NULL || parent == top)
            break;
        top = parent;
    }
    bool in = top->in;
    for (struct uma_guard_seen *at = first; at != top; at = uma_guard_scan_find(scan, at->parent)) {
        at->in = in;
        at->resolved = true;
    }
    top->resolved = true;
}

uint32_t uma_guard_scan_spread(struct uma_guard_scan *scan, bool (*stays_out)(const struct uma_guard_seen *seen, void *userdata),
                               void *userdata) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < scan->n; i++) {
        if (!scan->list[i].in && !scan->list[i].resolved)
            resolve(scan, &scan->list[i], stays_out, userdata);
        count += scan->list[i].in;
    }
    return count;
}
