/* SPDX-License-Identifier: MIT */
/*
 * Who has a GPU's device open: such a process may take memory of the driver that nobody sees at it until the driver is asked again, and while the driver hangs that is never. Told by the links of /proc/PID/fd,
 * which take the right to trace (CAP_SYS_PTRACE) where the process is another user's; without it nobody is marked.
 */
#include "guard/processes_private.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/listing.h"

#include <fcntl.h>
#include <string.h>

enum {
    LINKS_MAX = 512,  /* of one table: a link takes 1.5 us */
    AGAIN_MS = 500,   /* a program that loads opens its device seconds after it began, and takes memory soon after */
    LISTINGS_MAX = 2, /* of 4 KiB, 170 descriptors each: a device is opened before the connections that a server has by thousands */
};

static bool is_device(const char *target, size_t n) {
    /* NVIDIA's, also for Jetson; AMD's; every driver's node for rendering; what gives out memory to share with devices */
    static const char *const devices[] = { "/dev/nvidia",      "/dev/nvmap",     "/dev/nvhost", "/dev/kfd",
                                           "/dev/dri/renderD", "/dev/dma_heap/", "/dev/udmabuf" };
    for (size_t i = 0; i < ELEMENTS(devices); i++)
        if (n >= strlen(devices[i]) && memcmp(target, devices[i], strlen(devices[i])) == 0)
            return true;
    return false;
}

static bool any_device(const char *names, long n, int folder, uint32_t *links) {
    char target[64]; /* one that is longer is none of those */
    long at = 0;
    for (const struct uma_guard_entry *entry; *links > 0 && (entry = uma_guard_entry_next(names, n, &at));) {
        if (entry->name[0] < '0' || entry->name[0] > '9')
            continue;
        --*links;
        ssize_t length = readlinkat(folder, entry->name, target, sizeof(target));
        if (length > 0 && is_device(target, (size_t)length))
            return true;
    }
    return false;
}

static bool holds_device(struct uma_guard_processes *p, int32_t pid, uint32_t *links) {
    char path[32];
    uma_guard_process_path(path, pid, "fd");
    _cleanup_close_ int folder = openat(p->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; folder >= 0 && i<LISTINGS_MAX && * links> 0; i++) {
        long n = uma_guard_list(folder, p->before->names, sizeof(p->before->names));
        if (n <= 0)
            return false;
        if (any_device(p->before->names, n, folder, links))
            return true;
    }
    return false;
}

static bool is_late(int64_t deadline) {
    return deadline != INT64_MAX && uma_monotonic_ns() >= deadline;
}

/* Who does nothing opens nothing, and who is never touched need not be suspected. */
static bool wants_look(const struct uma_guard_process *process, const struct uma_guard_row *row, uint32_t now_ms) {
    return row->known & ROW_FRESH && !(row->known & (ROW_DEVICE | ROW_KERNEL | ROW_QUIET)) &&
           !(process->flags & (UMA_GUARD_PROTECTED | UMA_GUARD_EXITING)) && (row->devices == 0 || now_ms - row->devices >= AGAIN_MS);
}

void uma_guard_rows_devices(struct uma_guard_processes *processes, int64_t now, int64_t deadline) {
    uint32_t links = LINKS_MAX, now_ms = (uint32_t)(now / UMA_MILLISECOND_NS) | 1; /* never 0 */
    for (size_t i = 0; i < processes->n; i++) {
        struct uma_guard_row *row = &processes->before->rows[i];
        if (wants_look(&processes->list[i], row, now_ms)) {
            if (links == 0 || is_late(deadline))
                break;
            if (holds_device(processes, processes->list[i].pid, &links))
                row->known |= ROW_DEVICE;
            row->devices = now_ms;
        }
        if (row->known & ROW_DEVICE)
            processes->list[i].flags |= UMA_GUARD_HOLDS_GPU;
    }
}
