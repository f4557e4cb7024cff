/* SPDX-License-Identifier: MIT */
/* limits_by_hand SOFT HARD GROUP: the driver's memory limits of a cgroup, set by the library itself as a container toolkit does; the status is the library's. */
#include "observe/nvml_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    if (!symbol) {
        (void)fprintf(stderr, "%s: not there\n", name);
        exit(99);
    }
    (void)memcpy(function, &symbol, sizeof(symbol));
}

int main(int argc, char **argv) {
    int (*init)(void), (*count)(unsigned *), (*device)(unsigned, nvml_device *), (*set)(nvml_device, struct nvml_set_memory_limits *);
    const char *path = getenv("UMACTL_NVML");
    void *library = dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW);
    nvml_device gpu;
    unsigned n;
    if (argc != 4 || !library)
        return 99;
    find(library, "nvmlInit_v2", &init);
    find(library, "nvmlDeviceGetCount_v2", &count);
    find(library, "nvmlDeviceGetHandleByIndex_v2", &device);
    find(library, "nvmlDeviceSetMemoryLimits_v1", &set);
    if (init() || count(&n) || device(0, &gpu))
        return 99;
    struct nvml_set_memory_limits limits = { .cgroup = argv[3], .soft = strtoull(argv[1], NULL, 10), .hard = strtoull(argv[2], NULL, 10) };
    return set(gpu, &limits);
}
