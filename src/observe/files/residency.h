/* SPDX-License-Identifier: MIT */
/*
 * residency.h - how much of one open file is in the page cache, and only what the kernel really says. cachestat(2) (6.5) where it may be had; mincore(2)
 * else, and only where it does not pretend: to whoever neither owns nor may write the file it says that all is resident (mm/mincore.c,
 * can_do_mincore, since 5.2). Pages that are being read in just now count by cachestat(2), as they take memory, and do not by mincore(2). Reads nothing of the
 * file, changes nothing. Thread-safe.
 */
#pragma once

#include "base/error.h"
#include "observe/files/mounts.h"

#include <stdint.h>
#include <sys/stat.h>

enum uma_residency_means { UMA_RESIDENCY_NONE, UMA_RESIDENCY_CACHESTAT, UMA_RESIDENCY_MINCORE };

struct uma_residency {
    struct uma_u64 resident; /* bytes, whole pages; UMA_DENIED: the kernel does not tell this user; UMA_ABSENT: no page cache (hugetlbfs) */
    struct uma_u64 dirty;    /* dirty or under writeback, at most `resident`; UMA_UNKNOWN by mincore */
    struct uma_u64 writeback;       /* under writeback alone */
    enum uma_residency_means means; /* UMA_RESIDENCY_NONE: unknown, or an empty file, which needs none */
    const char *why;                /* static: why unknown; NULL */
};

/*
 * Of the bytes [offset, offset+length) of a regular file or block device, each page that they touch; length 0: to the end. `st` is its fstat; `kind` its
 * file system, because overlayfs answers cachestat(2) with zeros (the pages are the lower or upper file's) while mincore(2) on it is right; a zero of a file
 * that is said to lie elsewhere is checked against statfs(2). Never fails: what cannot be said is unknown.
 */
void uma_residency_read(int fd, const struct stat *st, enum uma_filesystem_kind kind, uint64_t offset, uint64_t length,
                        struct uma_residency *ret_residency);
/*
 * May this process believe mincore(2) about such a file? Owner, CAP_FOWNER over a mapped owner, or write permission; on an overlay the last does not count,
 * as the kernel asks the file of the layer, which may lie on a read-only file system.
 */
bool uma_residency_mincore_truthful(int fd, const struct stat *st);

/* mincore(2) goes page by page, also through holes (some 50 ns each, measured): larger files are UMA_UNKNOWN without cachestat(2). */
#define UMA_RESIDENCY_MINCORE_MAX (UINT64_C(1) << 40)
