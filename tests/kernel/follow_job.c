/* SPDX-License-Identifier: MIT */
/*
 * follow_job.c - jobs for test_follow.py: each copies a file into memory of its own, at a pace that does not depend on the machine, and says whether what it copied is
 * the file's content (every 64-bit word is its own offset).
 *
 *   follow_job MODE FILE
 *     shared | private | random | read | pread      map and copy (private: writable, with pages written, which must stay), or read
 *     pair                                          two processes that map all of it, one of which copies it
 *     inplace                                       map, and go over it again and again until standard input ends
 *
 * "ready" when it waits to begin (a byte on standard input), "copied ok" or "copied wrong" when done; then it waits for the end of standard input.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP ((size_t)2 << 20)
/* 2 MiB every 5 ms at most: 400 MB/s, which leaves a follower on a busy machine its turn. */
#define PAUSE_NS 5000000

static _Noreturn void fail(const char *what) {
    perror(what);
    exit(2);
}

static void pace(void) {
    struct timespec pause = { .tv_nsec = PAUSE_NS };
    (void)nanosleep(&pause, NULL);
}

static void *map(size_t size, int protection, int flags, int fd) {
    void *at = mmap(NULL, size, protection, flags, fd, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

/* `write`: where the mapping is private and writable, a word of every eighth step is written before the step is copied; the copy has the file's word. */
static void copy_mapped(char *to, char *from, size_t size, size_t stride, bool write) {
    size_t steps = size / STEP;
    for (size_t i = 0; i < steps; i++) {
        size_t at = i * stride % steps * STEP;
        uint64_t own = at, other = ~own;
        bool written = write && at % (8 * STEP) == 0;
        if (written)
            (void)memcpy(from + at, &other, sizeof other);
        (void)memcpy(to + at, from + at, STEP);
        if (written)
            (void)memcpy(to + at, &own, sizeof own);
        pace();
    }
}

static void copy_read(char *to, int fd, size_t size, bool positioned) {
    for (size_t at = 0; at < size;) {
        ssize_t n = positioned ? pread(fd, to + at, STEP, (off_t)at) : read(fd, to + at, STEP);
        if (n <= 0)
            fail("read");
        at += (size_t)n;
        pace();
    }
}

static bool is_content(const char *at, size_t size) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word;
        (void)memcpy(&word, at + i, sizeof word);
        if (word != i)
            return false;
    }
    return true;
}

/* A private mapping with a written word in every eighth step; true while all of them are as written and all else is the file's. */
static bool copies_intact(const char *at, size_t size) {
    for (size_t i = 0; i < size; i += STEP) {
        uint64_t word;
        (void)memcpy(&word, at + i, sizeof word);
        if (word != (i % (8 * STEP) == 0 ? ~(uint64_t)i : i))
            return false;
    }
    return true;
}

static void wait_for_input(bool end) {
    char c;
    while (read(STDIN_FILENO, &c, 1) == 1)
        if (!end)
            return;
}

static void say(const char *what) {
    (void)printf("%s\n", what);
    (void)fflush(stdout);
}

static void use_in_place(const char *at, size_t size) {
    volatile char sum = 0;
    (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    for (char c; read(STDIN_FILENO, &c, 1) != 0;)
        for (size_t i = 0; i < size; i += STEP) {
            for (size_t j = 0; j < STEP; j += 4096)
                sum = (char)(sum + at[i + j]);
            pace();
        }
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    const char *mode = argv[1];
    int fd = open(argv[2], O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        fail(argv[2]);
    size_t size = (size_t)st.st_size / STEP * STEP;
    char *to = map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    bool ok = true, private = strcmp(mode, "private") == 0, pair = strcmp(mode, "pair") == 0;
    char *from = NULL;
    pid_t other = -1;
    if (pair) { /* both have every page before anybody looks */
        other = fork();
        from = map(size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd);
        if (other == 0) {
            (void)pause();
            _exit(0);
        }
        pace();
    }
    say("ready");
    wait_for_input(false);
    if (strcmp(mode, "read") == 0 || strcmp(mode, "pread") == 0) {
        copy_read(to, fd, size, mode[0] == 'p');
    } else {
        if (!pair)
            from = map(size, private ? PROT_READ | PROT_WRITE : PROT_READ, private ? MAP_PRIVATE : MAP_SHARED, fd);
        if (strcmp(mode, "inplace") == 0) {
            use_in_place(from, size);
            return 0;
        }
        copy_mapped(to, from, size, strcmp(mode, "random") == 0 ? 37 : 1, private);
        ok = is_content(to, size);
        if (private) {
            say("written");
            wait_for_input(false);
            ok = ok && copies_intact(from, size);
        }
        if (pair) {
            (void)kill(other, SIGKILL);
            (void)waitpid(other, NULL, 0);
        }
    }
    say(ok && is_content(to, size) ? "copied ok" : "copied wrong");
    wait_for_input(true);
    return 0;
}
