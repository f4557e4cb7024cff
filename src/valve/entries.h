/* SPDX-License-Identifier: MIT */
/*
 * entries.h - the entry points of the driver and of NVML that the valve stands before, under the names that the libraries export, and as cuGetProcAddress is asked for them: a name without suffix and the CUDA version
 * that the caller was built for, of which the newest form that is not newer is meant (CUDA Driver API, cuGetProcAddress; cudaTypedefs.h has the versions). All others pass untouched, as do
 * forms before CUDA 3.2, whose sizes have 32 bits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* X(exported name, name without suffix, CUDA version since, P: of the per-thread default stream) */
#define UMA_VALVE_ENTRIES(X)                                                                                                               \
    X(cuGetProcAddress, cuGetProcAddress, 11030, false)                                                                                    \
    X(cuGetProcAddress_v2, cuGetProcAddress, 12000, false)                                                                                 \
    X(cuMemAlloc_v2, cuMemAlloc, 3020, false)                                                                                              \
    X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, false)                                                                                    \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000, false)                                                                                   \
    X(cuMemFree_v2, cuMemFree, 3020, false)                                                                                                \
    X(cuMemAllocHost_v2, cuMemAllocHost, 3020, false)                                                                                      \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, false)                                                                                         \
    X(cuMemFreeHost, cuMemFreeHost, 2000, false)                                                                                           \
    X(cuMemCreate, cuMemCreate, 10020, false)                                                                                              \
    X(cuMemRelease, cuMemRelease, 10020, false)                                                                                            \
    X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, false)                                                              \
    X(cuMemMap, cuMemMap, 10020, false)                                                                                                    \
    X(cuMemUnmap, cuMemUnmap, 10020, false)                                                                                                \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, false)                                                                                      \
    X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, true)                                                                                  \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, false)                                                                      \
    X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, true)                                                                  \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, false)                                                                                        \
    X(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, true)                                                                                    \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, false)                                                                                      \
    X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, false)                                                                                    \
    X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, false)                                                                        \
    X(cuGraphAddNode, cuGraphAddNode, 12020, false)                                                                                        \
    X(cuGraphAddNode_v2, cuGraphAddNode, 12030, false)                                                                                     \
    X(cuGraphUpload, cuGraphUpload, 11010, false)                                                                                          \
    X(cuGraphUpload_ptsz, cuGraphUpload, 11010, true)                                                                                      \
    X(cuGraphLaunch, cuGraphLaunch, 10000, false)                                                                                          \
    X(cuGraphLaunch_ptsz, cuGraphLaunch, 10000, true)                                                                                      \
    X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, false)                                                                            \
    X(cuArrayCreate_v2, cuArrayCreate, 3020, false)                                                                                        \
    X(cuArray3DCreate_v2, cuArray3DCreate, 3020, false)                                                                                    \
    X(cuArrayDestroy, cuArrayDestroy, 2000, false)                                                                                         \
    X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, false)                                                                         \
    X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, false)                                                                       \
    X(cuCtxCreate_v2, cuCtxCreate, 3020, false)                                                                                            \
    X(cuCtxCreate_v3, cuCtxCreate, 11040, false)                                                                                           \
    X(cuCtxCreate_v4, cuCtxCreate, 12050, false)                                                                                           \
    X(cuGreenCtxCreate, cuGreenCtxCreate, 12040, false)                                                                                    \
    X(cuGreenCtxDestroy, cuGreenCtxDestroy, 12040, false)                                                                                  \
    X(cuCtxDestroy, cuCtxDestroy, 2000, false)                                                                                             \
    X(cuCtxDestroy_v2, cuCtxDestroy, 4000, false)                                                                                          \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, false)                                                                     \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, false)                                                                   \
    X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, false)                                                               \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, false)                                                                       \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, false)                                                                   \
    X(cuModuleLoad, cuModuleLoad, 2000, false)                                                                                             \
    X(cuModuleLoadData, cuModuleLoadData, 2000, false)                                                                                     \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, false)                                                                                 \
    X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, false)                                                                           \
    X(cuModuleUnload, cuModuleUnload, 2000, false)                                                                                         \
    X(cuLibraryLoadData, cuLibraryLoadData, 12000, false)                                                                                  \
    X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, false)                                                                          \
    X(cuLibraryUnload, cuLibraryUnload, 12000, false)                                                                                      \
    X(cuMemGetInfo_v2, cuMemGetInfo, 3020, false)                                                                                          \
    X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, false)                                                                                  \
    X(nvmlDeviceGetMemoryInfo, nvmlDeviceGetMemoryInfo, 0, false)                                                                          \
    X(nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetMemoryInfo_v2, 0, false)

enum uma_valve_entry {
#define X(name, base, since, per_thread) UMA_VALVE_##name,
    UMA_VALVE_ENTRIES(X)
#undef X
        UMA_VALVE_N_ENTRIES
};

/* By the exported name, as dlsym(3) is asked; UMA_VALVE_N_ENTRIES: not one of them. */
enum uma_valve_entry uma_valve_entry_exported(const char *name);
/* As cuGetProcAddress is asked: `flags` are its. The exported names are understood too. UMA_VALVE_N_ENTRIES: not one of them, or a form that passes untouched. */
enum uma_valve_entry uma_valve_entry_asked(const char *name, int cuda_version, unsigned long long flags);
const char *uma_valve_entry_name(enum uma_valve_entry entry);
