/* SPDX-License-Identifier: MIT */
/*
 * greedy [rate=MIB_PER_SECOND] [step=BYTES] [order=N] [limit=BYTES] [stay=SECONDS] - take memory through /dev/uma_test_pool until there
 * is none, as a program on a GPU does: blocks of 2 MiB first, then smaller ones, and an out-of-memory error at the end that it says and survives.
 *   rate    0 (default): as fast as it can
 *   step    one allocation (default 8M)
 *   order   the blocks that it asks for first (default 9)
 *   limit   what it wants in all (default: everything)
 *   stay    how long it keeps what it has, after its limit or the first failure (then trying again ten times a second) (default 0)
 * The last line on stdout: "took=BYTES failures=N error=TEXT seconds=S lowest_available=BYTES lowest_free=BYTES". Exit status 0 when it got its
 * limit, 3 when it was told that there is no more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "../module/uma_test_pool.h"
#include "meminfo.h"
#include "number.h"

struct greed {
    uint64_t rate, step, order, limit, stay;
};
struct course {
    uint64_t took, failures;
    struct meminfo lowest;
    const char *error;
};

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pause_for(double seconds) {
    if (seconds > 0)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0,
                              &(struct timespec){ .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) },
                              NULL);
}

static bool parse(int argc, char **argv, struct greed *g) {
    const struct {
        const char *name;
        uint64_t *value;
    } options[] = { { "rate=", &g->rate }, { "step=", &g->step }, { "order=", &g->order }, { "limit=", &g->limit }, { "stay=", &g->stay } };
    for (int i = 1; i < argc; i++) {
        bool known = false;
        for (size_t o = 0; o < sizeof(options) / sizeof(options[0]); o++)
            if (strncmp(argv[i], options[o].name, strlen(options[o].name)) == 0)
                known = number(argv[i] + strlen(options[o].name), options[o].value);
        if (!known)
            return false;
    }
    return g->step > 0 && g->order <= UMA_TEST_POOL_LARGEST_ORDER;
}

static void look(int meminfo, struct course *c) {
    struct meminfo m = meminfo_read(meminfo);
    c->lowest.available_kib = m.available_kib < c->lowest.available_kib ? m.available_kib : c->lowest.available_kib;
    c->lowest.free_kib = m.free_kib < c->lowest.free_kib ? m.free_kib : c->lowest.free_kib;
}

/* Large blocks only; then, when there are no more, whatever blocks there are. */
static bool take(int fd, const struct greed *g, uint64_t bytes) {
    struct uma_test_pool_alloc a = { .bytes = bytes, .order = (uint32_t)g->order };
    if (ioctl(fd, UMA_TEST_POOL_IOC_ALLOC, &a) == 0)
        return true;
    a.flags = UMA_TEST_POOL_FALL_BACK;
    return errno == ENOMEM && g->order > 0 && ioctl(fd, UMA_TEST_POOL_IOC_ALLOC, &a) == 0;
}

static void take_all(int fd, int meminfo, const struct greed *g, struct course *c) {
    double start = now(), end = 0;
    while (c->took < g->limit) {
        uint64_t bytes = g->limit - c->took < g->step ? g->limit - c->took : g->step;
        if (take(fd, g, bytes)) {
            c->took += bytes;
        } else {
            c->failures++;
            c->error = strerror(errno);
            if (end == 0)
                end = now() + (double)g->stay;
            if (now() >= end)
                return;
            pause_for(0.1);
        }
        look(meminfo, c);
        if (g->rate)
            pause_for(start + (double)c->took / (double)(g->rate << 20) - now());
    }
    pause_for((double)g->stay);
}

int main(int argc, char **argv) {
    struct greed g = { .step = 8u << 20, .order = 9, .limit = UINT64_MAX };
    struct course c = { .lowest = { .free_kib = UINT64_MAX, .available_kib = UINT64_MAX }, .error = "none" };
    if (!parse(argc, argv, &g))
        return (void)fprintf(stderr, "usage: greedy [rate=MIB_PER_SECOND] [step=BYTES] [order=N] [limit=BYTES] [stay=SECONDS]\n"), 2;
    int meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC), fd = open(UMA_TEST_POOL_DEVICE, O_RDWR | O_CLOEXEC);
    if (meminfo < 0 || fd < 0)
        return perror("greedy"), 2;
    double start = now();
    take_all(fd, meminfo, &g, &c);
    (void)printf("took=%llu failures=%llu error=%s seconds=%.2f lowest_available=%llu lowest_free=%llu\n", (unsigned long long)c.took,
                 (unsigned long long)c.failures, c.error, now() - start, (unsigned long long)c.lowest.available_kib << 10,
                 (unsigned long long)c.lowest.free_kib << 10);
    return c.failures ? 3 : 0;
}
