/* SPDX-License-Identifier: MIT */
/*
 * bystander BYTES [FILE] - a program that did nothing wrong: it holds ordinary memory, writes to all of it, reads all of FILE through a mapping, again
 * and again, and says "@result bystander_rounds N" on stdout once a second. When it falls silent, something took its memory or its life.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "number.h"

static const volatile unsigned char *map_file(const char *path, off_t *ret_bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return NULL;
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (p == MAP_FAILED)
        return NULL;
    *ret_bytes = st.st_size;
    return p;
}

int main(int argc, char **argv) {
    uint64_t bytes;
    if (argc < 2 || argc > 3 || !number(argv[1], &bytes))
        return (void)fprintf(stderr, "usage: bystander BYTES [FILE]\n"), 2;
    unsigned char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return perror("bystander"), 1;
    off_t file_bytes = 0;
    const volatile unsigned char *file = argc > 2 ? map_file(argv[2], &file_bytes) : NULL;
    if (argc > 2 && !file)
        return perror(argv[2]), 1;
    for (unsigned int round = 1;; round++) {
        for (uint64_t i = 0; i < bytes; i += 4096)
            p[i] = (unsigned char)round;
        for (off_t i = 0; i < file_bytes; i += 4096)
            (void)file[i];
        char line[64];
        int n = snprintf(line, sizeof(line), "@result bystander_rounds %u\n", round);
        if (write(STDOUT_FILENO, line, (size_t)n) != n)
            return 1;
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_sec = 1 }, NULL);
    }
}
