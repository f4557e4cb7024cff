/* SPDX-License-Identifier: MIT */
/*
 * gpu_vendor.h - a vendor is a table of two functions. gpu.c asks all of them, then collects from all of them in order and puts the lists
 * one behind the other. Adding a vendor is one file and one line of the table.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "observe/gpu_probe.h"
#include "uma.h"

enum { UMA_AMD_CARDS_MAX = 16 };

struct uma_gpu_reader {
    struct uma_root *root;
    struct uma_probe *probe; /* NULL: NVML is not asked */
    /* What was found on this machine, looked for again after UMA_GPU_LOOK_AGAIN seconds; monotonic times, 0: never looked. */
    int64_t amd_looked_ns, tegra_looked_ns;
    size_t n_amd_cards;
    int amd_cards[UMA_AMD_CARDS_MAX]; /* numbers of sys/class/drm/cardN, ascending */
    bool tegra;
    char tegra_devfreq[128]; /* "sys/class/devfreq/17000000.gpu", "": none */
    char tegra_load[160];    /* the file with the load in tenths of a percent, "": none */
    int tegra_zone;          /* thermal zone of the GPU, -1: none */
};
/* GPUs come and go with drivers, not with seconds; a folder is looked at every time, which costs nothing that matters. */
#define UMA_GPU_LOOK_AGAIN 10.0
bool uma_gpu_look_again(const struct uma_gpu_reader *reader, int64_t looked_ns);

struct uma_gpu_vendor {
    const char *name;
    /* Start asking; returns at once. NULL: there is nothing to start. */
    void (*ask)(struct uma_gpu_reader *reader);
    /* This vendor's GPUs in the snapshot's arena, or n 0 and a source of UMA_ABSENT. */
    void (*collect)(struct uma_gpu_reader *reader, struct uma_snapshot *snapshot, struct uma_gpus *ret_gpus);
};

extern const struct uma_gpu_vendor uma_gpu_vendor_amd, uma_gpu_vendor_tegra;

/* A GPU about which nothing is known but that this vendor's kernel interface has no such fields. */
void uma_gpu_blank(struct uma_gpu *gpu, const char *vendor, int32_t index);

/* One "/proc/PID/fdinfo/N" of a DRM device (kernel, Documentation/gpu/drm-usage-stats.rst). */
struct uma_drm_client {
    char driver[32], pdev[32];
    struct uma_u64 id;  /* drm-client-id: the same one behind several descriptors is one client */
    struct uma_u64 gtt; /* bytes of drm-memory-gtt (amdgpu), else of drm-resident-gtt, which replaces it */
    struct uma_u64 compute_ns;
};
/* Pure; -ENOENT when this is not a DRM client. Lines that are not understood leave their field malformed or unknown. */
int uma_drm_fdinfo_parse(const char *text, size_t length, struct uma_drm_client *ret_client);

/*
 * The client list of Tegra's memory manager (sys/kernel/debug/nvmap/iovmm/clients): columns CLIENT PROCESS PID SIZE, sizes such as 1234K, a
 * "total" line at the end. Process names may hold spaces, so lines are read from their end. One entry for each pid, ascending. Pure.
 */
int uma_nvmap_clients_parse(const char *text, size_t length, struct uma_arena *arena, size_t *ret_n, struct uma_gpu_process **ret_list,
                            struct uma_error *err);
