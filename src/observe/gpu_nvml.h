/* SPDX-License-Identifier: MIT */
/*
 * gpu_nvml.h - asking NVML. Part of umactl-probe only: any call here may block for minutes or crash, and nothing outside that process may
 * make one (NVML blocked 491 to 737 s on GB10: MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks#23; in D state:
 * NVIDIA/open-gpu-kernel-modules#1333).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct nvml_library;

/* `path`: the library to load, or NULL for the loader's search. Nothing is loaded yet. NULL: out of memory. */
struct nvml_library *nvml_library_new(const char *path);

/*
 * One answer in the form of gpu_probe_protocol.h (without the header), in memory that belongs to the library object and is valid until the
 * next call. Loads and initialises NVML when that has not succeeded yet, so that a driver that comes later is found. NULL: out of memory.
 */
const uint8_t *nvml_library_answer(struct nvml_library *library, size_t *ret_length);

struct probe_limits_ask;
/* The same for the question about the limits of a cgroup. PROBE_NO_SYMBOLS: a driver from before r615. */
const uint8_t *nvml_library_limits(struct nvml_library *library, const struct probe_limits_ask *ask, size_t *ret_length);
