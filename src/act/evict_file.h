/* SPDX-License-Identifier: MIT */
/*
 * evict_file.h - take one open file's clean pages out of the page cache, and say by measurement what that did. posix_fadvise(POSIX_FADV_DONTNEED): no privilege beyond
 * reading; pages that any process maps or locks stay, pages that are dirty stay until they are written. Never drops what is not on storage,
 * never truncates, never reads the file.
 */
#pragma once

#include "base/error.h"
#include "observe/files/residency.h"

#include <stdbool.h>

enum uma_evict_dirty {
    UMA_EVICT_WRITE_IF_DIRTY, /* fdatasync(2) when the kernel says that pages are dirty; told in the receipt */
    UMA_EVICT_WRITE,          /* fdatasync(2) in any case: also where the kernel does not tell */
    UMA_EVICT_LEAVE_DIRTY,    /* only ranges that are clean are evicted; the kernel is not made to write */
};

struct uma_evict_options {
    enum uma_evict_dirty dirty;
    bool (*stop)(void *userdata); /* asked between pieces of a large file (each some ten milliseconds of work); NULL */
    void *userdata;
};

struct uma_evict_receipt {
    struct uma_residency before, after;
    struct uma_u64 evicted; /* before - after, 0 when others read it in meanwhile; unknown when either is */
    struct uma_u64 kept;    /* after */
    struct uma_u64 written; /* dirty bytes written out first */
    bool synced;
    bool stopped;
    double seconds;
};

/* 0, or -errno (EROFS of fdatasync, EIO of writing: then nothing was evicted that was dirty). The receipt is filled as far as it came. */
int uma_evict_file(int fd, const struct stat *st, enum uma_filesystem_kind kind, const struct uma_evict_options *options,
                   struct uma_evict_receipt *ret_receipt, struct uma_error *err);
