/* SPDX-License-Identifier: MIT */
/*
 * engine STEP... - a program that looks like an inference engine or a training job: it does its steps in their order, and ends after the last.
 *   name=NAME              what it is called from now on
 *   weights=FILE           maps a file and reads all of it; the mapping stays
 *   read=FILE              reads all of a file, as a loader does that copies
 *   take=BYTES[@RATE]      driver memory (/dev/uma_test_pool), RATE MiB a second, else as fast as it can; what is refused it asks for again, ten times a second
 *   anon=BYTES[@RATE]      ordinary memory, written to
 *   pieces=BYTES           driver memory in pieces of 64 KiB, every other of which it gives back: what is free then is in small blocks
 *   give=BYTES             gives back driver memory, the newest first
 *   serve=SECONDS          answers ten times a second: a little work in a little fresh memory
 *   leak=BYTES@RATE        as take, while it serves
 *   workers=N              forks N processes that do the rest of the steps; this one serves
 *   tenants=N              starts N processes that are nobody's children and do the rest of the steps, and ends
 *   storm=N@RATE           forks N processes, RATE a second, that take 2 MiB of each kind of memory and stay
 *   hang=SECONDS           a thread of it waits in the driver where no signal reaches; the others go on
 *   deaf                   ignores SIGTERM from now on
 *   mark=NAME              "@result NAME UPTIME" on stdout
 *   file=PATH              makes an empty file: it is there
 *   stay                   serves until it is ended
 *   idle                   does nothing until it is ended
 * BYTES takes the suffixes K, M, G. Exit status 0 after the last step, 2 for a step that there is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../module/uma_test_pool.h"
#include "number.h"

enum {
    ALLOCATIONS = 16384,
    PIECE_BYTES = 2 << 20,
    STORM_BYTES = 2 << 20,
    FRESH_BYTES = 128 * 1024,
    SCRAP_BYTES = 64 * 1024,
    DEVICE_ORDER = 9
};

static struct { uint64_t id, bytes; } held[ALLOCATIONS];
static size_t n_held;
static int device = -1;
static uint64_t hang_ms;

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_BOOTTIME, &t); /* what /proc/uptime tells */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pause_for(double seconds) {
    if (seconds > 0)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0,
                              &(struct timespec){ .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) },
                              NULL);
}

static void say(const char *name) {
    char line[96];
    int n = snprintf(line, sizeof(line), "@result %s %.3f\n", name, now());
    if (n > 0 && write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(1);
}

/* "BYTES[@RATE]" */
static bool amount(const char *text, uint64_t *ret_bytes, uint64_t *ret_rate) {
    char bytes[32];
    size_t n = strcspn(text, "@");
    *ret_rate = 0;
    if (n >= sizeof(bytes) || (text[n] && !number(text + n + 1, ret_rate)))
        return false;
    (void)memcpy(bytes, text, n);
    bytes[n] = '\0';
    return number(bytes, ret_bytes);
}

/* ---- memory ---- */

/* Large blocks, then whatever blocks there are: as a driver does it. */
static bool take_piece(uint64_t bytes) {
    if (device < 0)
        device = open(UMA_TEST_POOL_DEVICE, O_RDWR | O_CLOEXEC);
    struct uma_test_pool_alloc a = { .bytes = bytes, .order = DEVICE_ORDER };
    if (n_held == ALLOCATIONS)
        return false;
    if (ioctl(device, UMA_TEST_POOL_IOC_ALLOC, &a) < 0) {
        a.flags = UMA_TEST_POOL_FALL_BACK;
        if (errno != ENOMEM || ioctl(device, UMA_TEST_POOL_IOC_ALLOC, &a) < 0)
            return false;
    }
    held[n_held].id = a.id;
    held[n_held++].bytes = a.got_bytes;
    return true;
}

static bool anon_piece(uint64_t bytes) {
    unsigned char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    for (uint64_t i = 0; i < bytes; i += 4096)
        p[i] = 1;
    return true;
}

static void work_a_little(void) {
    volatile unsigned char *p = mmap(NULL, FRESH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return;
    for (size_t i = 0; i < FRESH_BYTES; i += 4096)
        p[i] = 1;
    (void)munmap((void *)p, FRESH_BYTES);
}

/* A slow one takes small pieces, so that it grows evenly: about ten a second. It does not make up for time in which it was stopped: neither does a real one. */
static void grow(bool (*piece)(uint64_t), uint64_t bytes, uint64_t rate, bool serving) {
    uint64_t step = PIECE_BYTES;
    while (rate && step > 64 * 1024 && step > (rate << 20) / 10)
        step /= 2;
    double next = now();
    for (uint64_t done = 0; done < bytes;) {
        uint64_t want = bytes - done < step ? bytes - done : step;
        if (!piece(want)) {
            pause_for(0.1);
            next = now();
            continue;
        }
        done += want;
        if (serving)
            work_a_little();
        if (!rate)
            continue;
        next += (double)want / (double)(rate << 20);
        double late = now() - next;
        if (late > 0.2)
            next += late;
        pause_for(next - now());
    }
}

static void give(uint64_t bytes) {
    while (n_held && bytes) {
        n_held--;
        (void)ioctl(device, UMA_TEST_POOL_IOC_FREE, &held[n_held].id);
        bytes -= held[n_held].bytes < bytes ? held[n_held].bytes : bytes;
    }
}

static void pieces(uint64_t bytes) {
    size_t first = n_held;
    for (uint64_t done = 0; done < bytes && take_piece(SCRAP_BYTES); done += SCRAP_BYTES)
        ;
    for (size_t i = first; i < n_held; i += 2) {
        (void)ioctl(device, UMA_TEST_POOL_IOC_FREE, &held[i].id);
        held[i].bytes = 0; /* give() finds no such id, and goes on */
    }
}

static bool read_weights(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return perror(path), false;
    const volatile unsigned char *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (p == MAP_FAILED)
        return perror(path), false;
    for (off_t i = 0; i < st.st_size; i += 4096)
        (void)p[i];
    return true;
}

static bool read_file(const char *path) {
    static char buffer[1 << 20];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return perror(path), false;
    while (read(fd, buffer, sizeof(buffer)) > 0)
        ;
    (void)close(fd);
    return true;
}

static bool make_file(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd >= 0 && close(fd) == 0;
}

/* ---- processes ---- */

static void serve(double seconds) {
    for (double end = now() + seconds; now() < end;) {
        work_a_little();
        pause_for(0.1);
    }
}

_Noreturn static void stay(void) {
    for (;;)
        serve(3600);
}

_Noreturn static void idle(void) {
    for (;;)
        (void)pause();
}

static void *hanging(void *unused) {
    (void)ioctl(device, UMA_TEST_POOL_IOC_HANG, &hang_ms);
    return unused;
}

static bool hang(uint64_t seconds) {
    pthread_t thread;
    if (device < 0)
        device = open(UMA_TEST_POOL_DEVICE, O_RDWR | O_CLOEXEC);
    hang_ms = seconds * 1000;
    return pthread_create(&thread, NULL, hanging, NULL) == 0;
}

static void storm(uint64_t n, uint64_t rate) {
    for (uint64_t i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0) {
            device = -1; /* its own, so that what it takes is its own */
            n_held = 0;
            (void)take_piece(STORM_BYTES);
            (void)anon_piece(STORM_BYTES);
            idle(); /* a hundred that serve would only measure the emulation */
        }
        if (rate)
            pause_for(1.0 / (double)rate);
    }
}

/* True for the process that goes on with the steps. */
static bool is_worker(uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (fork() == 0) {
            device = -1;
            n_held = 0;
            return true;
        }
    return false;
}

/* ---- steps ---- */

static bool step(const char *name, const char *value) {
    uint64_t a = 0, rate = 0;
    if (strcmp(name, "name") == 0)
        return prctl(PR_SET_NAME, value) == 0;
    if (strcmp(name, "mark") == 0)
        return say(value), true;
    if (strcmp(name, "file") == 0)
        return make_file(value);
    if (strcmp(name, "weights") == 0)
        return read_weights(value);
    if (strcmp(name, "read") == 0)
        return read_file(value);
    if (strcmp(name, "stay") == 0)
        stay();
    if (strcmp(name, "idle") == 0)
        idle();
    if (strcmp(name, "deaf") == 0)
        return signal(SIGTERM, SIG_IGN) != SIG_ERR;
    if (!amount(value, &a, &rate))
        return false;
    if (strcmp(name, "take") == 0)
        return grow(take_piece, a, rate, false), true;
    if (strcmp(name, "anon") == 0)
        return grow(anon_piece, a, rate, false), true;
    if (strcmp(name, "leak") == 0)
        return grow(take_piece, a, rate, true), true;
    if (strcmp(name, "pieces") == 0)
        return pieces(a), true;
    if (strcmp(name, "give") == 0)
        return give(a), true;
    if (strcmp(name, "serve") == 0)
        return serve((double)a), true;
    if (strcmp(name, "hang") == 0)
        return hang(a);
    if (strcmp(name, "storm") == 0)
        return storm(a, rate), true;
    if (strcmp(name, "tenants") == 0) {
        if (!is_worker(a))
            _exit(0);
        return true;
    }
    if (strcmp(name, "workers") == 0) {
        if (!is_worker(a))
            stay();
        return true;
    }
    return false;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value)
            *value++ = '\0';
        if (!step(argv[i], value ? value : "0"))
            return (void)fprintf(stderr, "engine: %s: there is no such step, or it failed\n", argv[i]), 2;
    }
    return 0;
}
