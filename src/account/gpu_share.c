/* SPDX-License-Identifier: MIT */
#include "account/gpu_share.h"

#include "account/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A GPU this busy without a process in its list is used by someone the list does not show (NVML's is empty in a container that lacks
 * the host's PID namespace: sparkDash PR 10). A desktop's compositor stays below this.
 */
static const double BUSY_WITHOUT_PROCESSES = 0.2;

static bool vendor_is(const struct uma_gpu *gpu, const char *vendor) {
    return gpu->vendor && strcmp(gpu->vendor, vendor) == 0;
}

bool uma_gpu_in_pool(const struct uma_snapshot *snapshot, const struct uma_gpu *gpu) {
    if (gpu->unified != UMA_MAYBE)
        return gpu->unified == UMA_YES || gpu->numa_node > 0;
    if (gpu->numa_node > 0) /* node 0 is never a GPU's: the kernel boots from it */
        return true;
    return snapshot->platform.unified == UMA_YES;
}

static int by_pid(const void *a, const void *b) {
    const struct uma_gpu_holder *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return 0;
}

static void take_larger(struct uma_u64 *bytes, struct uma_u64 more) {
    if (uma_usable(more.validity) && uma_or(*bytes, 0) <= more.value)
        *bytes = more;
}

static void take_sum(struct uma_u64 *bytes, struct uma_u64 more) {
    if (uma_usable(more.validity))
        *bytes = (struct uma_u64){ uma_add(uma_or(*bytes, 0), more.value), more.validity };
}

/*
 * Entries of one process become one; returns how many are left. Within a GPU the larger counts (`take_larger`): a process that computes and
 * draws is in both of the driver's lists with the same figure. Between GPUs a process's shares add up (`take_sum`).
 */
static size_t merge(struct uma_gpu_holder *list, size_t n, void (*take)(struct uma_u64 *bytes, struct uma_u64 more)) {
    size_t kept = 0;
    qsort(list, n, sizeof(*list), by_pid);
    for (size_t i = 0; i < n; i++) {
        struct uma_gpu_holder *last = kept > 0 ? &list[kept - 1] : NULL;
        if (!last || last->pid != list[i].pid) {
            list[kept++] = list[i];
            continue;
        }
        last->compute |= list[i].compute;
        take(&last->bytes, list[i].bytes);
    }
    return kept;
}

static bool list_is_complete(const struct uma_snapshot *snapshot, const struct uma_gpu *gpu) {
    bool busy = uma_usable(gpu->utilization.validity) && gpu->utilization.value >= BUSY_WITHOUT_PROCESSES;
    return gpu->processes_validity == UMA_KNOWN && snapshot->platform.in_container != UMA_YES && !(gpu->n_processes == 0 && busy);
}

/* What a driver says of itself as a whole, where it does: the larger of that and its processes' sum is attributed. */
static uint64_t device_total(const struct uma_snapshot *snapshot, const struct uma_gpu *gpu) {
    if (vendor_is(gpu, "amd"))
        return uma_or(gpu->gtt_used, 0); /* VRAM of an APU is a carve-out before MemTotal */
    if (vendor_is(gpu, "tegra"))
        return uma_or(snapshot->meminfo.nvmap_mem_used, 0);
    return 0;
}

int uma_gpu_share_build(const struct uma_snapshot *snapshot, struct uma_arena *arena, struct uma_gpu_share *ret_share) {
    struct uma_gpu_share share = { .gtt_left = { .validity = UMA_ABSENT } };
    size_t room = 0, n_pool = 0, n_listed = 0, n_nvidia = 0, n_complete = 0;
    uint64_t device = 0, processes = 0;
    for (size_t i = 0; i < snapshot->gpus.n; i++)
        room += snapshot->gpus.list[i].n_processes;
    share.list = uma_arena_array(arena, room, sizeof(*share.list));
    if (!share.list)
        return -ENOMEM;
    for (size_t i = 0; i < snapshot->gpus.n; i++) {
        const struct uma_gpu *gpu = &snapshot->gpus.list[i];
        if (!uma_gpu_in_pool(snapshot, gpu))
            continue;
        size_t n = 0;
        for (size_t p = 0; p < gpu->n_processes; p++)
            share.list[share.n + n++] =
                (struct uma_gpu_holder){ gpu->processes[p].pid, gpu->processes[p].bytes, gpu->processes[p].compute };
        share.n += merge(share.list + share.n, n, take_larger);
        share.any = true;
        n_pool++;
        n_listed += list_is_complete(snapshot, gpu) ? 1 : 0;
        device = uma_add(device, device_total(snapshot, gpu));
        if (vendor_is(gpu, "nvidia")) {
            n_nvidia++;
            n_complete += list_is_complete(snapshot, gpu) ? 1 : 0;
        }
        if (vendor_is(gpu, "amd") && uma_usable(gpu->gtt_total.validity) && uma_usable(gpu->gtt_used.validity))
            share.gtt_left = uma_known_u64(uma_add(uma_or(share.gtt_left, 0), uma_sub(gpu->gtt_total.value, gpu->gtt_used.value)));
    }
    share.n = merge(share.list, share.n, take_sum);
    for (size_t i = 0; i < share.n; i++) {
        processes = uma_add(processes, uma_or(share.list[i].bytes, 0));
        share.compute_holds |= share.list[i].compute && uma_or(share.list[i].bytes, 1) > 0; /* unknown bytes may be many */
    }
    /* TTM's own count of system pages that GPU buffers hold (newest kernels), whichever GPU they are for, is pool memory too. */
    share.attributed = processes > device ? processes : device;
    if (uma_or(snapshot->meminfo.gpu_active, 0) > share.attributed)
        share.attributed = snapshot->meminfo.gpu_active.value;
    share.whole = share.attributed > processes;
    share.listed = n_pool > 0 && n_listed == n_pool;
    share.nvidia = n_nvidia > 0;
    share.complete = n_nvidia > 0 && n_complete == n_nvidia && snapshot->gpus.source.validity == UMA_KNOWN;
    *ret_share = share;
    return 0;
}

bool uma_nvidia_evident(const struct uma_snapshot *snapshot) {
    const struct uma_platform *p = &snapshot->platform;
    for (size_t i = 0; i < snapshot->gpus.n; i++)
        if (vendor_is(&snapshot->gpus.list[i], "nvidia") || vendor_is(&snapshot->gpus.list[i], "tegra"))
            return true;
    bool driver = p->driver && strncmp(p->driver, "amdgpu", 6) != 0; /* observe/platform.c names the two that there are */
    return driver || p->name == UMA_PLATFORM_DGX_SPARK || p->name == UMA_PLATFORM_GH200 || p->name == UMA_PLATFORM_JETSON;
}

const struct uma_gpu_holder *uma_gpu_share_find(const struct uma_gpu_share *share, int32_t pid) {
    const struct uma_gpu_holder key = { .pid = pid };
    return share->n > 0 ? bsearch(&key, share->list, share->n, sizeof(*share->list), by_pid) : NULL;
}
