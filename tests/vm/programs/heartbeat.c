/* SPDX-License-Identifier: MIT */
/*
 * heartbeat [FILE] - ten times a second, on stdout: "@beat UPTIME LOWEST_AVAILABLE_KIB LOWEST_FREE_KIB", the lowest of ten readings since the last line.
 *
 * It behaves as an ordinary service does: it is not locked in memory, has no priority, and before each line it takes and touches a little fresh
 * memory, and touches FILE, which it maps: a service's code lies in a file, and has to be read again when it was taken out of memory (the guest's
 * own programs lie in a file system that is memory, and never are). What makes such a service wait makes the line come late. The one thing that it has of its own is that the OOM killer leaves it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

struct code {
    const volatile unsigned char *start;
    off_t bytes;
};

static struct code map_code(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return perror(path), (struct code){ .bytes = 0 };
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    return p == MAP_FAILED ? (struct code){ .bytes = 0 } : (struct code){ .start = p, .bytes = st.st_size };
}

int main(int argc, char **argv) {
    struct code code = argc > 1 ? map_code(argv[1]) : (struct code){ .bytes = 0 };
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
        for (off_t i = 0; i < code.bytes; i += 4096)
            (void)code.start[i];
        struct timespec t;
        (void)clock_gettime(CLOCK_BOOTTIME, &t);
        char line[96];
        int n = snprintf(line, sizeof(line), "@beat %lld.%03ld %llu %llu\n", (long long)t.tv_sec, t.tv_nsec / 1000000,
                         (unsigned long long)lowest.available_kib, (unsigned long long)lowest.free_kib);
        if (write(STDOUT_FILENO, line, (size_t)n) != n)
            return 1;
    }
}
