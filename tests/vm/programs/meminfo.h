/* SPDX-License-Identifier: MIT */
/* MemFree and MemAvailable by one read of an open /proc/meminfo: no allocation, so that it can be asked while there is no memory. */
#ifndef UMA_VM_MEMINFO_H
#define UMA_VM_MEMINFO_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct meminfo {
    uint64_t free_kib, available_kib;
};

static inline uint64_t meminfo_row(const char *text, const char *name) {
    const char *row = strstr(text, name);
    return row ? strtoull(row + strlen(name), NULL, 10) : 0;
}

static inline struct meminfo meminfo_read(int fd) {
    char text[512]; /* both are among the first three rows */
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return (struct meminfo){ .free_kib = meminfo_row(text, "MemFree:"), .available_kib = meminfo_row(text, "MemAvailable:") };
}

#endif
