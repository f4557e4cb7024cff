/* SPDX-License-Identifier: MIT */
/*
 * listing.h - the names of a folder as getdents64(2) gives them into a buffer, and the files of a process below /proc: readdir(3) allocates, and snprintf(3) takes longer than the file itself. Whatever
 * is in the buffer, nothing beyond it is read.
 */
#pragma once

#include "base/units.h"
#include "guard/scan.h"

#include <sys/syscall.h>
#include <unistd.h>

struct uma_guard_entry { /* struct linux_dirent64, getdents(2) */
    uint64_t inode;
    int64_t next; /* where a listing goes on behind it: an offset for lseek(2) */
    uint16_t length;
    uint8_t type;
    char name[];
};

/* Names into `buffer`, which is aligned for a struct uma_guard_entry: bytes; 0: no more; negative, with errno. glibc has a function for it since 2.30. */
static inline long uma_guard_list(int folder, void *buffer, size_t size) {
    return syscall(SYS_getdents64, folder, buffer, size);
}

/* The entry at `*at` of the `n` bytes, which moves behind it; NULL: no more. Its name ends within it. */
static inline const struct uma_guard_entry *uma_guard_entry_next(const char *buffer, long n, long *at) {
    const long head = (long)offsetof(struct uma_guard_entry, name);
    const struct uma_guard_entry *entry = (const struct uma_guard_entry *)(const void *)(buffer + *at);
    if (n - *at <= head || entry->length <= head || entry->length > n - *at || !memchr(entry->name, '\0', (size_t)(entry->length - head)))
        return NULL;
    *at += entry->length;
    return entry;
}

/* The number of the process whose folder this is; 0: another name. */
static inline int32_t uma_guard_entry_pid(const struct uma_guard_entry *entry) {
    uint64_t pid;
    const char *end = entry->name + strlen(entry->name);
    return *entry->name != '0' && uma_parse_u64(entry->name, end, &pid) == end && pid <= INT32_MAX ? (int32_t)pid : 0;
}

/* "PID/NAME", below /proc: of the few names that are asked for, none is longer than "cmdline". */
static inline void uma_guard_process_path(char path[32], int32_t pid, const char *name) {
    char digits[12];
    size_t n = 0, at = 0;
    for (uint32_t left = (uint32_t)pid; n == 0 || left > 0; left /= 10)
        digits[n++] = (char)('0' + left % 10);
    while (n > 0)
        path[at++] = digits[--n];
    path[at++] = '/';
    (void)memcpy(path + at, name, strlen(name) + 1);
}
