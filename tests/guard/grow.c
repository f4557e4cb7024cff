/* SPDX-License-Identifier: MIT */
/*
 * grow.c - a harmless victim: takes memory at a rate up to an amount, keeps it, and says what happens to it.
 *   grow [--rate MIB_PER_S] [--most MIB] [--children N] [--ignore-term] [--wait] [--heed] [--step MIB]
 * --wait: begins at SIGUSR1. --children: each takes a share, forked one after the other while it grows. Ends at SIGTERM unless it ignores that. Prints "ready PID", "full" when it has all, "term" for a SIGTERM, "warned" for a SIGUSR2.
 *   --heed: takes no more once it is warned. --step: MiB that it takes at once (4), which is how smooth its rate is
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t begin, told, warned;

static void on_signal(int number) {
    if (number == SIGUSR1)
        begin = 1;
    else if (number == SIGUSR2)
        warned = 1;
    else
        told = 1;
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void say(const char *what) {
    (void)printf("%s %d\n", what, (int)getpid());
    (void)fflush(stdout);
}

static void say_warned(void) {
    if (warned)
        say("warned");
    warned = 0;
}

/* Takes `most` bytes at `rate`; with the pace of the clock, so that a time in which it was stopped is not made up for. */
static void grow(double rate, size_t most, size_t step, bool ignore, bool heed) {
    const double pause = rate > 0 ? (double)step / rate : 0;
    char *memory = mmap(NULL, most + step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    (void)madvise(memory, most + step, MADV_HUGEPAGE); /* 4 KiB pages come at 0.25 GB/s here */
    for (size_t at = 0; at < most; at += step) {
        double started = now();
        for (size_t i = 0; i < step; i += 4096)
            memory[at + i] = 1;
        double rest = pause - (now() - started);
        if (rest > 0)
            (void)usleep((useconds_t)(rest * 1e6));
        bool enough = heed && warned;
        say_warned();
        if (enough)
            return;
        if (told)
            say("term");
        if (told && !ignore)
            exit(0);
        told = 0;
    }
}

int main(int argc, char **argv) {
    double rate = 500.0 * 1048576;
    size_t most = (size_t)1024 << 20, step = (size_t)4 << 20;
    int children = 0;
    bool ignore = false, wait = false, heed = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--ignore-term") == 0)
            ignore = true;
        else if (strcmp(argv[i], "--heed") == 0)
            heed = true;
        else if (strcmp(argv[i], "--wait") == 0)
            wait = true;
        else if (i + 1 < argc && strcmp(argv[i], "--rate") == 0)
            rate = strtod(argv[++i], NULL) * 1048576;
        else if (i + 1 < argc && strcmp(argv[i], "--most") == 0)
            most = (size_t)strtoul(argv[++i], NULL, 10) << 20;
        else if (i + 1 < argc && strcmp(argv[i], "--step") == 0)
            step = (size_t)strtoul(argv[++i], NULL, 10) << 20;
        else if (i + 1 < argc && strcmp(argv[i], "--children") == 0)
            children = (int)strtol(argv[++i], NULL, 10);
        else
            return 2;
    }
    struct sigaction action = { .sa_handler = on_signal };
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGUSR1, &action, NULL);
    (void)sigaction(SIGUSR2, &action, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that is killed leaves nothing behind */
    say("ready");
    while (wait && !begin)
        (void)usleep(2000);
    size_t share = most / (size_t)(children + 1);
    for (int i = 0; i < children; i++)
        if (fork() == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            children = 0;
            say("child");
        }
    grow(rate / (double)(children + 1), share, step, ignore, heed);
    say("full");
    while (!told || ignore) {
        (void)usleep(20000);
        say_warned();
        if (told && ignore) {
            say("term");
            told = 0;
        }
    }
    say_warned();
    say("term");
    return 0;
}
