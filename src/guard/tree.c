/* SPDX-License-Identifier: MIT */
#include "guard/tree.h"

#include "base/cleanup.h"
#include "guard/listing.h"
#include "guard/processes_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

int uma_guard_scan_open(struct uma_guard_scan *scan, const char *prefix) {
    char path[512];
    scan->proc = -1;
    int n = snprintf(path, sizeof(path), "%s/proc", prefix);
    if (n < 0 || (size_t)n >= sizeof(path))
        return -ENAMETOOLONG;
    scan->proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return scan->proc < 0 ? -errno : 0;
}

void uma_guard_scan_close(struct uma_guard_scan *scan) {
    uma_cleanup_close(&scan->proc);
    scan->proc = -1;
}

bool uma_guard_seen_gone(const struct uma_guard_seen *seen) {
    return (seen->state == 'Z' && seen->alone) || seen->state == 'X' || seen->state == 'x';
}

int uma_guard_scan_one(const struct uma_guard_scan *scan, int32_t pid, struct uma_guard_seen *ret_seen) {
    char path[32], text[1024]; /* a stat line has at most 52 fields of 20 digits, and the first 24, which are read, are far shorter */
    struct uma_guard_stat stat;
    uma_guard_process_path(path, pid, "stat");
    _cleanup_close_ int fd = openat(scan->proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    ssize_t n = read(fd, text, sizeof(text));
    if (n < 0)
        return -errno;
    if (!uma_guard_stat_parse(text, (size_t)n, &stat) || stat.pid != pid)
        return -EINVAL;
    *ret_seen =
        (struct uma_guard_seen){ .pid = pid, .parent = stat.parent, .start = stat.start, .state = stat.state, .alone = stat.threads <= 1 };
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
    _Alignas(struct uma_guard_entry) char buffer[8192]; /* about 340 names at a time */
    scan->n = 0;
    scan->whole = true;
    if (lseek(scan->proc, 0, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        long n = uma_guard_list(scan->proc, buffer, sizeof(buffer)), at = 0;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (const struct uma_guard_entry *entry; (entry = uma_guard_entry_next(buffer, n, &at));) {
            struct uma_guard_seen seen = { 0 };
            int32_t pid = uma_guard_entry_pid(entry);
            if (pid > 0 && uma_guard_scan_one(scan, pid, &seen) == 0)
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
