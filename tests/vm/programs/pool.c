/* SPDX-License-Identifier: MIT */
/*
 * pool COMMAND - /dev/uma_test_pool from a shell. In a scenario:
 *   pool set KEY=VALUE...      change settings: fail-next, return-delay-ms (or keep), minimum-free, microseconds-per-mib, pool-orders, largest-order,
 *                              pool-on-close and deaf (0 or 1); those not named stay as they are
 *   pool stats                 the counters, one "name value" a line
 *   pool holders               who holds memory: "pid bytes name" a line
 *   pool try BYTES [OPTION...] allocate and give back at once; prints "got BYTES" or "failed ERROR", exit status 0 or 1
 *   pool hold BYTES [OPTION...] allocate in a process of its own, print its number and leave it there: SIGUSR1 frees the memory and keeps the device
 *                              open, any other end of it closes the device. The same failures as try.
 *   pool hang MILLISECONDS     wait in the device where no signal reaches
 * OPTION: order=N (default 9), fall-back, no-pool, map (map all of it, check that it is zero and write to it). BYTES takes the suffixes K, M, G.
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
#include <sys/mman.h>
#include <unistd.h>

#include "../module/uma_test_pool.h"
#include "number.h"

static int fail(const char *what) {
    (void)fprintf(stderr, "pool: %s: %s\n", what, strerror(errno));
    return 2;
}

/* ---- settings and counters ---- */

static int set(int fd, int count, char **words) {
    struct uma_test_pool_settings s;
    if (ioctl(fd, UMA_TEST_POOL_IOC_GET, &s) < 0)
        return fail("settings");
    for (int i = 0; i < count; i++) {
        char *value = strchr(words[i], '=');
        uint64_t n = 0;
        if (!value)
            return (void)fprintf(stderr, "pool: %s: there is no value\n", words[i]), 2;
        *value++ = '\0';
        if (strcmp(value, "keep") == 0)
            n = UMA_TEST_POOL_KEEP;
        else if (!number(value, &n))
            return (void)fprintf(stderr, "pool: %s: not a number\n", value), 2;
        if (strcmp(words[i], "fail-next") == 0)
            s.fail_next = (uint32_t)n;
        else if (strcmp(words[i], "return-delay-ms") == 0)
            s.return_delay_ms = (uint32_t)n;
        else if (strcmp(words[i], "minimum-free") == 0)
            s.minimum_free_bytes = n;
        else if (strcmp(words[i], "microseconds-per-mib") == 0)
            s.microseconds_per_mib = (uint32_t)n;
        else if (strcmp(words[i], "pool-orders") == 0)
            s.pool_orders = (uint32_t)n;
        else if (strcmp(words[i], "largest-order") == 0)
            s.largest_order = (uint32_t)n;
        else if (strcmp(words[i], "pool-on-close") == 0)
            s.flags = n ? s.flags | UMA_TEST_POOL_POOL_ON_CLOSE : s.flags & ~UMA_TEST_POOL_POOL_ON_CLOSE;
        else if (strcmp(words[i], "deaf") == 0)
            s.flags = n ? s.flags | UMA_TEST_POOL_DEAF : s.flags & ~UMA_TEST_POOL_DEAF;
        else
            return (void)fprintf(stderr, "pool: there is no setting '%s'\n", words[i]), 2;
    }
    return ioctl(fd, UMA_TEST_POOL_IOC_SET, &s) < 0 ? fail("settings") : 0;
}

static int stats(int fd) {
    struct uma_test_pool_stats s;
    if (ioctl(fd, UMA_TEST_POOL_IOC_STATS, &s) < 0)
        return fail("counters");
    const struct {
        const char *name;
        __u64 value;
    } rows[] = {
        { "file_bytes", s.file_bytes },
        { "process_bytes", s.process_bytes },
        { "held_bytes", s.held_bytes },
        { "peak_bytes", s.peak_bytes },
        { "pooled_bytes", s.pooled_bytes },
        { "allocations", s.allocations },
        { "frees", s.frees },
        { "refused_script", s.refused_script },
        { "refused_floor", s.refused_floor },
        { "refused_order", s.refused_order },
        { "refused_kernel", s.refused_kernel },
        { "interrupted", s.interrupted },
        { "reused_blocks", s.reused_blocks },
        { "shrunk_blocks", s.shrunk_blocks },
        { "late_blocks", s.late_blocks },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        (void)printf("%s %llu\n", rows[i].name, rows[i].value);
    return 0;
}

static int holders(int fd) {
    static struct uma_test_pool_holder rows[4096];
    struct uma_test_pool_holders list = { .rows = (uintptr_t)rows, .capacity = 4096 };
    if (ioctl(fd, UMA_TEST_POOL_IOC_HOLDERS, &list) < 0)
        return fail("holders");
    for (uint32_t i = 0; i < list.count && i < list.capacity; i++)
        (void)printf("%d %llu %s\n", rows[i].pid, rows[i].bytes, rows[i].name);
    return 0;
}

/* ---- memory ---- */

struct request {
    struct uma_test_pool_alloc alloc;
    bool map;
    void *mapped;
};

static bool parse(int count, char **words, struct request *ret) {
    uint64_t order = 9, bytes;
    if (count < 1 || !number(words[0], &bytes))
        return false;
    ret->alloc.bytes = bytes;
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "fall-back") == 0)
            ret->alloc.flags |= UMA_TEST_POOL_FALL_BACK;
        else if (strcmp(words[i], "no-pool") == 0)
            ret->alloc.flags |= UMA_TEST_POOL_NO_POOL;
        else if (strcmp(words[i], "map") == 0)
            ret->map = true;
        else if (strncmp(words[i], "order=", 6) != 0 || !number(words[i] + 6, &order))
            return false;
    }
    ret->alloc.order = (uint32_t)order;
    return true;
}

/* Maps what was allocated, looks for a byte that is not zero, writes to all pages and keeps the mapping. */
static const char *use(int fd, struct request *r) {
    __u64 bytes = r->alloc.got_bytes, offset = uma_test_pool_map_offset(r->alloc.id, (__u64)getpagesize());
    unsigned char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (p == MAP_FAILED)
        return strerror(errno);
    r->mapped = p;
    for (__u64 i = 0; i < bytes; i += 64)
        if (p[i])
            return "a page that is not zero";
    for (__u64 i = 0; i < bytes; i += 4096)
        p[i] = 0xa5;
    return NULL;
}

static int take(int fd, struct request *r) {
    const char *problem = ioctl(fd, UMA_TEST_POOL_IOC_ALLOC, &r->alloc) < 0 ? strerror(errno) : r->map ? use(fd, r) : NULL;
    if (!problem)
        return 0;
    (void)printf("failed %s\n", problem);
    return 1;
}

static int try(int fd, struct request *r) {
    if (take(fd, r))
        return 1;
    (void)printf("got %llu\n", r->alloc.got_bytes);
    return 0;
}

static void nothing(int number_of_signal) {
    (void)number_of_signal;
}

/* The device is opened in the process that stays: it is the one that holds. */
static int hold(struct request *r) {
    int done[2];
    if (pipe(done) < 0)
        return fail("pipe");
    (void)fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        return fail("fork");
    if (child == 0) {
        int fd = open(UMA_TEST_POOL_DEVICE, O_RDWR | O_CLOEXEC);
        char status = (char)(fd < 0 ? fail(UMA_TEST_POOL_DEVICE) : take(fd, r));
        (void)fflush(stdout);
        struct sigaction freeing = { .sa_handler = nothing };
        (void)sigaction(SIGUSR1, &freeing, NULL);
        if (setsid() < 0 || write(done[1], &status, 1) != 1 || status)
            _exit(status);
        (void)close(done[0]);
        (void)close(done[1]);
        (void)close(STDIN_FILENO);
        (void)close(STDOUT_FILENO); /* a shell that waits for the output of $(pool hold ...) goes on */
        (void)pause();
        if (r->mapped)
            (void)munmap(r->mapped, r->alloc.got_bytes);
        (void)ioctl(fd, UMA_TEST_POOL_IOC_FREE, &r->alloc.id);
        for (;;)
            (void)pause();
    }
    (void)close(done[1]);
    char status = 2;
    if (read(done[0], &status, 1) != 1)
        return 2;
    if (status == 0)
        (void)printf("%d\n", (int)child);
    return status;
}

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "";
    struct request r = { .map = false };
    uint64_t milliseconds;
    if ((strcmp(command, "hold") == 0 || strcmp(command, "try") == 0) && !parse(argc - 2, argv + 2, &r))
        return (void)fprintf(stderr, "usage: pool %s BYTES [order=N] [fall-back] [no-pool] [map]\n", command), 2;
    if (strcmp(command, "hold") == 0)
        return hold(&r);
    int fd = open(UMA_TEST_POOL_DEVICE, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return fail(UMA_TEST_POOL_DEVICE);
    if (strcmp(command, "try") == 0)
        return try(fd, &r);
    if (strcmp(command, "set") == 0)
        return set(fd, argc - 2, argv + 2);
    if (strcmp(command, "stats") == 0)
        return stats(fd);
    if (strcmp(command, "holders") == 0)
        return holders(fd);
    if (strcmp(command, "hang") == 0 && argc == 3 && number(argv[2], &milliseconds))
        return ioctl(fd, UMA_TEST_POOL_IOC_HANG, &milliseconds) < 0 ? fail("hang") : 0;
    return (void)fprintf(stderr, "usage: pool set|stats|holders|try|hold|hang ...\n"), 2;
}
