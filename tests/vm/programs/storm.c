/* SPDX-License-Identifier: MIT */
/*
 * storm SECONDS - use /dev/uma_test_pool from many threads and processes at once, with settings that change, mappings that outlive their ids and
 * processes that are killed in the middle. Says "rounds=N killed=N"; exit status 1 when the device answered what it may not.
 * Every process does the same: two threads share one open file and an array of ids, a place of which is taken by whoever is first.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../module/uma_test_pool.h"
#include "number.h"

enum { PROCESSES = 5, IDS = 8, LARGEST_BYTES = 6 << 20, WRONG = 1 };

struct shared {
    int fd;
    _Atomic uint64_t ids[IDS];
};
static _Atomic uint64_t *rounds; /* of all processes */

/* xorshift: threads draw from their own, and a run can be told from another by its seed alone */
static uint32_t draw(uint32_t *state, uint32_t below) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % below;
}

static void wrong(const char *what) {
    perror(what);
    _exit(WRONG);
}

static void allocate(struct shared *s, uint32_t *seed) {
    struct uma_test_pool_alloc a = { .bytes = 1 + draw(seed, LARGEST_BYTES),
                                     .order = draw(seed, UMA_TEST_POOL_ORDERS),
                                     .flags = draw(seed, 4) };
    if (ioctl(s->fd, UMA_TEST_POOL_IOC_ALLOC, &a) < 0) {
        if (errno != ENOMEM && errno != EINTR)
            wrong("storm: alloc");
        return;
    }
    uint64_t before = atomic_exchange(&s->ids[draw(seed, IDS)], a.id);
    if (before && ioctl(s->fd, UMA_TEST_POOL_IOC_FREE, &before) < 0)
        wrong("storm: free of a known id");
}

/* The id may be freed by the other thread at any time: then there is no mapping, or the mapping keeps what the id had. */
static void map(struct shared *s, uint32_t *seed) {
    uint64_t id = atomic_load(&s->ids[draw(seed, IDS)]);
    size_t bytes = (size_t)getpagesize() * (1 + draw(seed, 16));
    if (!id)
        return;
    unsigned char *p =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)uma_test_pool_map_offset(id, (__u64)getpagesize()));
    if (p == MAP_FAILED) {
        if (errno != ENOENT && errno != EINVAL && errno != ENOMEM)
            wrong("storm: mmap");
        return;
    }
    p[0] = 1;
    p[bytes - 1] = 1;
    if (bytes > (size_t)getpagesize() && draw(seed, 2)) /* a hole makes two mappings of one */
        (void)munmap(p, (size_t)getpagesize());
    (void)munmap(p, bytes);
}

static void release(struct shared *s, uint32_t *seed) {
    uint64_t id = atomic_exchange(&s->ids[draw(seed, IDS)], 0), unknown = 1u << 30;
    if (id && ioctl(s->fd, UMA_TEST_POOL_IOC_FREE, &id) < 0)
        wrong("storm: free");
    if (ioctl(s->fd, UMA_TEST_POOL_IOC_FREE, &unknown) == 0 || errno != ENOENT)
        wrong("storm: free of an unknown id");
}

_Noreturn static void work(struct shared *s) {
    uint32_t seed = (uint32_t)gettid() * 2654435761u | 1;
    for (;;) {
        switch (draw(&seed, 4)) {
        case 0:
        case 1:
            allocate(s, &seed);
            break;
        case 2:
            map(s, &seed);
            break;
        default:
            release(s, &seed);
        }
        (void)atomic_fetch_add(rounds, 1);
    }
}

static void *other_thread(void *shared) {
    work(shared);
}

static pid_t start_process(void) {
    pid_t child = fork();
    if (child)
        return child;
    static struct shared s;
    pthread_t other;
    s.fd = open(UMA_TEST_POOL_DEVICE, O_RDWR | O_CLOEXEC);
    if (s.fd < 0)
        wrong(UMA_TEST_POOL_DEVICE);
    if (pthread_create(&other, NULL, other_thread, &s) == 0)
        work(&s);
    _exit(WRONG);
}

static void change_settings(int fd, uint32_t *seed) {
    static const uint32_t delays[] = { 0, 20, UMA_TEST_POOL_KEEP };
    struct uma_test_pool_settings settings = { .return_delay_ms = delays[draw(seed, 3)],
                                               .pool_orders = draw(seed, 1u << UMA_TEST_POOL_ORDERS),
                                               .largest_order = 4 + draw(seed, 7),
                                               .fail_next = draw(seed, 3),
                                               .flags = draw(seed, 2) };
    if (ioctl(fd, UMA_TEST_POOL_IOC_SET, &settings) < 0)
        wrong("storm: settings");
}

static void read_all(int fd) {
    struct uma_test_pool_holder rows[3];
    struct uma_test_pool_holders list = { .rows = (uintptr_t)rows, .capacity = 3 };
    struct uma_test_pool_stats stats;
    if (ioctl(fd, UMA_TEST_POOL_IOC_HOLDERS, &list) < 0 || ioctl(fd, UMA_TEST_POOL_IOC_STATS, &stats) < 0)
        wrong("storm: readings");
}

int main(int argc, char **argv) {
    uint64_t seconds, killed = 0;
    if (argc != 2 || !number(argv[1], &seconds))
        return (void)fprintf(stderr, "usage: storm SECONDS\n"), 2;
    rounds = mmap(NULL, sizeof(*rounds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = open(UMA_TEST_POOL_DEVICE, O_RDWR | O_CLOEXEC), status, result = 0;
    if (rounds == MAP_FAILED || fd < 0)
        return perror("storm"), 2;
    pid_t processes[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        processes[i] = start_process();
    uint32_t seed = (uint32_t)getpid() | 1;
    time_t end = time(NULL) + (time_t)seconds;
    for (int i = 0; time(NULL) < end; i = (i + 1) % PROCESSES) {
        change_settings(fd, &seed);
        read_all(fd);
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = 1000 * 1000 * (long)draw(&seed, 200) }, NULL);
        (void)kill(processes[i], SIGKILL);
        if (waitpid(processes[i], &status, 0) == processes[i] && WIFSIGNALED(status))
            killed++;
        else
            result = 1;
        processes[i] = start_process();
    }
    for (int i = 0; i < PROCESSES; i++) {
        (void)kill(processes[i], SIGKILL);
        (void)waitpid(processes[i], &status, 0);
    }
    (void)printf("rounds=%llu killed=%llu\n", (unsigned long long)atomic_load(rounds), (unsigned long long)killed);
    return result;
}
