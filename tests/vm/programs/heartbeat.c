/* SPDX-License-Identifier: MIT */
/*
 * heartbeat - ten times a second, on stdout: "@beat UPTIME LOWEST_AVAILABLE_KIB LOWEST_FREE_KIB", the lowest of ten readings since the last line.
 *
 * It behaves as an ordinary service does: it is not locked in memory, has no priority, and takes and touches a little fresh memory before each
 * line. What makes such a service wait makes the line come late. The one thing that it has of its own is that the OOM killer leaves it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "meminfo.h"

enum { FRESH_BYTES = 256 * 1024, READINGS = 10, STEP_NS = 10 * 1000 * 1000 };

static void use_fresh_memory(void) {
    void *p = mmap(NULL, FRESH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return;
    (void)memset(p, 1, FRESH_BYTES);
    (void)munmap(p, FRESH_BYTES);
}

int main(void) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "-1000", 5) != 5)
        perror("heartbeat: oom_score_adj");
    int meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (meminfo < 0)
        return 1;
    for (;;) {
        struct meminfo lowest = { .free_kib = UINT64_MAX, .available_kib = UINT64_MAX };
        for (int i = 0; i < READINGS; i++) {
            struct meminfo now = meminfo_read(meminfo);
            lowest.free_kib = now.free_kib < lowest.free_kib ? now.free_kib : lowest.free_kib;
            lowest.available_kib = now.available_kib < lowest.available_kib ? now.available_kib : lowest.available_kib;
            (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = STEP_NS }, NULL);
        }
        use_fresh_memory();
        struct timespec t;
        (void)clock_gettime(CLOCK_BOOTTIME, &t);
        char line[96];
        int n = snprintf(line, sizeof(line), "@beat %lld.%03ld %llu %llu\n", (long long)t.tv_sec, t.tv_nsec / 1000000,
                         (unsigned long long)lowest.available_kib, (unsigned long long)lowest.free_kib);
        if (write(STDOUT_FILENO, line, (size_t)n) != n)
            return 1;
    }
}
