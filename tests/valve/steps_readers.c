/* SPDX-License-Identifier: MIT */
/* What a program is told about memory: by the driver, by NVML, and by the fake driver's own books. */
#include "fakes/cuda/fake.h"
#include "steps.h"

#include <dlfcn.h>
#include <string.h>

static void answer_nvml(bool second) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void) = library ? (int (*)(void))dlsym(library, "nvmlInit_v2") : NULL;
    int (*handle)(unsigned, nvmlDevice_t *) =
        library ? (int (*)(unsigned, nvmlDevice_t *))dlsym(library, "nvmlDeviceGetHandleByIndex_v2") : NULL;
    __typeof__(&nvmlDeviceGetMemoryInfo) first = library ? (__typeof__(first))dlsym(library, "nvmlDeviceGetMemoryInfo") : NULL;
    __typeof__(&nvmlDeviceGetMemoryInfo_v2) two = library ? (__typeof__(two))dlsym(library, "nvmlDeviceGetMemoryInfo_v2") : NULL;
    nvmlDevice_t device;
    nvmlMemory_t m = { 0 };
    nvmlMemory_v2_t m2 = { .version = 2U << 24 | (unsigned)sizeof(m2) };
    if (!init || !handle || !first || !two || init() != 0) {
        answer("-1");
        return;
    }
    int r = handle(0, &device);
    if (r == 0 && second) {
        r = two(device, &m2);
        answer("%d %llu %llu %llu", r, m2.free, m2.total, m2.used);
    } else if (r == 0) {
        r = first(device, &m);
        answer("%d %llu %llu %llu", r, m.free, m.total, m.used);
    } else
        answer("%d", r);
}

/* What cuGetProcAddress_v2 says of a name: its answer, the status, whether there is a function, and which it is, by the name under which the object that it lies in exports it. `past`: asked of the driver's own, past
 * whoever stands before it. */
static void answer_which(const char *name, int version, uint64_t flags, bool past) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *function = NULL;
    CUresult (*ask)(const char *, void **, int, unsigned long long, int *) = NULL;
    int status = -1;
    Dl_info info = { 0 };
    if (library && past)
        ask = (CUresult(*)(const char *, void **, int, unsigned long long, int *))dlsym(library, "uma_fake_cuGetProcAddress");
    else if (library && !past)
        ask = (CUresult(*)(const char *, void **, int, unsigned long long, int *))dlsym(library, "cuGetProcAddress_v2");
    CUresult r = ask ? ask(name, &function, version, flags, &status) : -1;
    if (function)
        (void)dladdr(function, &info);
    uint64_t sum = 0;
    for (const char *c = info.dli_sname ? info.dli_sname : ""; *c; c++)
        sum = sum * 31 + (unsigned char)*c;
    answer("%d %d %d %llu", r, status, function != NULL, (unsigned long long)(sum % 1000000007));
}

bool step_reader(const struct step *s) {
    const char *what = s->word[0];
    size_t free = 0, total = 0;
    CUresult r;
    if (strcmp(what, "info") == 0) {
        bool null_free = strstr(s->word[1], "null-free"), null_total = strstr(s->word[1], "null-total");
        r = api->cuMemGetInfo_v2(null_free ? NULL : &free, null_total ? NULL : &total);
        answer("%d %zu %zu", r, free, total);
    } else if (strcmp(what, "total") == 0) {
        r = api->cuDeviceTotalMem_v2(&total, (int)s->n[1]);
        answer("%d %zu", r, total);
    } else if (strcmp(what, "nvml") == 0)
        answer_nvml(s->n[1] == 2);
    else if (strcmp(what, "books") == 0) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        void (*books)(struct fake_books *) = library ? (void (*)(struct fake_books *))dlsym(library, "uma_fake_cuda_books") : NULL;
        struct fake_books b = { 0 };
        uint64_t used = 0, overhead = 0;
        if (books)
            books(&b);
        for (int i = 1; i < FAKE_KINDS; i++)
            *(i < FAKE_KIND_CONTEXT ? &used : &overhead) += b.bytes[i];
        answer("%d %llu %llu %llu %llu %llu", books ? 0 : -1, (unsigned long long)used, (unsigned long long)overhead,
               (unsigned long long)b.taking, (unsigned long long)b.refused, (unsigned long long)b.calls);
    } else if (strcmp(what, "which") == 0 || strcmp(what, "which-exported") == 0)
        answer_which(s->word[1], (int)s->n[2], s->n[3], strchr(what, '-') != NULL);
    else if (strcmp(what, "refuse") == 0) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        void (*refuse)(uint64_t, uint64_t) = library ? (void (*)(uint64_t, uint64_t))dlsym(library, "uma_fake_cuda_refuse") : NULL;
        if (refuse)
            refuse(s->n[1], s->n[2]);
        answer("%d", refuse ? 0 : -1);
    } else
        return false;
    return true;
}
