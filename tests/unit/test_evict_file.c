/* SPDX-License-Identifier: MIT */
/*
 * Linked with --wrap: the page cache of one file is played here as the kernel treats it (mm/fadvise.c, mm/truncate.c), so that each case comes out the same
 * every time: folios of any size, of which only those that lie in the range as a whole are dropped, and pages that are mapped, dirty, under writeback.
 */
#include "test.h"

#include "act/evict_file.h"
#include "base/units.h"
#include "base/values.h"
#include "observe/files/magic.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

int __wrap_posix_fadvise64(int fd, off_t offset, off_t length, int advice);
int __wrap_fdatasync(int fd);
int __wrap_sync_file_range(int fd, off64_t offset, off64_t length, unsigned flags);
int __wrap_fstatfs64(int fd, struct statfs *fs);
void __wrap_uma_residency_read(int fd, const struct stat *st, enum uma_filesystem_kind kind, uint64_t offset, uint64_t length,
                               struct uma_residency *ret_residency);

/* With large file support, glibc has other names for two of them. */
int __wrap_posix_fadvise(int fd, off_t offset, off_t length, int advice) __attribute__((alias("__wrap_posix_fadvise64")));
int __wrap_fstatfs(int fd, struct statfs *fs) __attribute__((alias("__wrap_fstatfs64")));

enum { CACHED = 1, DIRTY = 2, MAPPED = 4, WRITEBACK = 8, HEAD = 16 /* a folio begins here */, UNCOMMITTED = 32 };

enum { PAGES_MAX = 1 << 18 };

static struct {
    unsigned char page[PAGES_MAX];
    size_t n, size; /* pages; bytes of one */
    uint32_t magic;
    enum uma_validity told; /* KNOWN: all; UNKNOWN: what is resident, not what is dirty (mincore); DENIED: nothing */
    int fadvise_code, fdatasync_code, range_sync_code;
    bool holds_written; /* what is written cannot go until fdatasync(2) */
    bool writes_slowly; /* what the kernel itself starts to write is under writeback until asked about again */
    unsigned fadvises, fdatasyncs, range_syncs, questions, started_writes;
    unsigned stop_after; /* times that stop() may be asked */
    unsigned stops;
} cache;

/* A large file is dropped by two threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t folio_end(size_t i) {
    for (i++; i < cache.n && !(cache.page[i] & HEAD); i++)
        ;
    return i;
}

/* mapping_evict_folio(): all of it or nothing. */
static void try_folio(size_t first, size_t end) {
    for (size_t i = first; i < end; i++)
        if (cache.page[i] & (DIRTY | MAPPED | WRITEBACK | UNCOMMITTED))
            return;
    for (size_t i = first; i < end; i++)
        cache.page[i] &= HEAD;
}

static int drop_range(off_t offset, off_t length, int advice) {
    assert_int_equal(advice, POSIX_FADV_DONTNEED);
    assert_int_equal((size_t)offset % cache.size, 0);
    assert_int_equal((size_t)length % cache.size, 0); /* a page that is cut would be kept */
    cache.fadvises++;
    if (cache.fadvise_code)
        return cache.fadvise_code;
    size_t first = (size_t)offset / cache.size, end = length ? first + (size_t)length / cache.size : cache.n;
    end = end < cache.n ? end : cache.n;
    for (size_t i = first; i < end; i++)
        if (cache.page[i] & DIRTY) {
            cache.started_writes++;
            cache.page[i] = (unsigned char)((cache.page[i] & ~DIRTY) | (cache.writes_slowly ? WRITEBACK : 0));
        }
    while (first < end && !(cache.page[first] & HEAD))
        first++;
    for (size_t next; first < end && (next = folio_end(first)) <= end; first = next)
        try_folio(first, next);
    for (size_t i = 0; i < cache.n; i++) /* written by the next time */
        if (cache.writes_slowly && cache.fadvises % 2 == 0)
            cache.page[i] &= (unsigned char)~WRITEBACK;
    return 0;
}

int __wrap_posix_fadvise64(int fd, off_t offset, off_t length, int advice) {
    (void)fd;
    (void)pthread_mutex_lock(&lock);
    int r = drop_range(offset, length, advice);
    (void)pthread_mutex_unlock(&lock);
    return r;
}

int __wrap_fdatasync(int fd) {
    (void)fd;
    cache.fdatasyncs++;
    if (cache.fdatasync_code) {
        errno = cache.fdatasync_code;
        return -1;
    }
    for (size_t i = 0; i < cache.n; i++)
        cache.page[i] &= (unsigned char)~(DIRTY | WRITEBACK | UNCOMMITTED);
    return 0;
}

int __wrap_sync_file_range(int fd, off64_t offset, off64_t length, unsigned flags) {
    (void)fd;
    assert_true(offset == 0 && length == 0);
    assert_int_equal(flags, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    cache.range_syncs++;
    if (cache.range_sync_code) {
        errno = cache.range_sync_code;
        return -1;
    }
    for (size_t i = 0; i < cache.n; i++)
        if (cache.page[i] & (DIRTY | WRITEBACK)) {
            cache.page[i] &= (unsigned char)~(DIRTY | WRITEBACK);
            cache.page[i] |= (unsigned char)(cache.holds_written ? UNCOMMITTED : 0);
        }
    return 0;
}

int __wrap_fstatfs64(int fd, struct statfs *fs) {
    (void)fd;
    *fs = (struct statfs){ .f_type = (__typeof__(fs->f_type))cache.magic };
    return 0;
}

void __wrap_uma_residency_read(int fd, const struct stat *st, enum uma_filesystem_kind kind, uint64_t offset, uint64_t length,
                               struct uma_residency *ret_residency) {
    (void)fd;
    (void)st;
    (void)kind;
    cache.questions++;
    uint64_t end = length ? MIN_OF((offset + length) / cache.size, cache.n) : cache.n, resident = 0, dirty = 0;
    for (uint64_t i = offset / cache.size; i < end; i++) {
        resident += (cache.page[i] & CACHED) != 0;
        dirty += (cache.page[i] & (DIRTY | WRITEBACK)) != 0;
    }
    *ret_residency = (struct uma_residency){ 0 };
    if (cache.told == UMA_DENIED)
        ret_residency->resident = ret_residency->dirty = uma_no_u64(UMA_DENIED);
    else
        ret_residency->resident = uma_known_u64(resident * cache.size);
    if (cache.told == UMA_KNOWN)
        ret_residency->dirty = uma_known_u64(dirty * cache.size);
}

static bool stop(void *userdata) {
    assert_ptr_equal(userdata, &cache);
    return cache.stops++ >= cache.stop_after;
}

static int file = -1;
static struct stat st;

static int set_up(void **state) {
    (void)state;
    memset(&cache, 0, sizeof(cache));
    cache.magic = 0xef53; /* ext4 */
    cache.size = (size_t)sysconf(_SC_PAGESIZE);
    cache.stop_after = UINT32_MAX;
    cache.told = UMA_KNOWN;
    return 0;
}

/* The whole file in clean folios of `folio` pages. */
static void fill(size_t pages, size_t folio) {
    assert_true(pages <= PAGES_MAX);
    cache.n = pages;
    for (size_t i = 0; i < pages; i++)
        cache.page[i] = (unsigned char)(CACHED | (i % folio == 0 ? HEAD : 0));
    st.st_size = (off_t)(pages * cache.size) - 1; /* the last page counts whole */
}

static void mark(size_t first, size_t end, unsigned what) {
    for (size_t i = first; i < end; i++)
        cache.page[i] |= (unsigned char)what;
}

static uint64_t count(unsigned what) {
    uint64_t n = 0;
    for (size_t i = 0; i < cache.n; i++)
        n += (cache.page[i] & what) != 0;
    return n;
}

static int evict(enum uma_evict_dirty dirty, struct uma_evict_receipt *receipt) {
    static const struct uma_evict_receipt other = { .stopped = true, .synced = true, .seconds = -1, .evicted = { 9, UMA_KNOWN } };
    struct uma_evict_options options = { .dirty = dirty, .stop = stop, .userdata = &cache };
    *receipt = other;
    return uma_evict_file(file, &st, UMA_FILESYSTEM_LOCAL, &options, receipt, NULL);
}

static void expect(struct uma_u64 bytes, uint64_t pages) {
    assert_int_equal(bytes.validity, UMA_KNOWN);
    assert_int_equal(bytes.value, pages * cache.size);
}

static void clean(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    fill(100, 1);
    mark(40, 60, MAPPED);
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), 0);
    expect(r.before.resident, 100);
    expect(r.after.resident, 20);
    expect(r.evicted, 80);
    expect(r.kept, 20);
    expect(r.written, 0);
    assert_false(r.synced);
    assert_false(r.stopped);
    assert_true(r.seconds >= 0);
    assert_int_equal(cache.fdatasyncs, 0);
}

/* A clean file that goes in one piece costs one call and two questions. */
static void few_calls(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    fill(100, 4);
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), 0);
    assert_int_equal(cache.fadvises, 1);
    assert_int_equal(cache.questions, 2);
    assert_int_equal(evict(UMA_EVICT_WRITE, &r), 0); /* nothing there: nothing to do */
    assert_int_equal(cache.fadvises, 1);
    assert_int_equal(cache.fdatasyncs, 0);
    expect(r.evicted, 0);
    expect(r.kept, 0);
}

/* Pieces between which stop() is asked; none cuts a folio, be it as large as they come. */
static void pieces(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    size_t largest = cache.size / 8;
    fill(5 * (64 * UMA_MIB / cache.size) - largest, largest);
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), 0);
    expect(r.kept, 0);
    assert_true(cache.size > 16384 || cache.fadvises == 5);
    assert_true(cache.size > 16384 || cache.stops >= 5);
    assert_int_equal(cache.questions, 2);
}

static void stopped(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    size_t piece = 64 * UMA_MIB / cache.size;
    if (cache.size > 16384)
        SKIP_BECAUSE("a piece is larger than this test's file on this machine");
    fill(4 * piece, 1);
    cache.stop_after = 2;
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), 0);
    assert_true(r.stopped);
    assert_true(r.evicted.value > 0 && r.evicted.value % (piece * cache.size) == 0);
    expect(r.kept, 4 * piece - r.evicted.value / cache.size);
    cache.stop_after = cache.stops;
    cache.fadvises = 0;
    mark(3 * piece, 3 * piece + 5, DIRTY);
    assert_int_equal(evict(UMA_EVICT_WRITE, &r), 0); /* before anything */
    assert_true(r.stopped);
    assert_int_equal(cache.fadvises + cache.fdatasyncs, 0);
    expect(r.evicted, 0);
}

/* More than 512 MiB: by two threads where there are two CPUs, and it comes out the same. */
static void large(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    size_t pages = 640 * UMA_MIB / cache.size;
    fill(pages, 16);
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), 0);
    expect(r.evicted, pages);
    assert_int_equal(count(CACHED), 0);
    assert_true(cache.questions == 2 || cache.questions == 3); /* its halves are asked about side by side */
    fill(pages, 16);
    cache.fadvise_code = EPERM; /* whichever meets it first */
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), -EPERM);
    expect(r.kept, pages);
    cache.fadvise_code = 0;
    cache.stop_after = cache.stops + 1; /* before anything; a piece that the other thread has begun is finished */
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), 0);
    assert_true(r.stopped);
    assert_int_equal(r.evicted.value / cache.size + r.kept.value / cache.size, pages);
    assert_int_equal(r.kept.value / cache.size, count(CACHED));
}

/* No number of calls that grows with a size that somebody claims. */
static void enormous(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    fill(100, 1);
    cache.told = UMA_DENIED;
    st.st_size = INT64_MAX;
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), 0);
    assert_true(cache.fadvises <= 2 * 4096);
    assert_int_equal(count(CACHED), 0);
    assert_int_equal(r.evicted.validity, UMA_DENIED);
    assert_int_equal(r.kept.validity, UMA_DENIED);
    assert_int_equal(r.written.validity, UMA_DENIED);
}

/* Clean is enough: no commit of a journal. */
static void dirty(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    fill(100, 1);
    mark(10, 30, DIRTY);
    mark(30, 35, WRITEBACK);
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), 0);
    assert_false(r.synced);
    expect(r.written, 25);
    expect(r.kept, 0);
    assert_int_equal(cache.range_syncs, 1);
    assert_int_equal(cache.fdatasyncs, 0);
    assert_int_equal(cache.started_writes, 0);
    fill(100, 1);
    mark(10, 30, DIRTY);
    assert_int_equal(evict(UMA_EVICT_WRITE, &r), 0); /* asked for: durable */
    assert_true(r.synced);
    expect(r.written, 20);
    assert_int_equal(cache.range_syncs, 1);
    assert_int_equal(cache.fdatasyncs, 1);
}

/* A file system that keeps what is written until it is committed: synced once it is seen that pages are left. */
static void uncommitted(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    fill(100, 1);
    mark(10, 30, DIRTY);
    cache.holds_written = true;
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), 0);
    assert_true(r.synced);
    expect(r.written, 20);
    expect(r.kept, 0);
    assert_int_equal(cache.fdatasyncs, 1);
    fill(100, 1);
    mark(10, 30, DIRTY);
    cache.fdatasync_code = EIO;
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), -EIO);
    expect(r.kept, 20);
}

/* Without that call (an old or another kernel, a filter of system calls) it is fdatasync(2). */
static void no_range_sync(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    static const int codes[] = { ENOSYS, EINVAL, ESPIPE, EPERM, EOPNOTSUPP };
    for (size_t i = 0; i < ELEMENTS(codes); i++) {
        fill(100, 1);
        mark(10, 30, DIRTY);
        cache.range_sync_code = codes[i];
        assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), 0);
        assert_true(r.synced);
        expect(r.written, 20);
        expect(r.kept, 0);
        assert_int_equal(cache.fdatasyncs, i + 1);
    }
}

/* After a failed write the page is clean in the kernel's eyes and the only copy: it must not go. */
static void not_writable(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    fill(100, 1);
    mark(10, 30, DIRTY);
    static const int codes[] = { EIO, EROFS, ENOSPC, EDQUOT, EINVAL };
    for (size_t i = 0; i < 2 * ELEMENTS(codes); i++) {
        int code = codes[i / 2];
        bool durably = i % 2 > 0;
        cache.fdatasync_code = cache.range_sync_code = code;
        cache.fdatasyncs = 0;
        assert_int_equal(evict(durably ? UMA_EVICT_WRITE : UMA_EVICT_WRITE_IF_DIRTY, &r), -code);
        /* an error of writing is told once: asked again, fdatasync(2) would know of none */
        assert_int_equal(cache.fdatasyncs, durably || code == EINVAL);
        assert_int_equal(cache.fadvises, 0);
        assert_false(r.synced);
        expect(r.before.dirty, 20);
        expect(r.kept, 100);
        expect(r.evicted, 0);
        expect(r.written, 0);
    }
    /* a file system that never writes has no fdatasync(2) */
    fill(100, 1);
    assert_int_equal(evict(UMA_EVICT_WRITE, &r), 0);
    assert_false(r.synced);
    expect(r.kept, 0);
}

/* Not told what is dirty: the kernel starts to write by itself, and what that leaves goes the second time. */
static void dirty_unknown(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    fill(100, 1);
    mark(10, 30, DIRTY);
    cache.told = UMA_UNKNOWN;
    cache.writes_slowly = true;
    assert_int_equal(evict(UMA_EVICT_LEAVE_DIRTY, &r), -EOPNOTSUPP);
    assert_int_equal(cache.fadvises, 0);
    expect(r.kept, 100);
    assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), 0);
    assert_int_equal(cache.fdatasyncs, 0);
    assert_int_equal(cache.fadvises, 2);
    assert_int_equal(r.written.validity, UMA_UNKNOWN);
    fill(100, 1);
    mark(10, 30, DIRTY);
    assert_int_equal(evict(UMA_EVICT_WRITE, &r), 0);
    assert_true(r.synced);
    assert_int_equal(r.written.validity, UMA_UNKNOWN);
    expect(r.kept, 0);
}

/* All that is clean goes, nothing that is dirty is written, whatever lies where. */
static void leave(void **state) {
    (void)state;
    static const struct {
        size_t pages, folio, first, end;
        unsigned every;
    } cases[] = {
        { 1, 1, 0, 1, 1 },           { 100, 1, 99, 100, 1 },      { 1000, 1, 10, 30, 1 },       { 1000, 1, 0, 1000, 2 },
        { 4096, 16, 160, 1600, 1 },  { 4096, 512, 512, 1024, 1 }, { 100000, 1, 0, 100000, 97 }, { 100000, 4, 77 * 4, 99 * 4, 1 },
        { 100000, 1, 0, 100000, 1 },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_evict_receipt r;
        (void)set_up(NULL);
        fill(cases[i].pages, cases[i].folio);
        for (size_t at = cases[i].first; at < cases[i].end; at += cases[i].every)
            mark(at, at + 1, DIRTY);
        uint64_t marked = count(DIRTY);
        assert_int_equal(evict(UMA_EVICT_LEAVE_DIRTY, &r), 0);
        assert_int_equal(count(DIRTY), marked);
        assert_int_equal(cache.started_writes + cache.fdatasyncs, 0);
        expect(r.kept, marked);
        expect(r.written, 0);
        assert_true(cache.questions < 17000);
    }
}

/* More to ask about than is asked: what is still mixed is left, and not written. */
static void leave_bounded(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    fill(PAGES_MAX, 1);
    for (size_t at = 0; at < PAGES_MAX; at += 2)
        mark(at, at + 1, DIRTY);
    assert_int_equal(evict(UMA_EVICT_LEAVE_DIRTY, &r), 0);
    assert_int_equal(count(DIRTY), PAGES_MAX / 2);
    assert_int_equal(cache.started_writes, 0);
    assert_true(r.evicted.value > 0 && r.kept.value > PAGES_MAX / 2 * cache.size);
    assert_true(cache.questions < 17000);
    (void)set_up(NULL);
    fill(1000, 1);
    mark(500, 501, DIRTY);
    cache.stop_after = 3;
    assert_int_equal(evict(UMA_EVICT_LEAVE_DIRTY, &r), 0);
    assert_true(r.stopped);
    assert_true(r.kept.value > cache.size);
}

static void refused(void **state) {
    (void)state;
    struct uma_evict_receipt r;
    fill(100, 1);
    static const int codes[] = { EPERM, ENOSYS };
    for (size_t i = 0; i < ELEMENTS(codes); i++) {
        cache.fadvise_code = codes[i];
        assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), -codes[i]);
        expect(r.kept, 100);
    }
    cache.fadvise_code = 0;
    cache.fadvises = 0;
    static const uint32_t memory[] = { UMA_MAGIC_TMPFS, UMA_MAGIC_RAMFS, UMA_MAGIC_HUGETLBFS };
    for (size_t i = 0; i < ELEMENTS(memory); i++) {
        cache.magic = memory[i];
        assert_int_equal(evict(UMA_EVICT_WRITE_IF_DIRTY, &r), -EOPNOTSUPP);
    }
    cache.magic = 0;
    struct uma_evict_options options = { 0 };
    struct uma_error err;
    assert_int_equal(uma_evict_file(file, &st, UMA_FILESYSTEM_MEMORY, &options, &r, &err), -EOPNOTSUPP);
    assert_null(strstr(err.text, "/dev/null")); /* whoever asked names it */
    struct stat folder = { .st_mode = S_IFDIR };
    assert_int_equal(uma_evict_file(file, &folder, UMA_FILESYSTEM_LOCAL, &options, &r, &err), -EINVAL);
    assert_int_equal(cache.fadvises, 0);
    assert_int_equal(r.kept.validity, UMA_UNKNOWN);
}

static int open_any(void **state) {
    (void)state;
    st.st_mode = S_IFREG | 0600;
    file = open("/dev/null", O_RDONLY | O_CLOEXEC); /* only to have a number: no call reaches it */
    return file >= 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(clean, set_up),         cmocka_unit_test_setup(few_calls, set_up),
        cmocka_unit_test_setup(pieces, set_up),        cmocka_unit_test_setup(stopped, set_up),
        cmocka_unit_test_setup(enormous, set_up),      cmocka_unit_test_setup(dirty, set_up),
        cmocka_unit_test_setup(not_writable, set_up),  cmocka_unit_test_setup(leave, set_up),
        cmocka_unit_test_setup(refused, set_up),       cmocka_unit_test_setup(dirty_unknown, set_up),
        cmocka_unit_test_setup(leave_bounded, set_up), cmocka_unit_test_setup(large, set_up),
        cmocka_unit_test_setup(uncommitted, set_up),   cmocka_unit_test_setup(no_range_sync, set_up),
    };
    return cmocka_run_group_tests(tests, open_any, NULL);
}
