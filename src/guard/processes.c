/* SPDX-License-Identifier: MIT */
/*
 * What it costs, in time of a processor, on a busy virtual machine with 2 processors and Linux 6.18 (a system call 1.2 us; opening, reading and closing a stat 13 us, reading one that is open 5, a status 11):
 *
 *   processes               324     2,025
 *   the first table       17.6 ms  126 ms    stat, status and cgroup of each
 *   a whole one            4.5 ms   26 ms    stat of each
 *   again within 100 ms    0.6 ms  2.5 ms    those that are large or move, and the listing
 */
#include "guard/processes_private.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/listing.h"
#include "guard/scan.h"
#include "guard/warn_marker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* /proc that could not be opened is tried again so often. */
#define TRY_EVERY_NS UMA_SECOND_NS
/* How long small ones that do nothing are not looked at. */
enum { QUIET_MS = 100 };
/* Whose files stay open: of smaller ones nothing is to be had. */
#define KEEP_BYTES (UINT64_C(8) << 20)

static bool is_late(int64_t deadline) {
    return deadline != INT64_MAX && uma_monotonic_ns() >= deadline;
}

/* ---- rows and their index ------------------------------------------------------------------------------------------ */

/* Numbers of processes are given out one after the other, so that all bits must count (Fibonacci hashing, Knuth volume 3, 6.4). */
static size_t slot_of(int32_t pid) {
    return ((uint32_t)pid * UINT32_C(2654435769)) >> 19;
}
_Static_assert(UMA_GUARD_SLOTS == 1 << (32 - 19), "the hash has as many bits as the index");

int32_t uma_guard_row_find(const struct uma_guard_processes *processes, int32_t pid) {
    const struct uma_guard_processes_before *before = processes->before;
    for (size_t slot = slot_of(pid); pid > 0 && before->index[slot]; slot = (slot + 1) % UMA_GUARD_SLOTS)
        if (processes->list[before->index[slot] - 1].pid == pid)
            return before->index[slot] - 1;
    return -1;
}

static void index_row(struct uma_guard_processes *p, size_t i) {
    size_t slot = slot_of(p->list[i].pid);
    while (p->before->index[slot])
        slot = (slot + 1) % UMA_GUARD_SLOTS;
    p->before->index[slot] = (uint16_t)(i + 1);
}

/* What it holds that would come back. */
static uint64_t row_size(const struct uma_guard_process *process) {
    return uma_guard_add(uma_guard_add(process->anon, process->shmem), uma_guard_add(process->swap, process->gpu));
}

/* Rows without a process go, the last ones take their places. */
static void close_gaps(struct uma_guard_processes *p) {
    struct uma_guard_processes_before *before = p->before;
    for (size_t i = 0; i < p->n;) {
        if (p->list[i].pid > 0) {
            i++;
            continue;
        }
        p->n--;
        uma_guard_row_close(&before->rows[i]);
        p->list[i] = p->list[p->n];
        before->rows[i] = before->rows[p->n];
    }
    (void)memset(before->index, 0, sizeof(before->index));
    for (size_t i = 0; i < p->n; i++)
        index_row(p, i);
}

/* ---- a full table -------------------------------------------------------------------------------------------------- */

static unsigned class_of(const struct uma_guard_process *process) {
    uint64_t size = row_size(process);
    return size ? 64 - (unsigned)__builtin_clzll(size) : 0;
}

/* The smallest quarter goes, in classes of a power of two; nobody with GPU memory. New ones that are no larger find no place until the table has room again. */
static void make_room(struct uma_guard_processes *p) {
    size_t count[65] = { 0 }, n = 0;
    unsigned most = 0;
    for (size_t i = 0; i < p->n; i++)
        count[class_of(&p->list[i])]++;
    while (most < 64 && (n += count[most]) < UMA_GUARD_PROCESS_MAX / 4)
        most++;
    size_t left = UMA_GUARD_PROCESS_MAX / 4;
    for (size_t i = 0; i < p->n && left > 0; i++) {
        if (class_of(&p->list[i]) > most || p->before->rows[i].known & ROW_GPU)
            continue;
        uint64_t size = row_size(&p->list[i]);
        p->before->least = MAX_OF(p->before->least, size);
        p->list[i].pid = 0;
        left--;
    }
    close_gaps(p);
}

/* ---- the passes ---------------------------------------------------------------------------------------------------- */

struct pass {
    const struct uma_guard_policy *policy;
    int64_t now, deadline;
    bool cut; /* not all was looked at */
    bool any; /* something was */
};

static void look_at(struct uma_guard_processes *p, struct pass *pass, size_t i) {
    switch (uma_guard_row_read(p, pass->policy, i, pass->now)) {
    case ROW_READ:
        pass->any = true;
        break;
    case ROW_GONE:
        p->list[i].pid = 0;
        break;
    case ROW_FAILED: /* no descriptor, no memory, not allowed: it stays as it was */
        pass->cut = true;
        if (p->before->rows[i].known & ROW_NEW)
            p->list[i].pid = 0;
        break;
    }
}

/* `sure`: of a process that has GPU memory, whatever its size. */
static void add(struct uma_guard_processes *p, struct pass *pass, int32_t pid, bool sure) {
    uint64_t bytes;
    int32_t parent;
    if (p->before->least > 0 && !sure) { /* the table was full: a glance first, of which there may be thousands */
        if (!uma_guard_row_peek(p, pid, &bytes, &parent))
            return;
        if (bytes <= p->before->least) {
            pass->cut = true;
            return;
        }
    }
    if (p->n == UMA_GUARD_PROCESS_MAX) {
        make_room(p);
        pass->cut = true;
    }
    if (p->n == UMA_GUARD_PROCESS_MAX)
        return;
    size_t i = p->n++;
    p->list[i] = (struct uma_guard_process){ .pid = pid };
    p->before->rows[i] = (struct uma_guard_row){ .known = ROW_NEW, .fd = { -1, -1 } };
    look_at(p, pass, i);
    if (p->list[i].pid > 0) {
        index_row(p, i);
    } else {
        uma_guard_row_close(&p->before->rows[i]);
        p->n--;
    }
}

/* Those of whom the driver speaks: there are few, and they are why the table is taken. */
static void look_at_gpu(struct uma_guard_processes *p, struct pass *pass, const struct uma_guard_gpu *gpu) {
    for (uint32_t k = 0; gpu && gpu->known && k < MIN_OF(gpu->n, (uint32_t)UMA_GUARD_GPU_MAX); k++) {
        int32_t i = uma_guard_row_find(p, gpu->list[k].pid);
        if (i < 0 && gpu->list[k].pid > 0)
            add(p, pass, gpu->list[k].pid, true);
        else if (i >= 0 && !(p->before->rows[i].known & ROW_SEEN))
            look_at(p, pass, (size_t)i);
        i = uma_guard_row_find(p, gpu->list[k].pid);
        if (i >= 0)
            p->before->rows[i].known |= ROW_GPU;
    }
}

/*
 * Most processes of a machine do nothing. A small one that did not move is looked at ten times a second: it can have taken no more than a GiB or two meanwhile, of which the machine's own readings tell at once, and
 * a table that is taken every 10 ms costs a quarter of what it would.
 */
static bool can_wait(const struct uma_guard_row *row, int64_t now) {
    return row->known & ROW_QUIET && (uint32_t)(now / UMA_MILLISECOND_NS) - row->read < QUIET_MS;
}

static bool is_done(const struct uma_guard_processes *p, struct pass *pass, size_t i) {
    if (p->list[i].pid <= 0 || p->before->rows[i].known & ROW_SEEN)
        return true;
    if (!can_wait(&p->before->rows[i], pass->now))
        return false;
    pass->any = true; /* as good as new */
    return true;
}

static void look_at_largest(struct uma_guard_processes *p, struct pass *pass) {
    for (uint32_t k = 0; k < p->before->n_first; k++) {
        size_t i = p->before->first[k];
        if (i >= p->n || is_done(p, pass, i))
            continue;
        if (is_late(pass->deadline)) {
            pass->cut = true;
            return;
        }
        look_at(p, pass, i);
    }
}

static void look_at_rest(struct uma_guard_processes *p, struct pass *pass) {
    size_t begin = p->n ? p->before->rest % p->n : 0;
    for (size_t k = 0; k < p->n; k++) {
        size_t i = (begin + k) % p->n;
        if (is_done(p, pass, i))
            continue;
        if (is_late(pass->deadline)) {
            p->before->rest = (uint32_t)i;
            pass->cut = true;
            return;
        }
        look_at(p, pass, i);
    }
}

/* ---- the listing --------------------------------------------------------------------------------------------------- */

/* Bytes of names, 0 at the end, -errno. */
static long list_some(struct uma_guard_processes *p) {
    long n = uma_guard_list(p->proc, p->before->names, sizeof(p->before->names));
    return n < 0 ? -errno : n;
}

/* Those who are not in the table. False: time is over; `listing` is where it goes on. */
static bool add_listed(struct uma_guard_processes *p, struct pass *pass, long n) {
    long at = 0;
    for (const struct uma_guard_entry *entry; (entry = uma_guard_entry_next(p->before->names, n, &at));) {
        int32_t pid = uma_guard_entry_pid(entry);
        if (pid > 0 && uma_guard_row_find(p, pid) < 0) {
            if (is_late(pass->deadline))
                return false;
            add(p, pass, pid, false);
        }
        p->before->listing = entry->next;
    }
    return true;
}

/* From where it was left off to the end, and then all of it, because where a folder's places are in no order nobody knows what was before. `n`: of the first names, which are listed already. */
static void add_new(struct uma_guard_processes *p, struct pass *pass, long n) {
    for (int rounds = p->before->listing ? 2 : 1; rounds > 0; rounds--) {
        for (; n > 0; n = list_some(p)) {
            if (!add_listed(p, pass, n)) {
                pass->cut = true;
                return;
            }
        }
        pass->cut |= n < 0;
        p->before->listing = 0;
        if (rounds > 1)
            n = lseek(p->proc, 0, SEEK_SET) < 0 ? -errno : list_some(p);
    }
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */

/* FNV-1a, eight bytes at a time: has somebody changed the patterns? */
static uint64_t sum_of(uint64_t sum, const struct uma_guard_patterns *patterns) {
    uint32_t n = MIN_OF(patterns->n, (uint32_t)UMA_GUARD_PATTERNS);
    sum = (sum ^ n) * UINT64_C(1099511628211);
    for (size_t at = 0; at < n * sizeof(patterns->list[0]); at += sizeof(uint64_t)) {
        uint64_t word;
        (void)memcpy(&word, (const char *)patterns->list + at, sizeof(word));
        sum = (sum ^ word) * UINT64_C(1099511628211);
        sum ^= sum >> 32;
    }
    return sum;
}

/* A policy that was read anew: what names and units made of each process is found out again. */
static void compare_patterns(struct uma_guard_processes *p, const struct uma_guard_policy *policy) {
    uint64_t sum = UINT64_C(14695981039346656037);
    sum = sum_of(sum_of(sum_of(sum_of(sum, &policy->protect), &policy->avoid), &policy->prefer), &policy->no_brake);
    for (size_t i = 0; sum != p->before->patterns && i < p->n; i++)
        p->before->rows[i].known |= ROW_AGAIN;
    p->before->patterns = sum;
}

/* The largest first, so that the shortest deadline has them. By insertion: there are few. */
static void sort_first(struct uma_guard_processes *p, uint32_t n) {
    uint16_t *first = p->before->first;
    for (uint32_t k = 1; k < n; k++) {
        uint16_t i = first[k];
        uint64_t size = row_size(&p->list[i]);
        uint32_t at = k;
        for (; at > 0 && row_size(&p->list[first[at - 1]]) < size; at--)
            first[at] = first[at - 1];
        first[at] = i;
    }
}

/* Their files stay open, at the most 2 * UMA_GUARD_FIRST: a read of an open one takes 5 us instead of 13, and no memory of a machine that has none. A folder's files are opened anew, because tests replace them. */
static void keep_first(struct uma_guard_processes *p, uint32_t n) {
    for (size_t i = 0; i < p->n; i++)
        p->before->rows[i].known &= ~(uint32_t)ROW_KEPT;
    for (uint32_t k = 0; k < n && !p->prefix[0]; k++)
        if (row_size(&p->list[p->before->first[k]]) >= KEEP_BYTES)
            p->before->rows[p->before->first[k]].known |= ROW_KEPT;
    for (size_t i = 0; i < p->n; i++)
        if (!(p->before->rows[i].known & ROW_KEPT))
            uma_guard_row_close(&p->before->rows[i]);
}

/* The numbers of the largest, for the next time: the least of those kept is found again only when it goes. */
static void remember_largest(struct uma_guard_processes *p) {
    struct uma_guard_processes_before *before = p->before;
    uint32_t n = 0, least = 0;
    for (size_t i = 0; i < p->n; i++) {
        uint64_t size = row_size(&p->list[i]);
        if (size == 0)
            continue;
        if (n < UMA_GUARD_FIRST)
            before->first[n++] = (uint16_t)i;
        else if (size > row_size(&p->list[before->first[least]]))
            before->first[least] = (uint16_t)i;
        else
            continue;
        if (n == UMA_GUARD_FIRST)
            for (uint32_t k = least = 0; k < n; k++)
                if (row_size(&p->list[before->first[k]]) < row_size(&p->list[before->first[least]]))
                    least = k;
    }
    before->n_first = n;
    sort_first(p, n);
    keep_first(p, n);
}

static int open_proc(struct uma_guard_processes *p) {
    char path[512];
    int n = snprintf(path, sizeof(path), "%s/proc", p->prefix);
    if (n < 0 || (size_t)n >= sizeof(path))
        return -ENAMETOOLONG;
    p->proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return p->proc < 0 ? -errno : 0;
}

static int begin(struct uma_guard_processes *p, long *ret_n) {
    struct uma_guard_processes_before *before = p->before;
    if (p->proc < 0) {
        int64_t now = uma_monotonic_ns();
        if (now - before->tried < TRY_EVERY_NS && now >= before->tried)
            return -ENOENT;
        before->tried = now;
        int r = open_proc(p);
        if (r < 0)
            return r;
    }
    if (lseek(p->proc, before->listing, SEEK_SET) < 0)
        return -errno;
    long n = list_some(p);
    if (n == 0 && before->listing != 0) { /* those that it was to go on with are gone */
        before->listing = 0;
        n = lseek(p->proc, 0, SEEK_SET) < 0 ? -errno : list_some(p);
    }
    if (n <= 0) { /* not even itself: it is no /proc any more */
        (void)close(TAKE_FD(p->proc));
        return n < 0 ? (int)n : -ENOENT;
    }
    *ret_n = n;
    return 0;
}

/* Nothing could be opened, or no time was given: what is there is as old as it was. */
static int forget(struct uma_guard_processes *p) {
    close_gaps(p);
    for (size_t i = 0; i < p->n; i++)
        p->before->rows[i].known &= ~(uint32_t)(ROW_SEEN | ROW_NEW | ROW_FRESH | ROW_GPU);
    return -EIO;
}

static void end(struct uma_guard_processes *p, const struct pass *pass, const struct uma_guard_gpu *gpu) {
    close_gaps(p);
    if (p->n < UMA_GUARD_PROCESS_MAX / 2) /* there is room again */
        p->before->least = 0;
    uma_guard_rows_flags(p);
    uma_guard_rows_devices(p, pass->now, pass->deadline);
    uma_guard_rows_trees(p);
    uma_guard_rows_gpu(p, gpu, pass->now);
    uma_guard_rows_grow(p, pass->now);
    remember_largest(p);
    for (size_t i = 0; i < p->n; i++)
        p->before->rows[i].known &= ~(uint32_t)(ROW_SEEN | ROW_NEW | ROW_FRESH | ROW_GPU);
    p->time = pass->now;
    p->whole = !pass->cut;
}

int uma_guard_processes_take(struct uma_guard_processes *processes, const struct uma_guard_policy *policy, const struct uma_guard_gpu *gpu,
                             int64_t now, int64_t deadline) {
    struct pass pass = { .policy = policy, .now = now, .deadline = deadline };
    long n = 0;
    int r = begin(processes, &n);
    if (r < 0)
        return r;
    compare_patterns(processes, policy);
    processes->before->n_checks = 0;
    look_at_gpu(processes, &pass, gpu);
    look_at_largest(processes, &pass);
    add_new(processes, &pass, n);
    look_at_rest(processes, &pass);
    if (!pass.any)
        return forget(processes);
    end(processes, &pass, gpu);
    return 0;
}

int uma_guard_processes_open(struct uma_guard_processes *processes, const char *prefix, int32_t self) {
    long page = sysconf(_SC_PAGESIZE);
    char path[512];
    processes->prefix = prefix ? prefix : "";
    processes->proc = -1;
    processes->n = 0;
    processes->time = 0;
    processes->whole = false;
    /* pages of its own, so that none is there before it is used */
    void *map = mmap(NULL, sizeof(*processes->before), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    processes->before = map == MAP_FAILED ? NULL : map;
    if (!processes->before)
        return -ENOMEM;
    processes->before->self = self;
    processes->before->page_size = page > 0 ? (uint32_t)page : 4096;
    processes->before->gpu_age_ns = INT64_MAX;
    processes->before->folder = -1;
    int n = snprintf(path, sizeof(path), "%s%s", processes->prefix, processes->prefix[0] ? UMA_GUARD_WARN_FOLDER : uma_guard_warn_folder());
    if (n > 0 && (size_t)n < sizeof(path))
        processes->before->folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    (void)open_proc(processes);
    return 0;
}

void uma_guard_processes_close(struct uma_guard_processes *processes) {
    if (!processes->before)
        return;
    for (size_t i = 0; i < processes->n; i++)
        uma_guard_row_close(&processes->before->rows[i]);
    if (processes->proc >= 0)
        (void)close(TAKE_FD(processes->proc));
    if (processes->before->folder >= 0)
        (void)close(processes->before->folder);
    (void)munmap(TAKE_PTR(processes->before), sizeof(struct uma_guard_processes_before));
    processes->n = 0;
}
