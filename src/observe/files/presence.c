/* SPDX-License-Identifier: MIT */
#include "observe/files/presence.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* include/uapi/linux/fs.h since 6.7; headers of distributions are often older. Documentation/admin-guide/mm/pagemap.rst. */
struct page_region {
    uint64_t start, end, categories;
};
struct pm_scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define UMA_PAGEMAP_SCAN _IOWR('f', 16, struct pm_scan_arg)
#define UMA_PAGE_IS_FILE (UINT64_C(1) << 2)
#define UMA_PAGE_IS_PRESENT (UINT64_C(1) << 3)

/* Bits of an entry of /proc/PID/pagemap: pagemap.rst. 61: a file page or shared anonymous memory. */
#define ENTRY_FILE (UINT64_C(1) << 61)
#define ENTRY_PRESENT (UINT64_C(1) << 63)

enum {
    REGIONS_AT_ONCE = 256, /* 6 KiB of stack; most answers have a few */
    ENTRIES_AT_ONCE = 4096 /* 32 KiB of stack, 16 MiB of 4 KiB pages at a time */
};

int uma_presence_open(pid_t pid, struct uma_presence *ret_presence, struct uma_error *err) {
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int code = errno;
        /* A process that has gone has no folder; one that is ending has no memory left to look at. */
        if (code == ENOENT && kill(pid, 0) < 0 && errno == ESRCH)
            code = ESRCH;
        return uma_error_set(err, code == EPERM ? EACCES : code, "%s", path);
    }
    *ret_presence = (struct uma_presence){ .fd = fd };
    return 0;
}

void uma_presence_close(struct uma_presence *presence) {
    if (presence->fd > 0)
        (void)close(presence->fd);
    presence->fd = -1;
}

/* ---- the ioctl ---------------------------------------------------------------------------------------------- */

/* Ranges gathered so far. */
struct gathered {
    struct uma_address_range *ranges;
    size_t n, max;
};

/* False when there is no room: `start` is then where to go on. */
static bool gather(struct gathered *g, uint64_t start, uint64_t end) {
    if (g->n && g->ranges[g->n - 1].end == start) {
        g->ranges[g->n - 1].end = end;
        return true;
    }
    if (g->n == g->max)
        return false;
    g->ranges[g->n++] = (struct uma_address_range){ start, end };
    return true;
}

static int scan(struct uma_presence *presence, uint64_t start, uint64_t end, struct gathered *g, uint64_t *ret_until) {
    struct page_region regions[REGIONS_AT_ONCE];
    while (start < end) {
        struct pm_scan_arg arg = {
            .size = sizeof arg,
            .start = start,
            .end = end,
            .vec = (uint64_t)(uintptr_t)regions,
            .vec_len = REGIONS_AT_ONCE,
            .category_mask = UMA_PAGE_IS_FILE | UMA_PAGE_IS_PRESENT,
            .return_mask = UMA_PAGE_IS_FILE | UMA_PAGE_IS_PRESENT,
        };
        int n = ioctl(presence->fd, UMA_PAGEMAP_SCAN, &arg);
        if (n < 0)
            return -errno;
        for (int i = 0; i < n; i++)
            if (!gather(g, regions[i].start, regions[i].end)) {
                *ret_until = regions[i].start;
                return 0;
            }
        if (arg.walk_end <= start)
            break; /* the kernel says that it went nowhere */
        start = arg.walk_end;
    }
    *ret_until = end;
    return 0;
}

/* ---- reading the file --------------------------------------------------------------------------------------- */

static int read_entries(struct uma_presence *presence, uint64_t start, uint64_t end, struct gathered *g, uint64_t *ret_until) {
    uint64_t entries[ENTRIES_AT_ONCE], page = (uint64_t)sysconf(_SC_PAGESIZE);
    while (start < end) {
        size_t wanted = (size_t)MIN_OF((end - start) / page, (uint64_t)ENTRIES_AT_ONCE);
        ssize_t got = pread(presence->fd, entries, wanted * sizeof entries[0], (off_t)(start / page * sizeof entries[0]));
        if (got < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        size_t n = (size_t)got / sizeof entries[0];
        if (n == 0)
            return -ESRCH; /* no memory is behind it any more */
        for (size_t i = 0; i < n; i++, start += page)
            if ((entries[i] & (ENTRY_FILE | ENTRY_PRESENT)) == (ENTRY_FILE | ENTRY_PRESENT) && !gather(g, start, start + page)) {
                *ret_until = start;
                return 0;
            }
    }
    *ret_until = end;
    return 0;
}

ssize_t uma_presence_read(struct uma_presence *presence, uint64_t start, uint64_t end, struct uma_address_range *ranges, size_t max,
                          uint64_t *ret_until, struct uma_error *err) {
    struct gathered g = { .ranges = ranges, .max = max };
    uint64_t until = start;
    int r = -ENOTTY;
    if (!presence->no_scan) {
        r = scan(presence, start, end, &g, &until);
        /* Before 6.7 the file has no ioctl; a filter of system calls may answer with anything that means "not allowed". */
        if (r == -ENOTTY || r == -ENOSYS || r == -EPERM || r == -EACCES || r == -EOPNOTSUPP)
            presence->no_scan = true;
    }
    if (presence->no_scan) {
        g.n = 0;
        r = read_entries(presence, start, end, &g, &until);
    }
    if (r < 0)
        return uma_error_set(err, -r, "reading a page map");
    *ret_until = until;
    return (ssize_t)g.n;
}
