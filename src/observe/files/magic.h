/* SPDX-License-Identifier: MIT */
/*
 * magic.h - what the kernel says about the file system that an open file lies on, whatever a mount table of another view may say (statfs(2), f_type; the
 * numbers are of include/uapi/linux/magic.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/vfs.h>

#define UMA_MAGIC_HUGETLBFS UINT32_C(0x958458f6)
#define UMA_MAGIC_OVERLAY UINT32_C(0x794c7630)
#define UMA_MAGIC_PROC UINT32_C(0x9fa0)
#define UMA_MAGIC_RAMFS UINT32_C(0x858458f6)
#define UMA_MAGIC_TMPFS UINT32_C(0x01021994) /* also of memfds and devtmpfs */

/* 0 when it cannot be had. A file system that hangs, hangs here too. */
static inline uint32_t uma_filesystem_magic(int fd) {
    struct statfs fs;
    return fstatfs(fd, &fs) < 0 ? 0 : (uint32_t)fs.f_type;
}

/* Are the pages the file, so that dropping them is out of the question? */
static inline bool uma_filesystem_is_memory(uint32_t magic) {
    return magic == UMA_MAGIC_TMPFS || magic == UMA_MAGIC_RAMFS || magic == UMA_MAGIC_HUGETLBFS;
}
