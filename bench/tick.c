/* SPDX-License-Identifier: MIT */
/*
 * tick MODE COUNT - time COUNT readings of the machine and print "MEDIAN_US P99_US" on one line.
 *   library   libuma's tick: memory and heat into a snapshot, accounted
 *   observe   libuma's tick without the account
 *   bare      the same files read in a bare loop, opened each time, line by line, nothing kept (how a small monitor does it)
 *   floor     the same files, kept open, one pread each, nothing parsed: what the kernel alone costs
 * The files of the bare modes are those on the command line after COUNT.
 */
#include "base/units.h"
#include "uma.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int library(int64_t *times, size_t count, bool account) {
    struct uma_error err = { 0 };
    struct uma_observe_options options = { 0 };
    struct uma_observer *observer = NULL;
    struct uma_snapshot snapshot;
    if (uma_observer_open(&options, &observer, &err) < 0 || uma_snapshot_init(&snapshot) < 0)
        return fprintf(stderr, "%s\n", err.text), 1;
    for (size_t i = 0; i < count; i++) {
        int64_t from = uma_monotonic_ns();
        if (uma_observer_read(observer, UMA_READ_MEMORY | UMA_READ_HEAT, &snapshot, &err) < 0)
            return fprintf(stderr, "%s\n", err.text), 1;
        if (account) {
            struct uma_account result;
            if (uma_account_build(&snapshot, 0, &result, &err) < 0)
                return fprintf(stderr, "%s\n", err.text), 1;
            uma_account_done(&result);
        }
        times[i] = uma_monotonic_ns() - from;
    }
    uma_snapshot_done(&snapshot);
    (void)uma_observer_close(observer);
    return 0;
}

static int bare(int64_t *times, size_t count, char **files, int n) {
    char line[512];
    unsigned long long sum = 0, value;
    for (size_t i = 0; i < count; i++) {
        int64_t from = uma_monotonic_ns();
        for (int k = 0; k < n; k++) {
            FILE *f = fopen(files[k], "re");
            if (!f)
                continue;
            while (fgets(line, sizeof(line), f))
                if (sscanf(line, "%*s %llu", &value) == 1)
                    sum += value;
            (void)fclose(f);
        }
        times[i] = uma_monotonic_ns() - from;
    }
    return sum == 1; /* keeps the loop from being optimised away */
}

static int kept(int64_t *times, size_t count, char **files, int n) {
    static char buffer[1 << 18];
    int fds[64];
    n = n > 64 ? 64 : n;
    for (int k = 0; k < n; k++)
        fds[k] = open(files[k], O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < count; i++) {
        int64_t from = uma_monotonic_ns();
        for (int k = 0; k < n; k++)
            for (off_t at = 0; fds[k] >= 0;) {
                ssize_t got = pread(fds[k], buffer, sizeof(buffer), at);
                if (got <= 0)
                    break;
                at += got;
            }
        times[i] = uma_monotonic_ns() - from;
    }
    return 0;
}

int main(int argc, char **argv) {
    uint64_t count;
    if (argc < 3 || uma_parse_u64_all(argv[2], &count) < 0 || count < 1 || count > 10000000)
        return fprintf(stderr, "usage: %s library|observe|bare|floor COUNT [FILE...]\n", argv[0]), 2;
    int64_t *times = calloc(count, sizeof(*times));
    if (!times)
        return 1;
    int r = strcmp(argv[1], "library") == 0   ? library(times, count, true)
            : strcmp(argv[1], "observe") == 0 ? library(times, count, false)
            : strcmp(argv[1], "bare") == 0    ? bare(times, count, argv + 3, argc - 3)
                                              : kept(times, count, argv + 3, argc - 3);
    if (r == 0) {
        qsort(times, count, sizeof(*times), compare);
        printf("%.1f %.1f\n", (double)times[count / 2] / 1e3, (double)times[count - 1 - count / 100] / 1e3);
    }
    free(times);
    return r;
}
