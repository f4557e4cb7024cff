/* SPDX-License-Identifier: MIT */
/*
 * preload.c - before the C library in uma-guard-shared: tells of each allocation after the guard first slept ("allocated N" on stderr), and moves its clocks by what the file UMA_TEST_CLOCK says: two numbers of nanoseconds,
 * for CLOCK_MONOTONIC and for CLOCK_BOOTTIME.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);

static _Atomic bool sleeps;

static void tell(size_t size) {
    char text[40] = "allocated ", digits[20];
    size_t n = 10, at = sizeof(digits);
    if (!sleeps)
        return;
    do {
        digits[--at] = (char)('0' + size % 10);
        size /= 10;
    } while (size);
    memcpy(text + n, digits + at, sizeof(digits) - at);
    n += sizeof(digits) - at;
    text[n++] = '\n';
    (void)!write(2, text, n);
}

__attribute__((visibility("default"))) void *malloc(size_t size) {
    tell(size);
    return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t size) {
    tell(n * size);
    return __libc_calloc(n, size);
}

__attribute__((visibility("default"))) void *realloc(void *p, size_t size) {
    tell(size);
    return __libc_realloc(p, size);
}

__attribute__((visibility("default"))) int epoll_wait(int fd, struct epoll_event *events, int max, int timeout) {
    sleeps = true;
    return (int)syscall(SYS_epoll_pwait, fd, events, max, timeout, NULL, (size_t)8);
}

static const volatile int64_t *offsets(void) {
    static const volatile int64_t *map;
    static bool tried;
    const char *path = getenv("UMA_TEST_CLOCK");
    if (!tried && path) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        void *p = fd >= 0 ? mmap(NULL, 16, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
        map = p == MAP_FAILED ? NULL : p;
    }
    tried = true;
    return map;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t) {
    int r = (int)syscall(SYS_clock_gettime, clock, t);
    const volatile int64_t *by = clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME ? offsets() : NULL;
    if (r == 0 && by) {
        int64_t ns = (int64_t)t->tv_sec * 1000000000 + t->tv_nsec + by[clock == CLOCK_BOOTTIME];
        t->tv_sec = ns / 1000000000;
        t->tv_nsec = ns % 1000000000;
    }
    return r;
}
