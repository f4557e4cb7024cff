/* SPDX-License-Identifier: MIT */
#include "act/evict_file.h"

#include "base/thread.h"
#include "base/units.h"
#include "base/values.h"
#include "observe/files/magic.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>

/* 5 ms for 64 MiB in pages of 4 KiB, 0.2 ms in large folios: as fast as in one piece (measured). A file of any apparent size has a bounded number of pieces. */
#define PIECE (64 * UMA_MIB)
enum { PIECES_MAX = 4096 };
/*
 * More than this is dropped by two threads: 1.5 times as fast as one, 9.7 beside 14.6 ms for 4 GiB in large folios, 324 beside 483 ms for 2 GiB in pages of 4 KiB
 * (measured, 2 CPUs; more threads were not). To start one takes 0.1 ms.
 */
#define SHARED (512 * UMA_MIB)

struct eviction {
    int fd;
    const struct stat *st;
    enum uma_filesystem_kind kind;
    const struct uma_evict_options *options;
    struct uma_evict_receipt *receipt;
    uint64_t page, size; /* in bytes; size: whole pages */
    uint64_t piece;      /* a power of two times the largest folio */
    struct uma_error *err;
};

static bool stop(struct eviction *e) {
    if (!e->receipt->stopped && e->options->stop && e->options->stop(e->options->userdata))
        e->receipt->stopped = true;
    return e->receipt->stopped;
}

static int failed(const struct eviction *e, int code, const char *what) {
    return uma_error_set(e->err, code, "%s", what);
}

int uma_evict_range(int fd, uint64_t offset, uint64_t length) {
    return -posix_fadvise(fd, (off_t)offset, (off_t)length, POSIX_FADV_DONTNEED);
}

#define REFUSED "taking it out of the page cache is refused"
#define NOT_WRITTEN "what is dirty cannot be written"

static int drop(const struct eviction *e, uint64_t offset, uint64_t length) {
    int r = uma_evict_range(e->fd, offset, length);
    return r == 0 ? 0 : failed(e, -r, REFUSED);
}

static void measure(const struct eviction *e, struct uma_residency *ret_residency) {
    struct stat now;
    uma_residency_read(e->fd, fstat(e->fd, &now) < 0 ? e->st : &now, e->kind, 0, 0, ret_residency);
}

static bool has_another_cpu(void) {
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 1;
}

/* The first half of a large file, asked about by another thread: a question takes 4 ms for 4 GiB, and goes through as much memory as dropping it does (measured). */
struct half {
    const struct eviction *e;
    uint64_t length;
    struct uma_residency residency;
};

static void measure_half(void *userdata) {
    struct half *half = userdata;
    uma_residency_read(half->e->fd, half->e->st, half->e->kind, 0, half->length, &half->residency);
}

static void add(struct uma_u64 *to, struct uma_u64 more) {
    if (to->validity == UMA_KNOWN && more.validity == UMA_KNOWN)
        to->value += more.value;
    else if (to->validity == UMA_KNOWN)
        *to = more;
}

/* As it is before, when most of a large file may be there. */
static void measure_before(const struct eviction *e, struct uma_residency *ret_residency) {
    struct half half = { .e = e, .length = e->size / 2 / e->piece * e->piece };
    struct uma_thread helper;
    if (half.length < SHARED / 2 || !has_another_cpu() || uma_thread_start(&helper, measure_half, &half) < 0) {
        measure(e, ret_residency);
        return;
    }
    uma_residency_read(e->fd, e->st, e->kind, half.length, 0, ret_residency);
    uma_thread_join(&helper);
    add(&ret_residency->resident, half.residency.resident);
    add(&ret_residency->dirty, half.residency.dirty);
    add(&ret_residency->writeback, half.residency.writeback);
    if (!ret_residency->why)
        ret_residency->why = half.residency.why;
}

/*
 * Pieces begin and end where no folio can be cut in two, because the kernel passes over a folio that lies in the range only in part (mm/truncate.c,
 * find_lock_entries): the largest is what one entry of the page table's second level maps, page / 8 pages.
 */
static uint64_t piece_of(uint64_t size, uint64_t page) {
    uint64_t piece = MAX_OF(PIECE, page / 8 * page);
    while (size / piece >= PIECES_MAX)
        piece *= 2;
    return piece;
}

/* The pieces of a file, each dropped by the thread that takes it. */
struct pieces {
    int fd;
    uint64_t piece, n;
    atomic_uint_fast64_t next;
    atomic_int code;
    atomic_bool stop;
};

static bool drop_next(struct pieces *p) {
    uint64_t i = atomic_fetch_add(&p->next, 1);
    if (i >= p->n || atomic_load(&p->stop))
        return false;
    /* the last has no end, so that what was added meanwhile is in it */
    int r = uma_evict_range(p->fd, i * p->piece, i + 1 < p->n ? p->piece : 0);
    if (r < 0) {
        atomic_store(&p->code, r);
        atomic_store(&p->stop, true);
    }
    return r == 0;
}

static void drop_others(void *userdata) {
    while (drop_next(userdata))
        ;
}

static int drop_all(struct eviction *e, uint64_t resident) {
    struct pieces p = { .fd = e->fd, .piece = e->piece, .n = 1 };
    struct uma_thread helper;
    if (resident > e->piece && e->size > 0 && (e->options->stop || resident > SHARED))
        p.n = (e->size + e->piece - 1) / e->piece;
    bool helped = p.n > 1 && resident > SHARED && has_another_cpu() && uma_thread_start(&helper, drop_others, &p) == 0;
    while (!stop(e) && drop_next(&p))
        ;
    if (e->receipt->stopped)
        atomic_store(&p.stop, true);
    if (helped)
        uma_thread_join(&helper);
    int code = atomic_load(&p.code);
    return code == 0 ? 0 : failed(e, -code, REFUSED);
}

/* ---- leaving what is dirty ---- */

enum {
    QUESTIONS_MAX = 16384, /* of cachestat(2), a microsecond or more each: ranges that are still mixed then are left */
    SPANS_MAX = 64,        /* 2^64 bytes are halved at most so often */
};

struct span {
    uint64_t start, length; /* length: a power of two, and `start` a multiple of it, so that folios are not cut */
};

/* A run of clean spans, collected so that a folio that reaches over several goes with them. */
struct run {
    uint64_t start, end, resident;
};

static int drop_run(const struct eviction *e, struct run *run) {
    int r = run->resident > 0 ? drop(e, run->start, run->end - run->start) : 0;
    *run = (struct run){ 0 };
    return r;
}

static int add_to_run(const struct eviction *e, struct run *run, struct span span, uint64_t resident) {
    if (run->end != span.start || run->end == run->start) {
        int r = drop_run(e, run);
        if (r < 0)
            return r;
        run->start = span.start;
    }
    run->end = span.start + span.length;
    run->resident += resident;
    return run->end % e->piece == 0 ? drop_run(e, run) : 0;
}

/* Halve until a range is clean, or dirty throughout, or a page. */
static int drop_clean(struct eviction *e) {
    struct span stack[SPANS_MAX];
    struct run run = { 0 };
    size_t n = 0;
    uint64_t whole = e->page;
    while (whole < e->size)
        whole *= 2;
    stack[n++] = (struct span){ 0, whole };
    for (int questions = 0; n > 0 && questions < QUESTIONS_MAX && !stop(e); questions++) {
        struct span span = stack[--n];
        struct uma_residency r;
        uma_residency_read(e->fd, e->st, e->kind, span.start, span.length, &r);
        if (r.dirty.validity != UMA_KNOWN)
            return failed(e, EOPNOTSUPP, "the kernel no longer tells which pages are dirty");
        int code = 0;
        if (r.dirty.value == 0 && (span.length <= e->piece || r.resident.value == 0))
            code = add_to_run(e, &run, span, r.resident.value);
        else if (r.dirty.value < r.resident.value || r.dirty.value == 0)
            for (int half = 1; half >= 0 && span.length > e->page; half--)
                stack[n++] = (struct span){ span.start + (half ? span.length / 2 : 0), span.length / 2 };
        if (code < 0)
            return code;
    }
    return e->receipt->stopped ? 0 : drop_run(e, &run);
}

/* ---- the whole of it ---- */

/* Journal and device, too: half a millisecond and more for a file of one page (measured, ext4). */
static int write_durably(struct eviction *e) {
    if (fdatasync(e->fd) < 0)
        return failed(e, errno, NOT_WRITTEN);
    e->receipt->synced = true;
    return 0;
}

/*
 * What is asked for is pages that are clean, not a file that outlives a crash: sync_file_range(2) writes and waits without a commit of the journal. It waits for what
 * somebody else began to write as well, and tells errors of writing as fsync(2) does (mm/filemap.c, file_check_and_advance_wb_err). After such an error fdatasync(2)
 * would find nothing wrong any more: it is for those alone who have no such call.
 */
static int write_clean(struct eviction *e) {
    if (sync_file_range(e->fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) == 0)
        return 0;
    bool lacking = errno == ENOSYS || errno == EINVAL || errno == ESPIPE || errno == EOPNOTSUPP || errno == EPERM; /* EPERM: a filter */
    return lacking ? write_durably(e) : failed(e, errno, NOT_WRITTEN);
}

static int write_out(struct eviction *e) {
    struct uma_evict_receipt *receipt = e->receipt;
    struct uma_u64 dirty = receipt->before.dirty;
    bool some = dirty.validity == UMA_KNOWN && dirty.value > 0, durably = e->options->dirty == UMA_EVICT_WRITE;
    receipt->written = dirty.validity == UMA_KNOWN ? uma_known_u64(0) : uma_no_u64(dirty.validity);
    if (e->options->dirty == UMA_EVICT_LEAVE_DIRTY || (!durably && !some) || stop(e))
        return 0;
    int r = durably ? write_durably(e) : write_clean(e);
    if (r < 0) /* squashfs, erofs, iso9660 have nothing to write, and no function for it (fs/sync.c: EINVAL) */
        return r == -EINVAL && !some ? 0 : r;
    receipt->written = dirty;
    return 0;
}

/*
 * Some file systems hold pages that are written until more is done with them: NFS until the server has committed, journalled data until the journal is. Where
 * something is left it is synced as well before the second try.
 */
static int write_rest(struct eviction *e) {
    bool some = uma_usable(e->receipt->written.validity) && e->receipt->written.value > 0;
    return some && !e->receipt->synced && e->options->dirty == UMA_EVICT_WRITE_IF_DIRTY ? write_durably(e) : 0;
}

static int evict(struct eviction *e) {
    const struct uma_residency *before = &e->receipt->before, *after = &e->receipt->after;
    measure_before(e, &e->receipt->before);
    e->receipt->after = *before;
    if (before->resident.validity == UMA_KNOWN && before->resident.value == 0) {
        e->receipt->written = before->dirty;
        return 0;
    }
    bool leave = e->options->dirty == UMA_EVICT_LEAVE_DIRTY;
    if (leave && before->dirty.validity != UMA_KNOWN)
        return failed(e, EOPNOTSUPP, "the kernel does not tell which pages are dirty, so that none can be left");
    int r = write_out(e);
    if (r < 0)
        return r;
    if (leave && before->dirty.value > 0) {
        r = drop_clean(e);
        measure(e, &e->receipt->after);
        return r;
    }
    /* Once more for what was under writeback the first time, or held for a moment by a reader. */
    uint64_t left = before->resident.validity == UMA_KNOWN ? before->resident.value : UINT64_MAX;
    for (int pass = 0; pass < 2 && left > 0 && r == 0 && !stop(e); pass++) {
        if (pass > 0 && (r = write_rest(e)) < 0)
            return r;
        r = drop_all(e, left);
        measure(e, &e->receipt->after);
        left = after->resident.validity == UMA_KNOWN ? after->resident.value : left;
    }
    return r;
}

int uma_evict_file(int fd, const struct stat *st, enum uma_filesystem_kind kind, const struct uma_evict_options *options,
                   struct uma_evict_receipt *ret_receipt, struct uma_error *err) {
    int64_t began = uma_monotonic_ns();
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    *ret_receipt = (struct uma_evict_receipt){ 0 };
    struct eviction e = { .fd = fd, .st = st, .kind = kind, .options = options, .receipt = ret_receipt, .page = page, .err = err };
    if (!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode))
        return failed(&e, EINVAL, "neither a regular file nor a block device");
    if (S_ISREG(st->st_mode))
        e.size = (uint64_t)st->st_size;
    else if (ioctl(fd, BLKGETSIZE64, &e.size) < 0)
        return failed(&e, errno, "its size cannot be had");
    e.size = (e.size + page - 1) / page * page;
    e.piece = piece_of(e.size, page);
    /* a device's node lies on devtmpfs, its pages do not */
    if (S_ISREG(st->st_mode) && (kind == UMA_FILESYSTEM_MEMORY || uma_filesystem_is_memory(uma_filesystem_magic(fd))))
        return failed(&e, EOPNOTSUPP, "it lies in memory: its pages are the file");
    int r = evict(&e);
    const struct uma_u64 *before = &ret_receipt->before.resident, *after = &ret_receipt->after.resident;
    ret_receipt->kept = *after;
    ret_receipt->evicted = before->validity != UMA_KNOWN  ? *before
                           : after->validity != UMA_KNOWN ? *after
                                                          : uma_known_u64(before->value - MIN_OF(before->value, after->value));
    ret_receipt->seconds = (double)(uma_monotonic_ns() - began) / (double)UMA_SECOND_NS;
    return r;
}
