/* SPDX-License-Identifier: MIT */
/*
 * call.h - system calls by their numbers, where libc's function has a version of its own newer than the oldest libc that the valve runs with (stat(2) in 2.33), or is a place where a thread
 * may be cancelled.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* statx(2), 4.11: the kernel's struct, of which only these are read; offsets of include/uapi/linux/stat.h. */
struct uma_valve_statx {
    uint32_t mask, blksize;
    uint64_t attributes;
    uint32_t nlink, uid, gid;
    uint16_t mode, spare0;
    uint64_t ino, size, blocks, attributes_mask;
    uint8_t times[64];
    uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
    uint64_t spare[14];
};
_Static_assert(sizeof(struct uma_valve_statx) == 256, "struct statx");

enum { UMA_VALVE_STATX_BASIC = 0x7ff, UMA_VALVE_AT_EMPTY_PATH = 0x1000 };

static inline bool uma_valve_stat(int folder, const char *path, int flags, struct uma_valve_statx *ret) {
    return syscall(SYS_statx, folder, path, flags, UMA_VALVE_STATX_BASIC, ret) == 0;
}

static inline bool uma_valve_inode_of(int fd, uint64_t *ret_inode) {
    struct uma_valve_statx st;
    if (!uma_valve_stat(fd, "", UMA_VALVE_AT_EMPTY_PATH, &st))
        return false;
    *ret_inode = st.ino;
    return true;
}
