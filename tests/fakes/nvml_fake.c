/* SPDX-License-Identifier: MIT */
/*
 * A libnvidia-ml.so.1 without a GPU: the real entry points with the real ABI, answering from a scenario file (scenarios/README). With
 * FAKE_OLD only the entry points that a driver of about 2012 had, so that the fallbacks of the probe are really taken.
 */
#include "limits.h"
#include "nvml_scenario.h"

#include "observe/nvml_abi.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static const struct fake_scenario *scenario;
static int gpu_tokens[FAKE_GPUS_MAX]; /* a device handle is the address of one of these */

static int index_of(nvml_device device) {
    const int *token = device;
    return token >= gpu_tokens && token < gpu_tokens + FAKE_GPUS_MAX ? (int)(token - gpu_tokens) : -1;
}

static const struct fake_gpu *gpu_of(nvml_device device) {
    int i = index_of(device);
    return scenario && i >= 0 && i < (int)scenario->n_gpus ? &scenario->gpus[i] : NULL;
}

/* "nvmlDeviceGetMemoryInfo" is about nvmlDeviceGetMemoryInfo_v2 too; with a suffix only about that one. */
static bool names(const char *rule, const char *symbol) {
    size_t n = strlen(rule);
    return strncmp(rule, symbol, n) == 0 && (symbol[n] == '\0' || (symbol[n] == '_' && symbol[n + 1] == 'v'));
}

/* What the scenario wants of this call: its status, or -1 when it shall answer normally. */
static int obey(const char *symbol, int gpu) {
    if (!scenario)
        scenario = fake_scenario_now();
    for (size_t i = 0; i < scenario->n_rules; i++) {
        const struct fake_rule *rule = &scenario->rules[i];
        if ((rule->gpu >= 0 && rule->gpu != gpu) || !names(rule->symbol, symbol))
            continue;
        switch (rule->action) {
        case FAKE_RETURN:
            return rule->code;
        case FAKE_DELAY: {
            struct timespec left = { .tv_sec = (time_t)rule->seconds };
            left.tv_nsec = (long)((rule->seconds - (double)left.tv_sec) * 1e9);
            (void)nanosleep(&left, NULL);
            break;
        }
        case FAKE_HANG:
            for (;;)
                (void)pause();
        case FAKE_CRASH:
            (void)raise(SIGSEGV);
        }
    }
    return -1;
}

#define OBEY(gpu)                                                                                                                          \
    do {                                                                                                                                   \
        int wanted_ = obey(__func__, gpu);                                                                                                 \
        if (wanted_ >= 0)                                                                                                                  \
            return wanted_;                                                                                                                \
    } while (0)
#define DEVICE(gpu)                                                                                                                        \
    OBEY(index_of(device));                                                                                                                \
    const struct fake_gpu *gpu = gpu_of(device);                                                                                           \
    if (!gpu)                                                                                                                              \
        return NVML_INVALID_ARGUMENT;

/* ---- the library -------------------------------------------------------------------------------------------- */

EXPORT int nvmlInit(void);
EXPORT int nvmlInit(void) {
    (void)fake_age();
    OBEY(-1);
    return NVML_OK;
}

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void) {
    OBEY(-1);
    return NVML_OK;
}

EXPORT const char *nvmlErrorString(int code);
EXPORT const char *nvmlErrorString(int code) {
    switch (code) {
    case NVML_OK:
        return "Success";
    case NVML_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_NO_PERMISSION:
        return "Insufficient Permissions";
    case NVML_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_LIB_RM_VERSION_MISMATCH:
        return "Driver/library version mismatch";
    case NVML_GPU_IS_LOST:
        return "GPU is lost";
    default:
        return "Unknown Error";
    }
}

static int put_text(const char *text, char *into, unsigned size) {
    if (strlen(text) >= size)
        return NVML_INSUFFICIENT_SIZE;
    (void)strcpy(into, text);
    return NVML_OK;
}

EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned size);
EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    OBEY(-1);
    return put_text(scenario->driver, version, size);
}

static int count(unsigned *ret) {
    scenario = fake_scenario_now(); /* it may have been rewritten, and time has passed */
    fake_asks++;
    *ret = scenario->has_count ? scenario->count : (unsigned)scenario->n_gpus;
    return NVML_OK;
}

EXPORT int nvmlDeviceGetCount(unsigned *ret);
EXPORT int nvmlDeviceGetCount(unsigned *ret) {
    OBEY(-1);
    return count(ret);
}

static int handle(unsigned index, nvml_device *ret) {
    if (index >= scenario->n_gpus)
        return NVML_INVALID_ARGUMENT;
    *ret = &gpu_tokens[index];
    return NVML_OK;
}

EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *ret);
EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *ret) {
    OBEY((int)index);
    return handle(index, ret);
}

/* ---- one GPU: what every driver has ------------------------------------------------------------------------- */

EXPORT int nvmlDeviceGetName(nvml_device device, char *name, unsigned size);
EXPORT int nvmlDeviceGetName(nvml_device device, char *name, unsigned size) {
    DEVICE(gpu)
    return put_text(gpu->name, name, size);
}

EXPORT int nvmlDeviceGetUUID(nvml_device device, char *uuid, unsigned size);
EXPORT int nvmlDeviceGetUUID(nvml_device device, char *uuid, unsigned size) {
    DEVICE(gpu)
    return put_text(gpu->uuid, uuid, size);
}

/* The short form of the PCI name ("0000:01:00.0") is the last 12 characters of the long one ("00000000:01:00.0"). */
EXPORT int nvmlDeviceGetPciInfo(nvml_device device, struct nvml_pci *pci);
EXPORT int nvmlDeviceGetPciInfo(nvml_device device, struct nvml_pci *pci) {
    DEVICE(gpu)
    size_t n = strlen(gpu->pci);
    (void)memset(pci, 0, offsetof(struct nvml_pci, bus_id));
    (void)snprintf(pci->bus_id_legacy, sizeof(pci->bus_id_legacy), "%.15s", n > 12 ? gpu->pci + n - 12 : gpu->pci);
    return NVML_OK;
}

EXPORT int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory);
EXPORT int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory) {
    DEVICE(gpu)
    if (!gpu->has_memory)
        return NVML_NOT_SUPPORTED;
    *memory = (struct nvml_memory){ .total = gpu->memory[0], .used = gpu->memory[1], .free = gpu->memory[2] };
    return NVML_OK;
}

#define NUMBER(member)                                                                                                                     \
    if (!gpu->member.given)                                                                                                                \
        return NVML_NOT_SUPPORTED;                                                                                                         \
    *ret = (__typeof__(*ret))gpu->member.value;                                                                                            \
    return NVML_OK;

EXPORT int nvmlDeviceGetTemperature(nvml_device device, unsigned sensor, unsigned *ret);
EXPORT int nvmlDeviceGetTemperature(nvml_device device, unsigned sensor, unsigned *ret) {
    DEVICE(gpu)
    if (sensor != NVML_TEMPERATURE_GPU)
        return NVML_INVALID_ARGUMENT;
    NUMBER(celsius)
}

EXPORT int nvmlDeviceGetPowerUsage(nvml_device device, unsigned *ret);
EXPORT int nvmlDeviceGetPowerUsage(nvml_device device, unsigned *ret){ DEVICE(gpu) NUMBER(power) }

EXPORT int nvmlDeviceGetPowerManagementLimit(nvml_device device, unsigned *ret);
EXPORT int nvmlDeviceGetPowerManagementLimit(nvml_device device, unsigned *ret){ DEVICE(gpu) NUMBER(power_limit) }

EXPORT int nvmlDeviceGetClockInfo(nvml_device device, unsigned clock, unsigned *ret);
EXPORT int nvmlDeviceGetClockInfo(nvml_device device, unsigned clock, unsigned *ret) {
    DEVICE(gpu)
    if (clock == NVML_CLOCK_MEMORY) {
        NUMBER(memory_clock)
    }
    NUMBER(sm_clock)
}

EXPORT int nvmlDeviceGetMaxClockInfo(nvml_device device, unsigned clock, unsigned *ret);
EXPORT int nvmlDeviceGetMaxClockInfo(nvml_device device, unsigned clock, unsigned *ret) {
    DEVICE(gpu)
    if (clock != NVML_CLOCK_SM)
        return NVML_NOT_SUPPORTED;
    NUMBER(sm_clock_max)
}

EXPORT int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *ret);
EXPORT int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *ret) {
    DEVICE(gpu)
    if (!gpu->utilization.given)
        return NVML_NOT_SUPPORTED;
    *ret = (struct nvml_utilization){ (unsigned)gpu->utilization.value, (unsigned)gpu->memory_utilization.value };
    return NVML_OK;
}

EXPORT int nvmlDeviceGetPerformanceState(nvml_device device, unsigned *ret);
EXPORT int nvmlDeviceGetPerformanceState(nvml_device device, unsigned *ret){ DEVICE(gpu) NUMBER(pstate) }

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device device, unsigned long long *ret);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device device, unsigned long long *ret) {
    DEVICE(gpu)
    NUMBER(reasons)
}

/* ---- processes ---------------------------------------------------------------------------------------------- */

/* `old`: entries of 16 bytes instead of 24. */
static int list_processes(const struct fake_gpu *gpu, bool graphics, bool old, unsigned *count_in_out, void *list) {
    unsigned n = 0, room = *count_in_out, wanted = graphics ? 0 : gpu->more_processes;
    for (size_t i = 0; i < gpu->n_processes; i++)
        wanted += gpu->processes[i].graphics == graphics;
    if (wanted > room) {
        *count_in_out = wanted;
        return NVML_INSUFFICIENT_SIZE;
    }
    for (size_t i = 0; i < gpu->n_processes + (graphics ? 0 : gpu->more_processes); i++) {
        bool listed = i < gpu->n_processes;
        if (listed && gpu->processes[i].graphics != graphics)
            continue;
        unsigned pid = listed ? gpu->processes[i].pid : (unsigned)(100000 + i - gpu->n_processes);
        unsigned long long bytes = listed ? gpu->processes[i].bytes : 1048576;
        if (old)
            ((struct nvml_process_v1 *)list)[n] = (struct nvml_process_v1){ pid, bytes };
        else
            ((struct nvml_process *)list)[n] = (struct nvml_process){ pid, bytes, ~0u, ~0u };
        n++;
    }
    *count_in_out = gpu->has_claim ? gpu->claim : n;
    return NVML_OK;
}

#define PROCESSES(symbol, graphics, old)                                                                                                   \
    EXPORT int symbol(nvml_device device, unsigned *n, void *list);                                                                        \
    EXPORT int symbol(nvml_device device, unsigned *n, void *list) {                                                                       \
        DEVICE(gpu)                                                                                                                        \
        return list_processes(gpu, graphics, old, n, list);                                                                                \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, false, true)

/* ---- what came later ---------------------------------------------------------------------------------------- */
#ifndef FAKE_OLD

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void) {
    (void)fake_age();
    OBEY(-1);
    return NVML_OK;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *ret);
EXPORT int nvmlDeviceGetCount_v2(unsigned *ret) {
    OBEY(-1);
    return count(ret);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *ret);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *ret) {
    OBEY((int)index);
    return handle(index, ret);
}

EXPORT int nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci *pci);
EXPORT int nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci *pci) {
    DEVICE(gpu)
    *pci = (struct nvml_pci){ 0 };
    (void)memcpy(pci->bus_id, gpu->pci, sizeof(pci->bus_id));
    return NVML_OK;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct nvml_memory_v2 *memory);
EXPORT int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct nvml_memory_v2 *memory) {
    DEVICE(gpu)
    if (memory->version != NVML_VERSIONED(struct nvml_memory_v2, 2))
        return NVML_ARGUMENT_VERSION_MISMATCH;
    if (!gpu->has_memory)
        return NVML_NOT_SUPPORTED;
    *memory = (struct nvml_memory_v2){ memory->version, gpu->memory[0], 0, gpu->memory[2], gpu->memory[1] };
    return NVML_OK;
}

#ifndef FAKE_R580
EXPORT int nvmlDeviceGetMemoryLimits_v1(nvml_device device, struct nvml_memory_limits *limits);
EXPORT int nvmlDeviceGetMemoryLimits_v1(nvml_device device, struct nvml_memory_limits *limits) {
    DEVICE(gpu)
    if (!limits->cgroup || strncmp(limits->cgroup, "/sys/fs/cgroup", 14) != 0)
        return NVML_INVALID_ARGUMENT;
    if (scenario->limits_file[0])
        return fake_limits_get(scenario->limits_file, index_of(device), limits->cgroup, &limits->soft, &limits->hard, &limits->used)
                   ? NVML_OK
                   : NVML_NOT_FOUND;
    if (!gpu->has_limits)
        return NVML_NOT_FOUND;
    limits->soft = gpu->limits[0];
    limits->hard = gpu->limits[1];
    limits->used = gpu->limits[2];
    return NVML_OK;
}

EXPORT int nvmlDeviceSetMemoryLimits_v1(nvml_device device, struct nvml_set_memory_limits *limits);
EXPORT int nvmlDeviceSetMemoryLimits_v1(nvml_device device, struct nvml_set_memory_limits *limits) {
    DEVICE(gpu)
    if (geteuid() != 0)
        return NVML_NO_PERMISSION;
    if (!limits->cgroup || strncmp(limits->cgroup, "/sys/fs/cgroup/", 15) != 0 || limits->soft > limits->hard)
        return NVML_INVALID_ARGUMENT;
    if (!scenario->limits_file[0])
        return NVML_NOT_SUPPORTED;
    if (access(limits->cgroup, F_OK) != 0)
        return NVML_NOT_FOUND;
    if (!scenario->limits_ignored)
        fake_limits_set(scenario->limits_file, index_of(device), limits->cgroup, limits->soft, limits->hard, scenario->limits_dmem);
    return NVML_OK;
}
#endif

EXPORT int nvmlDeviceGetNumaNodeId(nvml_device device, unsigned *ret);
EXPORT int nvmlDeviceGetNumaNodeId(nvml_device device, unsigned *ret){ DEVICE(gpu) NUMBER(numa) }

EXPORT int nvmlDeviceGetMarginTemperature(nvml_device device, struct nvml_margin_temperature *margin);
EXPORT int nvmlDeviceGetMarginTemperature(nvml_device device, struct nvml_margin_temperature *margin) {
    DEVICE(gpu)
    if (margin->version != NVML_VERSIONED(struct nvml_margin_temperature, 1))
        return NVML_ARGUMENT_VERSION_MISMATCH;
    int *ret = &margin->celsius;
    NUMBER(margin)
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(nvml_device device, unsigned *ret);
EXPORT int nvmlDeviceGetEnforcedPowerLimit(nvml_device device, unsigned *ret){ DEVICE(gpu) NUMBER(power_limit) }

EXPORT int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, unsigned long long *ret);
EXPORT int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, unsigned long long *ret){ DEVICE(gpu) NUMBER(energy) }

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(nvml_device device, unsigned long long *ret);
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(nvml_device device, unsigned long long *ret) {
    DEVICE(gpu)
    NUMBER(reasons)
}

static void answer_field(const struct fake_field *from, struct nvml_field *field) {
    double age = fake_age(), asks = (double)fake_asks, number = from->number;
    if (scenario->reset > 0 && age >= scenario->reset) { /* the driver was loaded again: counters begin anew */
        number = 0;
        age -= scenario->reset;
        asks = 0;
    }
    number += from->per_second * age + from->per_ask * asks;
    field->result = from->code;
    field->type = from->type;
    field->value.ull = 0;
    switch (from->type) {
    case NVML_TYPE_DOUBLE:
        field->value.d = number;
        break;
    case NVML_TYPE_UNSIGNED:
        field->value.u = (unsigned)number;
        break;
    case NVML_TYPE_LONGLONG:
        field->value.ll = (long long)number;
        break;
    case NVML_TYPE_INT:
        field->value.i = (int)number;
        break;
    case NVML_TYPE_USHORT:
        field->value.us = (unsigned short)number;
        break;
    default:
        field->value.ull = number < 18446744073709551615.0 ? (unsigned long long)number : ~0ull;
    }
}

EXPORT int nvmlDeviceGetFieldValues(nvml_device device, int n, struct nvml_field *fields);
EXPORT int nvmlDeviceGetFieldValues(nvml_device device, int n, struct nvml_field *fields) {
    DEVICE(gpu)
    for (int i = 0; i < n; i++) {
        fields[i].result = NVML_NOT_SUPPORTED;
        for (size_t j = 0; j < gpu->n_fields; j++)
            if (gpu->fields[j].id == fields[i].id)
                answer_field(&gpu->fields[j], &fields[i]);
    }
    return NVML_OK;
}

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, false, false)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, false, false)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, true, false)

#endif
