/* SPDX-License-Identifier: MIT */
/* The driver's memory limits of a cgroup v2 folder, for one GPU. Part of umactl-probe only. */
#include "base/cleanup.h"
#include "observe/gpu_nvml_calls.h"

static void set(const struct nvml_calls *calls, nvml_device device, const struct probe_limits_ask *ask, struct probe_limits *limits) {
    struct nvml_set_memory_limits to = { .cgroup = ask->cgroup, .soft = MIN_OF(limits->soft, ask->soft_most), .hard = limits->hard };
    limits->status = NVML_OK;
    /*
     * A soft limit was added to all groups above, and only a call takes it back from them; removing the group does not (MPS guide, "Ancestor
     * reservation propagation"). It goes first, so that it is gone even when the rest is refused.
     */
    if (to.soft < limits->soft)
        limits->status = calls->set_memory_limits(device, &to);
    to.hard = ask->hard;
    if (limits->status == NVML_OK)
        limits->status = calls->set_memory_limits(device, &to);
}

void nvml_limits(const struct nvml_calls *calls, nvml_device device, const struct probe_limits_ask *ask, struct probe_limits *ret_limits) {
    struct nvml_memory_limits now = { .cgroup = ask->cgroup };
    int status = calls->memory_limits(device, &now);
    *ret_limits = (struct probe_limits){ .status = status, .hard = NVML_LIMIT_MAX };
    if (status == NVML_OK) {
        ret_limits->soft = now.soft;
        ret_limits->hard = now.hard;
        ret_limits->used = now.used;
    }
    /* what a group that never had a limit answers differs by driver ("not found" is documented), so a refused reading is no reason not to set */
    if (ask->action == PROBE_LIMITS_SET)
        set(calls, device, ask, ret_limits);
}
