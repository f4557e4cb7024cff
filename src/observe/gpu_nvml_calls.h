/* SPDX-License-Identifier: MIT */
/* gpu_nvml_calls.h - NVML's entry points as umactl-probe uses them, and the reading of one GPU through them. Part of umactl-probe only. */
#pragma once

#include "observe/gpu_probe_protocol.h"
#include "observe/nvml_abi.h"

#include <string.h>

/*
 * The entry points. X(member, parameters, newest name, older names ...): the first name that the library has is used. A member that stays
 * NULL is a field that this driver cannot answer.
 */
#define NVML_CALLS(X)                                                                                                                      \
    X(init, (void), "nvmlInit_v2", "nvmlInit")                                                                                             \
    X(shutdown, (void), "nvmlShutdown", NULL)                                                                                              \
    X(driver_version, (char *, unsigned), "nvmlSystemGetDriverVersion", NULL)                                                              \
    X(device_count, (unsigned *), "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")                                                           \
    X(device, (unsigned, nvml_device *), "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")                                    \
    X(name, (nvml_device, char *, unsigned), "nvmlDeviceGetName", NULL)                                                                    \
    X(uuid, (nvml_device, char *, unsigned), "nvmlDeviceGetUUID", NULL)                                                                    \
    X(pci_v3, (nvml_device, struct nvml_pci *), "nvmlDeviceGetPciInfo_v3", NULL)                                                           \
    X(pci, (nvml_device, struct nvml_pci *), "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")                                            \
    X(memory_v2, (nvml_device, struct nvml_memory_v2 *), "nvmlDeviceGetMemoryInfo_v2", NULL)                                               \
    X(memory, (nvml_device, struct nvml_memory *), "nvmlDeviceGetMemoryInfo", NULL)                                                        \
    X(memory_limits, (nvml_device, struct nvml_memory_limits *), "nvmlDeviceGetMemoryLimits_v1", NULL)                                     \
    X(set_memory_limits, (nvml_device, struct nvml_set_memory_limits *), "nvmlDeviceSetMemoryLimits_v1", NULL)                             \
    X(numa_node, (nvml_device, unsigned *), "nvmlDeviceGetNumaNodeId", NULL)                                                               \
    X(temperature, (nvml_device, unsigned, unsigned *), "nvmlDeviceGetTemperature", NULL)                                                  \
    X(margin, (nvml_device, struct nvml_margin_temperature *), "nvmlDeviceGetMarginTemperature", NULL)                                     \
    X(power, (nvml_device, unsigned *), "nvmlDeviceGetPowerUsage", NULL)                                                                   \
    X(power_limit, (nvml_device, unsigned *), "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit")                      \
    X(energy, (nvml_device, unsigned long long *), "nvmlDeviceGetTotalEnergyConsumption", NULL)                                            \
    X(clock, (nvml_device, unsigned, unsigned *), "nvmlDeviceGetClockInfo", NULL)                                                          \
    X(clock_max, (nvml_device, unsigned, unsigned *), "nvmlDeviceGetMaxClockInfo", NULL)                                                   \
    X(utilization, (nvml_device, struct nvml_utilization *), "nvmlDeviceGetUtilizationRates", NULL)                                        \
    X(pstate, (nvml_device, unsigned *), "nvmlDeviceGetPerformanceState", NULL)                                                            \
    X(reasons, (nvml_device, unsigned long long *), "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons") \
    X(fields, (nvml_device, int, struct nvml_field *), "nvmlDeviceGetFieldValues", NULL)

struct nvml_calls {
#define X(member, parameters, ...) int(*member) parameters;
    NVML_CALLS(X)
#undef X
};

/* What a status says about the field that was asked for. */
enum uma_validity nvml_validity(int status);
/* Everything but the processes. `cgroup`: folder of the reader's cgroup v2 for the memory limits, "" unknown. *gpu starts zeroed, numa_node
 * -1. */
void nvml_read_gpu(const struct nvml_calls *calls, nvml_device device, const char *cgroup, struct probe_gpu *gpu);
/* Ask, or set, what `ask` says of one GPU. */
void nvml_limits(const struct nvml_calls *calls, nvml_device device, const struct probe_limits_ask *ask, struct probe_limits *ret_limits);
/* A GPU whose handle is refused (lost from the bus, no permission) is listed, with the reason in every field. */
void nvml_read_nothing(int status, struct probe_gpu *gpu);

/* A cut copy, always terminated; NULL is "". */
static inline void nvml_copy_text(char *into, size_t size, const char *from) {
    size_t n = from ? strnlen(from, size - 1) : 0;
    (void)memcpy(into, from ? from : "", n);
    into[n] = '\0';
}
