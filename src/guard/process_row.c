/* SPDX-License-Identifier: MIT */
/* One process, from its files in /proc, into its row of the table. */
#include "guard/processes_private.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/listing.h"
#include "guard/names.h"
#include "guard/processes_text.h"
#include "guard/scan.h"
#include "guard/warn_marker.h"

#include <errno.h>
#include <fcntl.h>

/* From here on every move of the resident set is worth reading status (10 us); below, the move itself is taken for anonymous memory, and status is read once it is a MiB. */
#define LARGE_BYTES (UINT64_C(8) << 20)
#define MOVED_BYTES (UINT64_C(1) << 20)
/* systemd moves a process into its scope after it has begun; nobody waits for its protection longer than this, and 64 looks at a time cost 0.3 ms. */
enum { CHECK_SECONDS = 10, CHECKS_MAX = 64 };
/* Kernel threads hold nothing, and are looked at again only because another process may have their number. */
enum { KERNEL_SECONDS = 5 };

/* ---- files -------------------------------------------------------------------------------------------------------- */

/* Into the buffer for texts; bytes, or -errno. One read gives all of such a file, or as much as there is room for. `kept`: a descriptor that stays, NULL: none. */
static ssize_t read_file(const struct uma_guard_processes *p, int32_t pid, const char *name, int32_t *kept) {
    char path[32];
    _cleanup_close_ int fd = -1;
    if (!kept || *kept < 0) {
        uma_guard_process_path(path, pid, name);
        fd = openat(p->proc, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
            return -errno;
    }
    ssize_t n = pread(fd >= 0 ? fd : *kept, p->before->text, sizeof(p->before->text), 0);
    if (n < 0)
        return -errno;
    if (kept && fd >= 0)
        *kept = TAKE_FD(fd);
    return n;
}

enum { STAT, STATUS };

static int32_t *kept_of(struct uma_guard_row *row, int which) {
    return row && row->known & ROW_KEPT ? &row->fd[which] : NULL;
}

void uma_guard_row_close(struct uma_guard_row *row) {
    for (int i = STAT; i <= STATUS; i++) {
        if (row->fd[i] >= 0)
            (void)close(row->fd[i]);
        row->fd[i] = -1;
    }
}

/* A kept file is of that very process: when it is gone, reading says so, whoever has its number now. */
static enum uma_guard_row_result read_stat(const struct uma_guard_processes *p, int32_t pid, struct uma_guard_row *row,
                                           struct uma_guard_stat *ret_stat) {
    ssize_t n = read_file(p, pid, "stat", kept_of(row, STAT));
    if (n == -ENOENT || n == -ESRCH || n == -ENOTDIR)
        return ROW_GONE;
    return n > 0 && uma_guard_stat_parse(p->before->text, (size_t)n, ret_stat) && ret_stat->pid == pid ? ROW_READ : ROW_FAILED;
}

static uint32_t pages_of(const struct uma_guard_stat *stat) {
    return stat->resident < UINT32_MAX ? (uint32_t)stat->resident : UINT32_MAX;
}

bool uma_guard_row_peek(struct uma_guard_processes *processes, int32_t pid, uint64_t *ret_bytes, int32_t *ret_parent) {
    struct uma_guard_stat stat;
    if (read_stat(processes, pid, NULL, &stat) != ROW_READ)
        return false;
    *ret_bytes = (uint64_t)pages_of(&stat) * processes->before->page_size;
    *ret_parent = stat.parent;
    return true;
}

/* ---- who it is ---------------------------------------------------------------------------------------------------- */

static uint32_t flags_by_name(const struct uma_guard_policy *policy, const char *name) {
    return (uma_guard_names_have(&policy->protect, name) ? UMA_GUARD_PROTECTED : 0u) |
           (uma_guard_names_have(&policy->no_brake, name) ? UMA_GUARD_NO_BRAKE : 0u) |
           (uma_guard_names_have(&policy->avoid, name) ? UMA_GUARD_AVOID : 0u) |
           (uma_guard_names_have(&policy->prefer, name) ? UMA_GUARD_PREFER : 0u);
}

/* Every hierarchy counts: where there are several (version 1), systemd's own is the one with units. */
static uint32_t flags_by_units(const struct uma_guard_policy *policy, const char *text, size_t n) {
    uint32_t flags = 0;
    const char *path;
    size_t length;
    for (const char *at = text; uma_guard_cgroup_next(&at, text + n, &path, &length);)
        flags |= (uma_guard_units_have(&policy->protect, path, length) ? UMA_GUARD_PROTECTED : 0u) |
                 (uma_guard_units_have(&policy->no_brake, path, length) ? UMA_GUARD_NO_BRAKE : 0u) |
                 (uma_guard_units_have(&policy->avoid, path, length) ? UMA_GUARD_AVOID : 0u) |
                 (uma_guard_units_have(&policy->prefer, path, length) ? UMA_GUARD_PREFER : 0u);
    return flags;
}

/*
 * The user's shell: one that has a terminal and either leads the terminal's session (a login, a pane, a window) or was given nothing to run (below sudo, su, another shell). `bash train.sh` is a job
 * wherever it was started: with its line of commands it is no shell that somebody sits at, and it leads no session, unless it is all that a terminal was opened for; then what it starts is still not protected.
 */
static bool sits(const struct uma_guard_processes *p, const struct uma_guard_stat *stat) {
    if (!stat->terminal || !uma_guard_is_shell(stat->name))
        return false;
    if (stat->session == stat->pid)
        return true;
    ssize_t n = read_file(p, stat->pid, "cmdline", NULL);
    return n > 0 && uma_guard_shell_sits(p->before->text, (size_t)n);
}

static void identify(struct uma_guard_processes *p, const struct uma_guard_policy *policy, size_t i, const struct uma_guard_stat *stat,
                     int64_t now) {
    struct uma_guard_row *row = &p->before->rows[i];
    row->checked = (uint32_t)(now / UMA_SECOND_NS);
    row->known &= ~((ROW_FLAGS << ROW_FLAGS_AT) | (uint32_t)(ROW_KERNEL | ROW_SITS | ROW_UMACTL | ROW_AGAIN));
    row->known |= flags_by_name(policy, stat->name) << ROW_FLAGS_AT;
    if (stat->flags & UMA_GUARD_FLAG_KERNEL_THREAD) {
        row->known |= ROW_KERNEL;
        return;
    }
    row->known |= (sits(p, stat) ? (uint32_t)ROW_SITS : 0) | (strcmp(stat->name, UMA_GUARD_WARN_PROGRAM) == 0 ? (uint32_t)ROW_UMACTL : 0);
    ssize_t n = read_file(p, stat->pid, "cgroup", NULL);
    if (n > 0) /* else what was known of it holds */
        row->known = (row->known & ~(ROW_FLAGS << ROW_UNIT_FLAGS_AT)) | flags_by_units(policy, p->before->text, (size_t)n)
                                                                            << ROW_UNIT_FLAGS_AT;
}

static bool is_due(struct uma_guard_processes *p, const struct uma_guard_row *row, int64_t now) {
    if ((uint32_t)(now / UMA_SECOND_NS) - row->checked < CHECK_SECONDS || p->before->n_checks >= CHECKS_MAX)
        return false;
    p->before->n_checks++;
    return true;
}

/* ---- what it holds ------------------------------------------------------------------------------------------------ */

static uint64_t moved(uint64_t size, uint32_t was, uint32_t is, uint32_t page_size) {
    if (is >= was)
        return uma_guard_add(size, (uint64_t)(is - was) * page_size);
    uint64_t less = (uint64_t)(was - is) * page_size;
    return size > less ? size - less : 0;
}

/*
 * Faults count as well as the resident set, because the kernel may swap out as fast as a process takes: then only VmSwap grows. Which of the small ones' pages moved is not asked: all of it is taken for
 * anonymous memory.
 */
static bool wants_status(const struct uma_guard_row *row, const struct uma_guard_stat *stat, uint32_t page_size) {
    uint32_t pages = pages_of(stat), by = pages > row->stated ? pages - row->stated : row->stated - pages;
    if (row->known & ROW_NEW || !(row->known & ROW_STATED))
        return true;
    if ((uint64_t)pages * page_size >= LARGE_BYTES)
        return by > 0 || (uint32_t)stat->faults != row->faults;
    return (uint64_t)by * page_size >= MOVED_BYTES;
}

static void weigh(struct uma_guard_processes *p, size_t i, const struct uma_guard_stat *stat) {
    struct uma_guard_process *process = &p->list[i];
    struct uma_guard_row *row = &p->before->rows[i];
    struct uma_guard_status status = { 0 };
    uint32_t pages = pages_of(stat), page_size = p->before->page_size;
    if (row->known & ROW_KERNEL || stat->state == 'Z' || stat->state == 'X') {
        process->anon = process->shmem = process->swap = 0;
        row->resident = 0;
        return;
    }
    if (!wants_status(row, stat, page_size)) {
        process->anon = moved(process->anon, row->resident, pages, page_size);
        row->resident = pages;
        return;
    }
    ssize_t n = read_file(p, stat->pid, "status", kept_of(row, STATUS));
    if (n > 0 && uma_guard_status_parse(p->before->text, (size_t)n, (size_t)n < sizeof(p->before->text), &status)) {
        process->uid = status.known_uid ? status.uid : process->uid;
    }
    if (status.known_memory) {
        process->anon = status.anon;
        process->shmem = status.shmem;
        process->swap = status.swap;
        row->known |= ROW_STATED;
        row->stated = pages;
        row->faults = (uint32_t)stat->faults;
    } else { /* at most so much; pages of files are in it */
        process->anon = moved(process->anon, row->resident, pages, page_size);
    }
    row->resident = pages;
}

/* ---- the row ------------------------------------------------------------------------------------------------------ */

static void begin(struct uma_guard_process *process, struct uma_guard_row *row, const struct uma_guard_stat *stat) {
    *process = (struct uma_guard_process){ .pid = stat->pid, .start = stat->start, .envelope = -1, .uid = UINT32_MAX };
    uma_guard_row_close(row);
    *row = (struct uma_guard_row){ .known = ROW_NEW, .fd = { -1, -1 } };
}

static uint32_t state_flags(const struct uma_guard_stat *stat) {
    return (stat->state == 'T' ? UMA_GUARD_STOPPED : 0u) |
           (stat->state == 'Z' || stat->state == 'X' || stat->flags & UMA_GUARD_FLAG_EXITING ? UMA_GUARD_EXITING : 0u);
}

enum uma_guard_row_result uma_guard_row_read(struct uma_guard_processes *processes, const struct uma_guard_policy *policy, size_t i,
                                             int64_t now) {
    struct uma_guard_process *process = &processes->list[i];
    struct uma_guard_row *row = &processes->before->rows[i];
    struct uma_guard_stat stat;
    row->known |= ROW_SEEN;
    if (row->known & ROW_KERNEL && (uint32_t)(now / UMA_SECOND_NS) - row->checked < KERNEL_SECONDS)
        return ROW_READ;
    enum uma_guard_row_result result = read_stat(processes, process->pid, row, &stat);
    if (result != ROW_READ)
        return result;
    bool other = row->known & ROW_NEW || stat.start != process->start;
    if (other)
        begin(process, row, &stat);
    row->known |= ROW_SEEN | ROW_FRESH;
    row->parent = stat.parent;
    if (memcmp(stat.name, process->name, sizeof(stat.name)) != 0) { /* another program: its descriptors are its own */
        row->known &= ~(uint32_t)ROW_DEVICE;
        row->devices = 0;
    }
    if (other || row->known & ROW_AGAIN || memcmp(stat.name, process->name, sizeof(stat.name)) != 0 || is_due(processes, row, now))
        identify(processes, policy, i, &stat, now);
    (void)memcpy(process->name, stat.name, sizeof(process->name));
    bool quiet = !other && pages_of(&stat) == row->resident && (uint64_t)pages_of(&stat) * processes->before->page_size < LARGE_BYTES;
    row->known = quiet ? row->known | ROW_QUIET : row->known & ~(uint32_t)ROW_QUIET;
    row->read = (uint32_t)(now / UMA_MILLISECOND_NS);
    weigh(processes, i, &stat);
    if (row->known & ROW_UMACTL && !(row->known & ROW_MARKED) && processes->before->folder >= 0 &&
        uma_guard_warn_marked(processes->before->folder, process->pid, process->start, process->uid, NULL))
        row->known |= ROW_MARKED;
    process->flags = state_flags(&stat);
    return ROW_READ;
}
