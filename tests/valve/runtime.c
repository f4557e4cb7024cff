/* SPDX-License-Identifier: MIT */
/*
 * A program of the CUDA runtime's, compiled by test_runtime.py against a toolkit that is installed: what each call of the runtime says, and then which functions the runtime keeps for the names that it has
 * asked the driver for. One line each: "call NAME RESULT [NUMBERS]", "kept NAME VERSION FLAGS HANDED DRIVERS": how often the function that is handed out for this name lies in the program's memory, and how often the
 * driver's own does.
 */
#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANGES = 512, QUESTIONS = 1024 };

typedef int ask_function(const char *symbol, void **pfn, int version, unsigned long long flags, int *status);

struct range {
    const uintptr_t *begin, *end;
};

struct question {
    char name[64];
    int version;
    unsigned long long flags;
    void *handed, *drivers;
    unsigned n_handed, n_drivers;
};

static struct question questions[QUESTIONS];
static unsigned n_questions;

static void read_questions(const char *path) {
    char line[256];
    FILE *f = fopen(path, "r");
    while (f && n_questions < QUESTIONS && fgets(line, sizeof(line), f)) {
        struct question *q = &questions[n_questions];
        if (sscanf(line, "%63s %d %llu", q->name, &q->version, &q->flags) == 3 && strncmp(q->name, "cu", 2) == 0)
            n_questions++;
    }
    if (f)
        (void)fclose(f);
}

/* What can be written, without the stack and what the driver and the library before it have themselves. The list is made first: nothing is allocated while it is read. */
static unsigned find_ranges(struct range *ret) {
    char line[1024], how[8], path[512];
    unsigned long begin, end;
    unsigned n = 0;
    bool theirs = false;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && n < RANGES && fgets(line, sizeof(line), f)) {
        int words = sscanf(line, "%lx-%lx %7s %*s %*s %*s %511s", &begin, &end, how, path);
        if (words == 4) /* what follows a library without a name is its .bss */
            theirs = strstr(path, "libcuda.so") || strstr(path, "libuma-valve") || path[0] == '[';
        if (words == 4 && strcmp(path, "[heap]") == 0)
            theirs = false;
        if (how[0] == 'r' && how[1] == 'w' && !theirs)
            ret[n++] = (struct range){ (const uintptr_t *)begin, (const uintptr_t *)end };
    }
    if (f)
        (void)fclose(f);
    return n;
}

static void count(const struct range *ranges, unsigned n) {
    const uintptr_t *own = (const uintptr_t *)questions, *own_end = (const uintptr_t *)(questions + QUESTIONS);
    for (unsigned r = 0; r < n; r++)
        for (const uintptr_t *p = ranges[r].begin; p < ranges[r].end; p++)
            if (*p && (p < own || p >= own_end))
                for (unsigned i = 0; i < n_questions; i++) {
                    questions[i].n_handed += *p == (uintptr_t)questions[i].handed;
                    questions[i].n_drivers += *p == (uintptr_t)questions[i].drivers;
                }
}

/* Of the names that somebody else than the driver answers for. */
static void say_kept(const char *path) {
    static struct range ranges[RANGES];
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    ask_function *ask = library ? (ask_function *)dlsym(library, "cuGetProcAddress_v2") : NULL;
    ask_function *past = library ? (ask_function *)dlsym(library, "uma_fake_cuGetProcAddress") : NULL;
    unsigned kept = 0;
    int status;
    if (!ask || !past)
        return;
    read_questions(path);
    unsigned n = find_ranges(ranges);
    for (unsigned i = 0; i < n_questions; i++) {
        struct question *q = &questions[i];
        void *handed = NULL, *drivers = NULL;
        if (ask(q->name, &handed, q->version, q->flags, &status) == 0 && past(q->name, &drivers, q->version, q->flags, &status) == 0 &&
            handed != drivers) {
            questions[kept] = *q;
            questions[kept].handed = handed;
            questions[kept++].drivers = drivers;
        }
    }
    n_questions = kept;
    count(ranges, n);
    for (unsigned i = 0; i < kept; i++)
        (void)printf("kept %s %d %llu %u %u\n", questions[i].name, questions[i].version, questions[i].flags, questions[i].n_handed,
                     questions[i].n_drivers);
}

int main(void) {
    const char *path = getenv("ASKED");
    int version = -1, devices = -1;
    size_t free = 0, total = 0;
    void *memory = NULL;
    cudaError_t r = cudaDriverGetVersion(&version);
    (void)printf("call cudaDriverGetVersion %d %d\n", r, version);
    r = cudaGetDeviceCount(&devices);
    (void)printf("call cudaGetDeviceCount %d %d\n", r, devices);
    r = cudaMemGetInfo(&free, &total);
    (void)printf("call cudaMemGetInfo %d %zu %zu\n", r, free, total);
    r = cudaMalloc(&memory, 1 << 20);
    (void)printf("call cudaMalloc %d\n", r);
    (void)printf("call cudaFree %d\n", cudaFree(memory));
    r = cudaMallocAsync(&memory, 1 << 20, 0);
    (void)printf("call cudaMallocAsync %d\n", r);
    r = cudaMallocHost(&memory, 1 << 20);
    (void)printf("call cudaMallocHost %d\n", r);
    if (path)
        say_kept(path);
    return 0;
}
