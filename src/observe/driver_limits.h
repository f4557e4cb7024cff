/* SPDX-License-Identifier: MIT */
/*
 * driver_limits.h - asking the driver what it holds a cgroup v2 folder to (NVML's memory limits, driver r615 and newer). As all of NVML it is asked in a process of
 * its own, umactl-probe, for each question anew, with a deadline after which that process is killed. Reading is for anybody; setting is done by act/driver_limit.h,
 * through the same question.
 *
 * Sources: NVML API reference (nvmlSetMemoryLimits_v1_t, nvmlGetMemoryLimits_v1_t, change log of r615), NVIDIA's guide "MPS v3 Memory Partitioning",
 * NVIDIA/nvidia-container-toolkit#2075. Checked against these: names and layouts, bytes, the folder's full path below /sys/fs/cgroup as `nameSpace`, root for setting
 * and nobody in particular for reading, "no limit" as soft 0 and hard all ones, cgroup v2 only, no MIG. Not checked, for no such driver was at hand: all of it in
 * operation, and whether anything of it works where the GPU's memory is the machine's.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From good to worse, as for several GPUs the worst is what counts. */
enum uma_driver_limits_state {
    UMA_DRIVER_LIMITS_DONE,
    UMA_DRIVER_LIMITS_UNSET,       /* the driver has no limit for this folder, or does not know the folder */
    UMA_DRIVER_LIMITS_UNSUPPORTED, /* the GPU, or its driver as it is set up, holds none */
    UMA_DRIVER_LIMITS_DENIED,
    UMA_DRIVER_LIMITS_FAILED,
    UMA_DRIVER_LIMITS_NO_GPU,
    UMA_DRIVER_LIMITS_NO_SYMBOLS, /* a driver from before r615 */
    UMA_DRIVER_LIMITS_NO_DRIVER,
    UMA_DRIVER_LIMITS_NO_LIBRARY,
    UMA_DRIVER_LIMITS_HUNG,
    UMA_DRIVER_LIMITS_NO_PROBE, /* the process could not be started, or died */
};

#define UMA_DRIVER_LIMIT_NONE UINT64_MAX /* a hard limit that is not set */

struct uma_driver_limit {
    enum uma_driver_limits_state state;
    uint64_t soft, hard, used; /* bytes; of a setting: as it was before */
};
struct uma_driver_limits {
    enum uma_driver_limits_state state; /* of the question, or the worst of the GPUs */
    char detail[256];                   /* why; "" when it is DONE */
    char driver[80];                    /* its version, "" unknown */
    unsigned n;
    struct uma_driver_limit gpus[64 /* UMA_GPUS_MAX */];
};

struct uma_driver_limits_question {
    const char *library; /* NULL: the loader's search */
    const char *cgroup;  /* full path of the folder */
    bool set;            /* else only read */
    uint64_t soft_most, hard;
};

/* Seconds: loading and initialising NVML took 0.02 to 0.4 s where it was healthy, and a job waits for this. */
#define UMA_DRIVER_LIMITS_DEADLINE 5.0

/* Never fails: what went wrong is the state. */
void uma_driver_limits_ask(const struct uma_driver_limits_question *question, double deadline, struct uma_driver_limits *ret_limits);
/* The same for reading alone. */
void uma_driver_limits_read(const char *library, const char *cgroup, struct uma_driver_limits *ret_limits);

/* An answer of umactl-probe without its header. -EPROTO: it is not one. Pure. */
int uma_driver_limits_parse(const uint8_t *data, size_t length, struct uma_driver_limits *ret_limits);
/* "not-found", "unsupported", ...: what is told where the driver gave no text. */
const char *uma_driver_limits_word(enum uma_driver_limits_state state);
