/* SPDX-License-Identifier: MIT */
/* One GPU through NVML: each number with the status that the library gave for it. */
#include "observe/gpu_nvml_calls.h"

#include "base/cleanup.h"

#include <stdbool.h>
#include <string.h>

enum uma_validity nvml_validity(int status) {
    switch (status) {
    case NVML_OK:
        return UMA_KNOWN;
    case NVML_NOT_SUPPORTED:
    case NVML_INVALID_ARGUMENT:
    case NVML_ARGUMENT_VERSION_MISMATCH:
    case NVML_DEPRECATED:
        return UMA_UNSUPPORTED;
    case NVML_NO_PERMISSION:
    case NVML_OPERATING_SYSTEM:
        return UMA_DENIED;
    case NVML_FUNCTION_NOT_FOUND:
    case NVML_NOT_FOUND:
        return UMA_ABSENT;
    case NVML_NO_DATA:
        return UMA_UNKNOWN;
    default:
        return UMA_FAILED;
    }
}

static void set(struct probe_gpu *gpu, int number, int status, uint64_t bits) {
    enum uma_validity validity = nvml_validity(status);
    gpu->numbers[number] = (struct probe_value){ .bits = validity == UMA_KNOWN ? bits : 0, .validity = validity };
}

static void read_identity(const struct nvml_calls *calls, nvml_device device, struct probe_gpu *gpu) {
    /* each is written into memory of its own, larger than what is promised: a longer text must not spill into the next field */
    char text[256] = { 0 };
    if (calls->name && calls->name(device, text, NVML_NAME_BYTES) == NVML_OK)
        nvml_copy_text(gpu->name, sizeof(gpu->name), text);
    (void)memset(text, 0, sizeof(text));
    if (calls->uuid && calls->uuid(device, text, NVML_UUID_BYTES) == NVML_OK)
        nvml_copy_text(gpu->uuid, sizeof(gpu->uuid), text);
    struct nvml_pci pci = { 0 };
    if (calls->pci_v3 && calls->pci_v3(device, &pci) == NVML_OK)
        (void)memcpy(gpu->pci, pci.bus_id, sizeof(gpu->pci) - 1);
    else if (calls->pci && calls->pci(device, &pci) == NVML_OK)
        (void)memcpy(gpu->pci, pci.bus_id_legacy, sizeof(pci.bus_id_legacy) - 1);
    unsigned node = 0;
    if (calls->numa_node && calls->numa_node(device, &node) == NVML_OK && node <= INT16_MAX) {
        gpu->numa_node = (int32_t)node;
        gpu->unified = UMA_NO; /* its memory is a node of its own */
    }
}

static void read_memory(const struct nvml_calls *calls, nvml_device device, const char *cgroup, struct probe_gpu *gpu) {
    struct nvml_memory_v2 v2 = { .version = NVML_VERSIONED(struct nvml_memory_v2, 2) };
    struct nvml_memory v1 = { 0 };
    int status = calls->memory_v2 ? calls->memory_v2(device, &v2) : NVML_FUNCTION_NOT_FOUND;
    if (status == NVML_OK) {
        v1 = (struct nvml_memory){ .total = v2.total, .free = v2.free, .used = v2.used };
    } else if (calls->memory) {
        v1 = (struct nvml_memory){ 0 };
        status = calls->memory(device, &v1);
    }
    set(gpu, PROBE_MEMORY_TOTAL, status, v1.total);
    set(gpu, PROBE_MEMORY_USED, status, v1.used);
    set(gpu, PROBE_MEMORY_FREE, status, v1.free);
    /* NVML API reference, nvmlDeviceGetMemoryInfo: an SoC's integrated GPU without a framebuffer of its own answers "not supported" */
    if (status == NVML_NOT_SUPPORTED && gpu->unified == UMA_MAYBE)
        gpu->unified = UMA_YES;

    struct nvml_memory_limits limits = { .cgroup = cgroup };
    status = NVML_FUNCTION_NOT_FOUND;
    if (calls->memory_limits)
        status = cgroup[0] ? calls->memory_limits(device, &limits) : NVML_NOT_FOUND;
    set(gpu, PROBE_CONTAINER_USED, status, limits.used);
    set(gpu, PROBE_CONTAINER_LIMIT, status, limits.hard);
    if (status == NVML_OK && limits.hard == NVML_LIMIT_MAX)
        gpu->numbers[PROBE_CONTAINER_LIMIT] = (struct probe_value){ .validity = UMA_UNLIMITED };
}

/* A second source for a number: its answer counts when it has one, and its reason where the first source had none of its own. */
static void set_otherwise(struct probe_gpu *gpu, int number, int status, uint64_t bits) {
    enum uma_validity first = (enum uma_validity)gpu->numbers[number].validity;
    if (status == NVML_OK || first == UMA_UNKNOWN || (first == UMA_ABSENT && status != NVML_FUNCTION_NOT_FOUND))
        set(gpu, number, status, bits);
}

/* Does nothing when the number is already known: the callers go from the better source to the worse one. */
static void read_unsigned(int (*call)(nvml_device, unsigned *), nvml_device device, struct probe_gpu *gpu, int number) {
    if (gpu->numbers[number].validity == UMA_KNOWN)
        return;
    unsigned value = 0;
    int status = call ? call(device, &value) : NVML_FUNCTION_NOT_FOUND;
    set_otherwise(gpu, number, status, value);
}

static void read_indexed(int (*call)(nvml_device, unsigned, unsigned *), nvml_device device, unsigned index, struct probe_gpu *gpu,
                         int number) {
    unsigned value = 0;
    int status = call ? call(device, index, &value) : NVML_FUNCTION_NOT_FOUND;
    set(gpu, number, status, value);
}

/* A field's value as an unsigned number; a type or a sign that it cannot have is malformed. */
static struct probe_value value_of(const struct nvml_field *field) {
    enum uma_validity validity = nvml_validity(field->result);
    if (validity != UMA_KNOWN)
        return (struct probe_value){ .validity = validity };
    bool negative = false;
    uint64_t bits = 0;
    switch (field->type) {
    case NVML_TYPE_DOUBLE:
        negative = !(field->value.d >= 0 && field->value.d < 18446744073709551616.0); /* also NaN */
        bits = negative ? 0 : (uint64_t)field->value.d;
        break;
    case NVML_TYPE_UNSIGNED:
        bits = field->value.u;
        break;
    case NVML_TYPE_ULONG:
        bits = field->value.ul;
        break;
    case NVML_TYPE_ULONGLONG:
        bits = field->value.ull;
        break;
    case NVML_TYPE_LONGLONG:
        negative = field->value.ll < 0;
        bits = (uint64_t)field->value.ll;
        break;
    case NVML_TYPE_INT:
        negative = field->value.i < 0;
        bits = (uint64_t)field->value.i;
        break;
    case NVML_TYPE_USHORT:
        bits = field->value.us;
        break;
    default:
        negative = true;
    }
    return negative ? (struct probe_value){ .validity = UMA_MALFORMED } : (struct probe_value){ .bits = bits, .validity = UMA_KNOWN };
}

static void read_fields(const struct nvml_calls *calls, nvml_device device, struct probe_gpu *gpu) {
    static const struct {
        unsigned id;
        int number;
    } wanted[] = {
        { NVML_FIELD_SW_POWER_CAP, PROBE_THROTTLE + UMA_THROTTLE_SW_POWER_CAP },
        { NVML_FIELD_SYNC_BOOST, PROBE_THROTTLE + UMA_THROTTLE_SYNC_BOOST },
        { NVML_FIELD_SW_THERMAL, PROBE_THROTTLE + UMA_THROTTLE_SW_THERMAL },
        { NVML_FIELD_HW_THERMAL, PROBE_THROTTLE + UMA_THROTTLE_HW_THERMAL },
        { NVML_FIELD_HW_POWER_BRAKE, PROBE_THROTTLE + UMA_THROTTLE_HW_POWER_BRAKE },
        { NVML_FIELD_POWER_AVERAGE, PROBE_POWER },
        { NVML_FIELD_POWER_INSTANT, PROBE_POWER_INSTANT },
        { NVML_FIELD_POWER_LIMIT, PROBE_POWER_LIMIT },
        { NVML_FIELD_TOTAL_ENERGY, PROBE_ENERGY },
    };
    struct nvml_field fields[ELEMENTS(wanted)] = { 0 };
    /* `result` starts as "no data", so that a field which the library never touched is not taken for an answer */
    for (size_t i = 0; i < ELEMENTS(wanted); i++)
        fields[i] = (struct nvml_field){ .id = wanted[i].id, .result = NVML_NO_DATA };
    int status = calls->fields ? calls->fields(device, (int)ELEMENTS(fields), fields) : NVML_FUNCTION_NOT_FOUND;
    for (size_t i = 0; i < ELEMENTS(wanted); i++) {
        if (status == NVML_OK)
            gpu->numbers[wanted[i].number] = value_of(&fields[i]);
        else
            set(gpu, wanted[i].number, status, 0);
    }
}

static void read_heat(const struct nvml_calls *calls, nvml_device device, struct probe_gpu *gpu) {
    read_indexed(calls->temperature, device, NVML_TEMPERATURE_GPU, gpu, PROBE_CELSIUS);
    struct nvml_margin_temperature margin = { .version = NVML_VERSIONED(struct nvml_margin_temperature, 1) };
    int status = calls->margin ? calls->margin(device, &margin) : NVML_FUNCTION_NOT_FOUND;
    set(gpu, PROBE_LIMIT_MARGIN, status, (uint64_t)(int64_t)margin.celsius);

    read_fields(calls, device, gpu);
    read_unsigned(calls->power, device, gpu, PROBE_POWER); /* the same one-second average since Ampere */
    read_unsigned(calls->power_limit, device, gpu, PROBE_POWER_LIMIT);
    if (gpu->numbers[PROBE_ENERGY].validity != UMA_KNOWN && calls->energy) {
        unsigned long long millijoules = 0;
        status = calls->energy(device, &millijoules);
        set_otherwise(gpu, PROBE_ENERGY, status, millijoules);
    }

    read_indexed(calls->clock, device, NVML_CLOCK_SM, gpu, PROBE_SM_CLOCK);
    read_indexed(calls->clock_max, device, NVML_CLOCK_SM, gpu, PROBE_SM_CLOCK_MAX);
    read_indexed(calls->clock, device, NVML_CLOCK_MEMORY, gpu, PROBE_MEMORY_CLOCK);
    struct nvml_utilization utilization = { 0 };
    status = calls->utilization ? calls->utilization(device, &utilization) : NVML_FUNCTION_NOT_FOUND;
    set(gpu, PROBE_UTILIZATION, status, utilization.gpu);
    set(gpu, PROBE_MEMORY_UTILIZATION, status, utilization.memory);
    read_unsigned(calls->pstate, device, gpu, PROBE_PSTATE);
    unsigned long long reasons = 0;
    status = calls->reasons ? calls->reasons(device, &reasons) : NVML_FUNCTION_NOT_FOUND;
    set(gpu, PROBE_REASONS, status, reasons);
}

void nvml_read_gpu(const struct nvml_calls *calls, nvml_device device, const char *cgroup, struct probe_gpu *gpu) {
    read_identity(calls, device, gpu);
    read_memory(calls, device, cgroup, gpu);
    read_heat(calls, device, gpu);
}

void nvml_read_nothing(int status, struct probe_gpu *gpu) {
    for (int i = 0; i < PROBE_NUMBERS; i++)
        set(gpu, i, status, 0);
    gpu->processes_validity = nvml_validity(status);
}
