/* SPDX-License-Identifier: MIT */
/*
 * valve_calls.c - nanoseconds of a call of the CUDA driver that takes memory and of the one that gives it back, as a program makes them that found them by dlsym(3): valve_calls BYTES ROUNDS [async]. Prints four numbers: "take free", medians
 * over batches, and their means, in which the rare call that looks at the machine counts too.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 64, BATCHES_MAX = 100000 };

typedef int alloc_function(uint64_t *address, size_t size);
typedef int free_function(uint64_t address);
typedef int alloc_async_function(uint64_t *address, size_t size, void *stream);
typedef int free_async_function(uint64_t address, void *stream);

/* cuMemAllocAsync and cuMemFreeAsync in the default stream, which is what async asks for, as the same kind of call */
static alloc_async_function *take_async;
static free_async_function *give_async;

static int take_in_order(uint64_t *address, size_t size) {
    return take_async(address, size, NULL);
}

static int give_in_order(uint64_t address) {
    return give_async(address, NULL);
}

static double now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double mean(const double *list, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += list[i];
    return sum / (double)n;
}

static double median(double *list, size_t n) {
    qsort(list, n, sizeof(*list), compare);
    return list[n / 2];
}

int main(int argc, char **argv) {
    static double takes[BATCHES_MAX], frees[BATCHES_MAX];
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    bool async = argc == 4 && strcmp(argv[3], "async") == 0;
    if ((argc != 3 && !async) || !driver) {
        (void)fprintf(stderr, "usage: valve_calls BYTES ROUNDS [async], with a libcuda.so.1: %s\n", driver ? "" : dlerror());
        return 2;
    }
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    alloc_function *take = (alloc_function *)dlsym(driver, "cuMemAlloc_v2");
    free_function *give = (free_function *)dlsym(driver, "cuMemFree_v2");
    take_async = (alloc_async_function *)dlsym(driver, "cuMemAllocAsync");
    give_async = (free_async_function *)dlsym(driver, "cuMemFreeAsync");
    if (async && take_async && give_async) {
        take = take_in_order;
        give = give_in_order;
    }
    size_t bytes = strtoull(argv[1], NULL, 10), rounds = strtoull(argv[2], NULL, 10), n = rounds / BATCH;
    void *context = NULL;
    if (!init || !retain || !set || !take || !give || n == 0 || n > BATCHES_MAX || init(0) || retain(&context, 0) || set(context)) {
        (void)fprintf(stderr, "valve_calls: the driver does not begin\n");
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t held[BATCH];
        int wrong = 0;
        double begin = now_ns();
        for (int k = 0; k < BATCH; k++)
            wrong |= take(&held[k], bytes);
        double middle = now_ns();
        for (int k = 0; k < BATCH; k++)
            wrong |= give(held[k]);
        takes[i] = (middle - begin) / BATCH;
        frees[i] = (now_ns() - middle) / BATCH;
        if (wrong) {
            (void)fprintf(stderr, "valve_calls: refused\n");
            return 1;
        }
    }
    (void)printf("%.1f %.1f %.1f %.1f\n", median(takes, n), median(frees, n), mean(takes, n), mean(frees, n));
    return 0;
}
