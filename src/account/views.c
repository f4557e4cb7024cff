/* SPDX-License-Identifier: MIT */
#include "account/views.h"

#include "account/values.h"
#include "base/text.h"
#include "base/units.h"

#include <errno.h>
#include <string.h>

static const struct uma_gpu *first_nvidia(const struct uma_snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->gpus.n; i++) {
        const struct uma_gpu *gpu = &snapshot->gpus.list[i];
        if (gpu->vendor && (strcmp(gpu->vendor, "nvidia") == 0 || strcmp(gpu->vendor, "tegra") == 0))
            return gpu;
    }
    return NULL;
}

/*
 * On GB10 the CUDA call's free is MemFree, to the byte (unsloth PR 10704: 41.52 and 41.52 GiB with 115.65 available): page cache counts
 * as used. So it is wherever no GPU is known to have memory of its own (a driver that hangs does not change what CUDA would say); one
 * that has, GH200's included, reports that.
 */
static struct uma_u64 cuda_free(const struct uma_snapshot *snapshot, const struct uma_gpu *gpu) {
    if (!gpu)
        return snapshot->meminfo.mem_free;
    enum uma_truth unified = gpu->unified != UMA_MAYBE ? gpu->unified : snapshot->platform.unified;
    return unified == UMA_NO || gpu->numa_node > 0 ? gpu->memory_free : snapshot->meminfo.mem_free;
}

int uma_views_build(const struct uma_snapshot *snapshot, struct uma_arena *arena, struct uma_views *ret_views) {
    const struct uma_gpu *gpu = first_nvidia(snapshot);
    struct uma_views v = { .nvidia_smi = gpu ? gpu->memory_free : uma_no_u64(UMA_ABSENT),
                           .cuda_mem_get_info = cuda_free(snapshot, gpu),
                           .free_free = snapshot->meminfo.mem_free,
                           .free_available = snapshot->meminfo.mem_available };
    if (uma_usable(v.nvidia_smi.validity)) {
        _cleanup_text_ struct uma_text text = { 0 };
        uma_text_bytes(&text, v.nvidia_smi.value);
        v.nvidia_smi_text = text.failed ? NULL : uma_arena_strndup(arena, text.data, text.length);
        if (!v.nvidia_smi_text)
            return -ENOMEM;
    } else if (v.nvidia_smi.validity == UMA_UNSUPPORTED) {
        v.nvidia_smi_text = "[N/A]"; /* what it prints for NVML_ERROR_NOT_SUPPORTED: the usual answer of a GB10 */
    }
    *ret_views = v;
    return 0;
}
