/* SPDX-License-Identifier: MIT */
/*
 * witness FLOOR PID... - looks at the machine and at the named processes every five milliseconds, and says on stdout what changes, one line each, with
 * the uptime in seconds:
 *   crossed T          headroom (MemAvailable and what lies in the lists of the processors) is below FLOOR; said once
 *   back T             it is above again for the first time after that
 *   stopped PID T, continued PID T, gone PID T
 *   lowest BYTES       at the end, with SIGTERM
 * It is locked in memory and no OOM killer takes it: what it says of times is the machine's doing and not its own.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "meminfo.h"
#include "number.h"

enum { PROCESSES = 64, STEP_NS = 5 * 1000 * 1000, ZONEINFO_BYTES = 32768 };

static volatile sig_atomic_t ended;

struct process {
    uint64_t pid;
    int stat;
    bool stopped, gone;
};

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What both MemFree and MemAvailable leave out. */
static uint64_t in_lists(int zoneinfo) {
    static char text[ZONEINFO_BYTES];
    uint64_t pages = 0;
    size_t length = 0;
    for (ssize_t n; length < sizeof(text) - 1; length += (size_t)n)
        if ((n = pread(zoneinfo, text + length, sizeof(text) - 1 - length, (off_t)length)) <= 0)
            break;
    text[length] = '\0';
    for (const char *row = text; (row = strstr(row, " count: ")); row++)
        pages += strtoull(row + 8, NULL, 10);
    return pages * 4096;
}

static void look_at(struct process *p) {
    char text[256];
    ssize_t n = p->gone ? -1 : pread(p->stat, text, sizeof(text) - 1, 0);
    if (p->gone)
        return;
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    char state = name_end && name_end[1] ? name_end[2] : 'X';
    bool stopped = state == 'T', gone = state == 'X' || state == 'Z';
    if (gone)
        (void)printf("gone %llu %.3f\n", (unsigned long long)p->pid, now());
    else if (stopped != p->stopped)
        (void)printf("%s %llu %.3f\n", stopped ? "stopped" : "continued", (unsigned long long)p->pid, now());
    p->stopped = stopped;
    p->gone = gone;
}

static void end(int number_of_signal) {
    ended = number_of_signal;
}

int main(int argc, char **argv) {
    static struct process processes[PROCESSES];
    uint64_t floor, lowest = UINT64_MAX;
    size_t n = 0;
    if (argc < 2 || argc > PROCESSES + 2 || !number(argv[1], &floor))
        return (void)fprintf(stderr, "usage: witness FLOOR PID...\n"), 2;
    for (int i = 2; i < argc; i++) {
        char path[64];
        if (!number(argv[i], &processes[n].pid))
            return (void)fprintf(stderr, "witness: %s: not a process\n", argv[i]), 2;
        (void)snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)processes[n].pid);
        processes[n].stat = open(path, O_RDONLY | O_CLOEXEC);
        processes[n++].gone = false;
    }
    int meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC), zoneinfo = open("/proc/zoneinfo", O_RDONLY | O_CLOEXEC);
    int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (meminfo < 0 || zoneinfo < 0 || score < 0 || write(score, "-1000", 5) != 5 || mlockall(MCL_CURRENT | MCL_FUTURE) < 0)
        return perror("witness"), 2;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGTERM, end);
    for (bool crossed = false, back = false; !ended;) {
        uint64_t headroom = (meminfo_read(meminfo).available_kib << 10) + in_lists(zoneinfo);
        lowest = headroom < lowest ? headroom : lowest;
        if (!crossed && headroom < floor) {
            (void)printf("crossed %.3f\n", now());
            crossed = true;
        } else if (crossed && !back && headroom >= floor) {
            (void)printf("back %.3f\n", now());
            back = true;
        }
        for (size_t i = 0; i < n; i++)
            look_at(&processes[i]);
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = STEP_NS }, NULL);
    }
    (void)printf("lowest %llu\n", (unsigned long long)lowest);
    return 0;
}
