/* SPDX-License-Identifier: MIT */
/*
 * greedy_cuda [rate=MIB_PER_SECOND] [step=MIB] [limit=MIB] [stay=SECONDS] - a program that takes memory from the CUDA driver until it is told that there is no more, says so as programs do, keeps what it has for a while, gives
 * it back and ends well. rate 0 (default): as fast as it can; step 8; stay 0; limit: none. The last line on stdout: "took=BYTES error=N free_said=BYTES". Exit status 0 when the driver said out of
 * memory, or it has its limit, 1 when something else went wrong.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ALLOCATIONS_MAX = 65536 };

static uint64_t rate, step = 8, limit = UINT64_MAX, stay;

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pause_for(double seconds) {
    if (seconds <= 0)
        return;
    struct timespec t = { .tv_sec = (time_t)seconds };
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static void parse(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "rate=", 5) == 0)
            rate = strtoull(argv[i] + 5, NULL, 10);
        else if (strncmp(argv[i], "step=", 5) == 0)
            step = strtoull(argv[i] + 5, NULL, 10);
        else if (strncmp(argv[i], "limit=", 6) == 0)
            limit = strtoull(argv[i] + 6, NULL, 10);
        else if (strncmp(argv[i], "stay=", 5) == 0)
            stay = strtoull(argv[i] + 5, NULL, 10);
}

int main(int argc, char **argv) {
    static uint64_t held[ALLOCATIONS_MAX];
    parse(argc, argv);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
    int (*retain)(void **, int) = driver ? (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain") : NULL;
    int (*set)(void *) = driver ? (int (*)(void *))dlsym(driver, "cuCtxSetCurrent") : NULL;
    int (*take)(uint64_t *, size_t) = driver ? (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2") : NULL;
    int (*give)(uint64_t) = driver ? (int (*)(uint64_t))dlsym(driver, "cuMemFree_v2") : NULL;
    int (*info)(size_t *, size_t *) = driver ? (int (*)(size_t *, size_t *))dlsym(driver, "cuMemGetInfo_v2") : NULL;
    void *context;
    if (!init || !retain || !set || !take || !give || !info || init(0) || retain(&context, 0) || set(context)) {
        (void)fprintf(stderr, "no CUDA driver: %s\n", driver ? "it does not begin" : dlerror());
        return 1;
    }
    double begin = now();
    size_t n = 0, free_said = 0, total;
    int error = 0;
    while (n < ALLOCATIONS_MAX && n * step < limit && (error = take(&held[n], step << 20)) == 0) {
        n++;
        if (rate)
            pause_for(begin + (double)(n * step) / (double)rate - now());
    }
    (void)info(&free_said, &total);
    if (error)
        (void)fprintf(stderr, "RuntimeError: CUDA out of memory. Tried to allocate %.2f MiB\n", (double)step);
    pause_for((double)stay);
    for (size_t i = 0; i < n; i++)
        if (give(held[i]))
            return 1;
    (void)printf("took=%llu error=%d free_said=%zu\n", (unsigned long long)(n * step << 20), error, free_said);
    return error == 2 || error == 0 ? 0 : 1;
}
