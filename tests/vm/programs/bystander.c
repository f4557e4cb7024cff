/* SPDX-License-Identifier: MIT */
/*
 * bystander BYTES - a program that did nothing wrong: it holds ordinary memory, writes to all of it again and again, and says "@result
 * bystander_rounds N" on stdout once a second. When it falls silent, something took its memory or its life.
 */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "number.h"

int main(int argc, char **argv) {
    uint64_t bytes;
    if (argc != 2 || !number(argv[1], &bytes))
        return (void)fprintf(stderr, "usage: bystander BYTES\n"), 2;
    unsigned char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return perror("bystander"), 1;
    for (unsigned int round = 1;; round++) {
        for (uint64_t i = 0; i < bytes; i += 4096)
            p[i] = (unsigned char)round;
        char line[64];
        int n = snprintf(line, sizeof(line), "@result bystander_rounds %u\n", round);
        if (write(STDOUT_FILENO, line, (size_t)n) != n)
            return 1;
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_sec = 1 }, NULL);
    }
}
