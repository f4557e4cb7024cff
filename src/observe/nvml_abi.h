/* SPDX-License-Identifier: MIT */
/*
 * nvml_abi.h - the binary interface of libnvidia-ml.so.1, as far as umactl calls it: our own declarations, made from the layout facts of
 * NVIDIA's header (NVIDIA/go-nvml gen/nvml/nvml.h, API 13; NVML API reference). Used only inside umactl-probe and by the fake library of
 * the tests. Every entry point is found by dlsym, newest name first, because a driver may be older or newer than this list.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Status codes (an enum there, so an int in the ABI). Only those that mean something to a reader. */
enum {
    NVML_OK = 0,
    NVML_INVALID_ARGUMENT = 2, /* also the answer to a field id that the driver does not know */
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_LIBRARY_NOT_FOUND = 12,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_GPU_IS_LOST = 15,
    NVML_OPERATING_SYSTEM = 17, /* the device file is blocked, for example by the devices cgroup */
    NVML_LIB_RM_VERSION_MISMATCH = 18,
    NVML_NO_DATA = 21,
    NVML_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_DEPRECATED = 26,
    NVML_GPU_NOT_FOUND = 28,
};

typedef void *nvml_device; /* an opaque handle */

/* Buffer sizes that the interface documents as always enough. */
enum { NVML_NAME_BYTES = 96, NVML_UUID_BYTES = 96, NVML_DRIVER_BYTES = 80 };

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_PSTATE_LAST = 15, NVML_PSTATE_UNKNOWN = 32 };

/* Structures that carry a version expect their own size in the low bits and the number in the top byte. */
#define NVML_VERSIONED(type, number) ((unsigned)sizeof(type) | ((unsigned)(number) << 24))

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    unsigned version; /* NVML_VERSIONED(..., 2) */
    unsigned long long total, reserved, free, used;
};

/* `_v2` and `_v3` of the running-processes calls; the call without a suffix has only the first two. */
struct nvml_process_v1 {
    unsigned pid;
    unsigned long long bytes; /* all ones: not available */
};
struct nvml_process {
    unsigned pid;
    unsigned long long bytes; /* all ones: not available */
    unsigned gpu_instance, compute_instance;
};
#define NVML_BYTES_UNAVAILABLE (~0ull)

struct nvml_pci {
    char bus_id_legacy[16]; /* all that the calls before _v3 fill of the text form */
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct nvml_utilization {
    unsigned gpu, memory; /* percent */
};

struct nvml_margin_temperature {
    unsigned version; /* NVML_VERSIONED(..., 1) */
    int celsius;      /* degrees left until the GPU slows itself down */
};

union nvml_value {
    double d;
    int i;
    unsigned u;
    unsigned long ul;
    unsigned long long ull;
    long long ll;
    unsigned short us;
};
enum { NVML_TYPE_DOUBLE, NVML_TYPE_UNSIGNED, NVML_TYPE_ULONG, NVML_TYPE_ULONGLONG, NVML_TYPE_LONGLONG, NVML_TYPE_INT, NVML_TYPE_USHORT };

struct nvml_field {
    unsigned id, scope;
    long long timestamp_us, latency_us;
    unsigned type; /* NVML_TYPE_... */
    int result;    /* of this field alone: one call may succeed with some fields refused */
    union nvml_value value;
};
/* Field ids. The durations are nanoseconds since the driver was loaded, energy millijoules, power milliwatts. */
enum {
    NVML_FIELD_SW_POWER_CAP = 74,
    NVML_FIELD_SYNC_BOOST = 76,
    NVML_FIELD_TOTAL_ENERGY = 83,
    NVML_FIELD_POWER_AVERAGE = 185, /* over one second */
    NVML_FIELD_POWER_INSTANT = 186,
    NVML_FIELD_POWER_LIMIT = 190,
    NVML_FIELD_SW_THERMAL = 269,
    NVML_FIELD_HW_THERMAL = 270,
    NVML_FIELD_HW_POWER_BRAKE = 271,
};

/*
 * nvmlDeviceGetMemoryLimits_v1 (driver r615, CUDA 13.4): what the driver counts for one cgroup v2 folder. Layout of the NVML API reference
 * (nvmlGetMemoryLimits_v1_t), used by NVIDIA/nvidia-container-toolkit#2075: one pointer, three 64-bit numbers, no version. The prose of the
 * MPS guide names other members; the reference and the bindings agree with each other. Not seen on a GB10.
 */
struct nvml_memory_limits {
    const char *cgroup; /* in: "/sys/fs/cgroup/..." */
    unsigned long long soft, hard, used;
};
#define NVML_LIMIT_MAX (~0ull) /* hard limit that is not set */

/* nvmlDeviceSetMemoryLimits_v1 (nvmlSetMemoryLimits_v1_t of the same reference): for root, and not of a MIG device. */
struct nvml_set_memory_limits {
    const char *cgroup; /* "Full path to sysfs cgroup file name": the MPS guide's example and the container toolkit give the folder */
    unsigned long long soft, hard;
};

/* A wrong offset would be silent: the sizes of the 64-bit ABI, both x86-64 and aarch64. */
_Static_assert(sizeof(void *) != 8 || sizeof(struct nvml_memory_v2) == 40, "layout");
_Static_assert(sizeof(void *) != 8 || sizeof(struct nvml_process) == 24, "layout");
_Static_assert(sizeof(void *) != 8 || sizeof(struct nvml_process_v1) == 16, "layout");
_Static_assert(sizeof(struct nvml_pci) == 68 && offsetof(struct nvml_pci, bus_id) == 36, "layout");
_Static_assert(sizeof(void *) != 8 || (sizeof(struct nvml_field) == 40 && offsetof(struct nvml_field, value) == 32), "layout");
_Static_assert(sizeof(void *) != 8 || sizeof(struct nvml_memory_limits) == 32, "layout");
_Static_assert(sizeof(void *) != 8 || sizeof(struct nvml_set_memory_limits) == 24, "layout");
