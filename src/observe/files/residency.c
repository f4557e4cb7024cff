/* SPDX-License-Identifier: MIT */
#include "observe/files/residency.h"

#include "base/values.h"
#include "observe/files/magic.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* New calls have the same number on every architecture but alpha (include/uapi/asm-generic/unistd.h). */
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

/* struct cachestat_range and struct cachestat of include/uapi/linux/mman.h, which headers before 6.5 lack. Counts are pages. */
struct range {
    uint64_t offset, length;
};
struct counts {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

static uint64_t page_size(void) {
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static void unknown(struct uma_residency *r, enum uma_validity validity, const char *why) {
    *r = (struct uma_residency){
        .resident = uma_no_u64(validity), .dirty = uma_no_u64(validity), .writeback = uma_no_u64(validity), .why = why
    };
}

/* ---- may mincore(2) be believed? ---- */

/* Does /proc/self/uid_map or gid_map map every number onto itself, as in the first user namespace? */
static bool maps_all(const char *path) {
    char text[64];
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return false;
    static const char *const words[] = { "0", "0", "4294967295" };
    const char *at = text, *end = text + n;
    for (size_t i = 0; i < ELEMENTS(words); i++) {
        while (at < end && *at == ' ')
            at++;
        size_t length = strlen(words[i]);
        if ((size_t)(end - at) <= length || memcmp(at, words[i], length) != 0)
            return false;
        at += length;
    }
    return *at == '\n';
}

/*
 * In a user namespace owners without a number there are shown as 65534 (user_namespaces(7)), the same as a real "nobody" and as a process that has no number
 * itself: such a number says nothing.
 */
static bool owner_is_real(const struct stat *st) {
    enum { OVERFLOW_ID = 65534 };
    return (st->st_uid != OVERFLOW_ID || maps_all("/proc/self/uid_map")) && (st->st_gid != OVERFLOW_ID || maps_all("/proc/self/gid_map"));
}

static bool has_fowner(void) {
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
    return syscall(SYS_capget, &header, data) == 0 && (data[CAP_TO_INDEX(CAP_FOWNER)].effective & CAP_TO_MASK(CAP_FOWNER)) != 0;
}

/* The question that the kernel asks itself, of the open file and with the effective ids. Before 5.8 there is no such call: then no. */
static bool may_write(int fd) {
    return syscall(SYS_faccessat2, fd, "", W_OK, AT_EACCESS | AT_EMPTY_PATH) == 0;
}

/* `magic`: see uma_filesystem_magic(). */
static bool truthful(int fd, const struct stat *st, uint32_t magic) {
    if (owner_is_real(st) && (st->st_uid == geteuid() || has_fowner()))
        return true;
    return magic != UMA_MAGIC_OVERLAY && may_write(fd);
}

bool uma_residency_mincore_truthful(int fd, const struct stat *st) {
    return truthful(fd, st, uma_filesystem_magic(fd));
}

/* ---- mincore(2) ---- */

enum {
    VECTOR = 16384,  /* pages asked about at a time; the kernel itself does 4,096 */
    PATIENCE = 1000, /* questions again while the kernel is short of memory for a moment (EAGAIN) */
};

static int64_t count_in_window(char *map, size_t length, uint64_t page) {
    unsigned char vector[VECTOR];
    int64_t pages = 0;
    for (size_t at = 0, n; at < length; at += n) {
        n = (size_t)MIN_OF(VECTOR * page, length - at);
        int r = mincore(map + at, n, vector);
        for (int again = 0; r < 0 && errno == EAGAIN && again < PATIENCE; again++)
            r = mincore(map + at, n, vector);
        if (r < 0) /* of a mapping that is ours: only a filter of system calls says no */
            return -EIO;
        for (size_t i = 0; i < n / page; i++)
            pages += vector[i] & 1;
    }
    return pages;
}

/* Pages of [start, end), whole pages both; -errno. Windows, so that a large file does not need as much address space at once. */
static int64_t count_by_mincore(int fd, uint64_t start, uint64_t end, uint64_t page) {
    const uint64_t window_max = UINT64_C(1) << 30;
    int64_t pages = 0;
    for (uint64_t window = start; window < end; window += window_max) {
        size_t length = (size_t)MIN_OF(window_max, end - window);
        /* never touched, so that a file that shrinks meanwhile cannot raise SIGBUS. Private: allowed for sealed memfds and FUSE's direct_io, too. */
        char *map = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE, fd, (off_t)window);
        if (map == MAP_FAILED)
            return -errno;
        int64_t n = count_in_window(map, length, page);
        (void)munmap(map, length);
        if (n < 0)
            return n;
        pages += n;
    }
    return pages;
}

static int size_of(int fd, const struct stat *st, uint64_t *ret_size) {
    if (!S_ISBLK(st->st_mode)) {
        *ret_size = (uint64_t)st->st_size;
        return 0;
    }
    return ioctl(fd, BLKGETSIZE64, ret_size) < 0 ? -errno : 0;
}

static void by_mincore(int fd, const struct stat *st, struct range range, struct uma_residency *r) {
    uint64_t size, page = page_size();
    int code = size_of(fd, st, &size);
    if (code < 0)
        return unknown(r, UMA_FAILED, "the size of the device cannot be had");
    uint64_t end = range.length > 0 && range.length < size - MIN_OF(range.offset, size) ? range.offset + range.length : size;
    uint64_t start = range.offset / page * page;
    if (start < end && end - start > UMA_RESIDENCY_MINCORE_MAX)
        return unknown(r, UMA_UNKNOWN, "too large to be asked page by page, and there is no cachestat(2)");
    end = (end + page - 1) / page * page;
    int64_t pages = start < end ? count_by_mincore(fd, start, end, page) : 0;
    if (pages == -ENODEV || pages == -EACCES || pages == -EPERM || pages == -EOPNOTSUPP || pages == -EINVAL)
        return unknown(r, UMA_UNSUPPORTED, "this file system does not map files, and there is no cachestat(2)");
    if (pages < 0)
        return unknown(r, UMA_FAILED, "mincore(2) failed");
    *r = (struct uma_residency){ .resident = uma_known_u64((uint64_t)pages * page), .means = UMA_RESIDENCY_MINCORE };
}

/* ---- which of the two ---- */

static void by_cachestat(const struct counts *c, struct uma_residency *r) {
    uint64_t page = page_size(), dirty = MIN_OF(c->dirty + c->writeback, c->cached); /* a page can be both */
    *r = (struct uma_residency){ .resident = uma_known_u64(c->cached * page),
                                 .dirty = uma_known_u64(dirty * page),
                                 .writeback = uma_known_u64(MIN_OF(c->writeback, c->cached) * page),
                                 .means = UMA_RESIDENCY_CACHESTAT };
}

/* cachestat(2) said `code`, or was not asked (0: an overlay). */
static void without_cachestat(int fd, const struct stat *st, int code, uint32_t magic, struct range range, struct uma_residency *r) {
    if (code == EOPNOTSUPP || magic == UMA_MAGIC_HUGETLBFS)
        return unknown(r, UMA_ABSENT, "huge pages of hugetlbfs are not page cache");
    if (code != 0 && code != ENOSYS && code != EPERM)
        return unknown(r, UMA_FAILED, "cachestat(2) failed");
    /* EPERM means both "not your file" and a filter of system calls; where mincore(2) would say the truth it cannot be the first */
    if (truthful(fd, st, magic))
        return by_mincore(fd, st, range, r);
    unknown(r, UMA_DENIED,
            code == EPERM    ? "the kernel tells only who owns the file or may write it"
            : code == ENOSYS ? "there is no cachestat(2) here, and mincore(2) tells only who owns the file or may write it"
                             : "on an overlay the kernel tells only who owns the file");
}

void uma_residency_read(int fd, const struct stat *st, enum uma_filesystem_kind kind, uint64_t offset, uint64_t length,
                        struct uma_residency *ret_residency) {
    if (!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode))
        return unknown(ret_residency, UMA_ABSENT, "neither a regular file nor a block device");
    if (length > UINT64_MAX - offset)
        length = 0;
    struct range range = { offset, length };
    struct counts counts = { 0 };
    if (S_ISREG(st->st_mode) && st->st_size == 0) {
        by_cachestat(&counts, ret_residency);
        ret_residency->means = UMA_RESIDENCY_NONE;
        return;
    }
    int code = 0;
    bool device = S_ISBLK(st->st_mode); /* its pages are its own, wherever its node lies */
    if (device || kind != UMA_FILESYSTEM_OVERLAY) {
        code = syscall(SYS_cachestat, fd, &range, &counts, 0u) < 0 ? errno : 0;
        if (code == 0 && (device || counts.cached > 0))
            return by_cachestat(&counts, ret_residency);
    }
    uint32_t magic = uma_filesystem_magic(fd);
    if (code == 0 && kind != UMA_FILESYSTEM_OVERLAY && magic != UMA_MAGIC_OVERLAY)
        return by_cachestat(&counts, ret_residency);
    without_cachestat(fd, st, code, magic, range, ret_residency);
}
