/* SPDX-License-Identifier: MIT */
/*
 * evict_file.h - take one open file's clean pages out of the page cache, and say by measurement what that did. posix_fadvise(POSIX_FADV_DONTNEED): no privilege beyond
 * reading; pages that any process maps or locks stay, pages that are dirty stay until they are written. Never drops what is not on storage,
 * never truncates, never reads the file. A large file is dropped by a second thread, too, which blocks every signal and is gone at the return.
 */
#pragma once

#include "base/error.h"
#include "observe/files/residency.h"

#include <stdbool.h>

/*
 * Where the kernel does not tell what is dirty (mincore(2), another's file), UMA_EVICT_WRITE_IF_DIRTY does not wait for anything, but the kernel itself starts to
 * write what is dirty in a range that it is asked to drop (mm/fadvise.c): what was written by then is dropped, the rest stays.
 */
enum uma_evict_dirty {
    /*
     * sync_file_range(2) when the kernel says that pages are dirty; told in the receipt. Clean is not durable: a file that was not synced before can be lost in a
     * crash as it could have been without this. fdatasync(2) where there is no such call, and where something is left after it.
     */
    UMA_EVICT_WRITE_IF_DIRTY,
    UMA_EVICT_WRITE,       /* fdatasync(2) in any case: also where the kernel does not tell */
    UMA_EVICT_LEAVE_DIRTY, /* only ranges that are clean are evicted; the kernel is not made to write. -EOPNOTSUPP where it does not tell which */
};

struct uma_evict_options {
    enum uma_evict_dirty dirty;
    bool (*stop)(
        void *
            userdata); /* asked before each piece of a large file (each some ten milliseconds of work), by the caller's thread alone; NULL */
    void *userdata;
};

struct uma_evict_receipt {
    struct uma_residency before, after;
    struct uma_u64 evicted; /* before - after, 0 when others read it in meanwhile; unknown when either is */
    struct uma_u64 kept;    /* after */
    struct uma_u64 written; /* dirty bytes written out first; 0: none were; unknown where the kernel does not tell */
    bool synced;            /* by fdatasync(2): what was dirty outlives a crash, too */
    bool stopped;
    double seconds;
};

/*
 * The one system call of it, for whoever measures by other means: clean pages of the bytes [offset, offset+length) that nobody maps or locks; length 0: to the end. 0
 * or -errno; what left memory is not said.
 */
int uma_evict_range(int fd, uint64_t offset, uint64_t length);

/*
 * A regular file or block device, open for reading. 0, stopped or not; or -errno: -EOPNOTSUPP where the pages are the file (tmpfs, memfd, ramfs, hugetlbfs) or,
 * with LEAVE_DIRTY, it is not known what is dirty; -EINVAL neither file nor device; EROFS, EIO, ENOSPC of writing: then nothing was evicted, because after a
 * failed write the kernel holds pages for clean that are not on storage; -EPERM, -ENOSYS of a filter of system calls. The receipt is filled in any case, as
 * far as it came. The message does not name the file. `st`, `kind`: as for uma_residency_read().
 */
int uma_evict_file(int fd, const struct stat *st, enum uma_filesystem_kind kind, const struct uma_evict_options *options,
                   struct uma_evict_receipt *ret_receipt, struct uma_error *err);
