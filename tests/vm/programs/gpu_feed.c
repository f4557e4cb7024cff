/* SPDX-License-Identifier: MIT */
/*
 * gpu_feed FILE [MILLISECONDS] - writes for the guard, as its helper does, who holds how much of the driver's memory: from the test module's own list, every two seconds or as told.
 * SIGUSR1: from now on the driver hangs: it is asked and never answers. SIGUSR2: it answers again.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "../module/uma_test_pool.h"
#include "guard/gpu_file.h"
#include "number.h"

enum { ROWS = 1024, MILLISECONDS = 2000, STAT_FIELD_START = 22 };

static volatile sig_atomic_t hangs;

static void change(int number_of_signal) {
    hangs = number_of_signal == SIGUSR1;
}

static int64_t monotonic(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* When a process began, in clock ticks; 0: it is gone. */
static uint64_t start_of(int32_t pid) {
    char path[32], text[512];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < STAT_FIELD_START; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

/* One entry a process, whatever number of files it opened. */
static size_t gather(int device, struct uma_guard_gpu_entry *list, uint64_t *ret_total) {
    static struct uma_test_pool_holder rows[ROWS];
    struct uma_test_pool_holders holders = { .rows = (uintptr_t)rows, .capacity = ROWS };
    size_t n = 0;
    *ret_total = 0;
    if (ioctl(device, UMA_TEST_POOL_IOC_HOLDERS, &holders) < 0)
        return 0;
    for (uint32_t i = 0; i < holders.count && i < ROWS; i++) {
        size_t at = 0;
        while (at < n && list[at].pid != rows[i].pid)
            at++;
        if (at == n)
            list[n++] = (struct uma_guard_gpu_entry){ .pid = rows[i].pid, .start = start_of(rows[i].pid) };
        list[at].bytes += rows[i].bytes;
        *ret_total += rows[i].bytes;
    }
    return n;
}

int main(int argc, char **argv) {
    static struct uma_guard_gpu_entry list[ROWS];
    struct uma_guard_gpu_writer writer;
    uint64_t period = MILLISECONDS;
    if (argc < 2 || argc > 3 || (argc == 3 && !number(argv[2], &period)))
        return (void)fprintf(stderr, "usage: gpu_feed FILE [MILLISECONDS]\n"), 2;
    int device = open(UMA_TEST_POOL_DEVICE, O_RDWR | O_CLOEXEC), r = uma_guard_gpu_writer_open(&writer, argv[1]);
    if (device < 0 || r < 0)
        return (void)fprintf(stderr, "gpu_feed: %s\n", strerror(device < 0 ? ENODEV : -r)), 2;
    (void)signal(SIGUSR1, change);
    (void)signal(SIGUSR2, change);
    for (;;) {
        int64_t asked = monotonic();
        uma_guard_gpu_asked(&writer, asked);
        if (!hangs) {
            uint64_t total;
            size_t n = gather(device, list, &total);
            uma_guard_gpu_write(&writer, list, n, total, asked);
        }
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0,
                              &(struct timespec){ .tv_sec = (time_t)(period / 1000), .tv_nsec = (long)(period % 1000) * 1000000 }, NULL);
    }
}
