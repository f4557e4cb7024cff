/* SPDX-License-Identifier: MIT */
/* api.h - the driver API as a program has it: a pointer for each function, however it was found. Our own declarations (valve/hooks.h, the fake's functions.h), of what NVIDIA documents. */
#pragma once

#include "fakes/cuda/functions.h"
#include "valve/hooks.h"

/* X(exported name, name that cuGetProcAddress is asked for, CUDA version: 0, the program's own) */
#define CALLS(X)                                                                                                                           \
    X(cuInit, cuInit, 0)                                                                                                                   \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 0)                                                                                       \
    X(cuMemAlloc_v2, cuMemAlloc, 0)                                                                                                        \
    X(cuMemAllocPitch_v2, cuMemAllocPitch, 0)                                                                                              \
    X(cuMemAllocManaged, cuMemAllocManaged, 0)                                                                                             \
    X(cuMemFree_v2, cuMemFree, 0)                                                                                                          \
    X(cuMemAllocHost_v2, cuMemAllocHost, 0)                                                                                                \
    X(cuMemHostAlloc, cuMemHostAlloc, 0)                                                                                                   \
    X(cuMemFreeHost, cuMemFreeHost, 0)                                                                                                     \
    X(cuMemHostRegister_v2, cuMemHostRegister, 0)                                                                                          \
    X(cuMemCreate, cuMemCreate, 0)                                                                                                         \
    X(cuMemRelease, cuMemRelease, 0)                                                                                                       \
    X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 0)                                                                         \
    X(cuMemMap, cuMemMap, 0)                                                                                                               \
    X(cuMemUnmap, cuMemUnmap, 0)                                                                                                           \
    X(cuMemAddressReserve, cuMemAddressReserve, 0)                                                                                         \
    X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 0)                                                                       \
    X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 0)                                                                   \
    X(cuMemAllocAsync, cuMemAllocAsync, 0)                                                                                                 \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 0)                                                                                 \
    X(cuMemFreeAsync, cuMemFreeAsync, 0)                                                                                                   \
    X(cuMemPoolCreate, cuMemPoolCreate, 0)                                                                                                 \
    X(cuMemPoolDestroy, cuMemPoolDestroy, 0)                                                                                               \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, 0)                                                                                                 \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 0)                                                                                     \
    X(cuDeviceGetMemPool, cuDeviceGetMemPool, 0)                                                                                           \
    X(cuStreamSynchronize, cuStreamSynchronize, 0)                                                                                         \
    X(cuGraphCreate, cuGraphCreate, 0)                                                                                                     \
    X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 0)                                                                                   \
    X(cuGraphAddNode, cuGraphAddNode, 12020)                                                                                               \
    X(cuGraphAddNode_v2, cuGraphAddNode, 12030)                                                                                            \
    X(cuGraphUpload, cuGraphUpload, 0)                                                                                                     \
    X(cuGraphDestroy, cuGraphDestroy, 0)                                                                                                   \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 0)                                                                                           \
    X(cuStreamCreate, cuStreamCreate, 0)                                                                                                   \
    X(cuStreamDestroy_v2, cuStreamDestroy, 0)                                                                                              \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 0)                                                                                    \
    X(cuStreamEndCapture, cuStreamEndCapture, 0)                                                                                           \
    X(cuGreenCtxCreate, cuGreenCtxCreate, 0)                                                                                               \
    X(cuGreenCtxDestroy, cuGreenCtxDestroy, 0)                                                                                             \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiate, 0)                                                                                  \
    X(cuGraphLaunch, cuGraphLaunch, 0)                                                                                                     \
    X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 0)                                                                                       \
    X(cuArrayCreate_v2, cuArrayCreate, 0)                                                                                                  \
    X(cuArray3DCreate_v2, cuArray3DCreate, 0)                                                                                              \
    X(cuArrayDestroy, cuArrayDestroy, 0)                                                                                                   \
    X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 0)                                                                                   \
    X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 0)                                                                                 \
    X(cuCtxCreate_v2, cuCtxCreate, 3020)                                                                                                   \
    X(cuCtxCreate_v3, cuCtxCreate, 11040)                                                                                                  \
    X(cuCtxCreate_v4, cuCtxCreate, 12050)                                                                                                  \
    X(cuCtxDestroy_v2, cuCtxDestroy, 0)                                                                                                    \
    X(cuCtxDestroy, cuCtxDestroy, 2000)                                                                                                    \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000)                                                                          \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000)                                                                              \
    X(cuCtxGetDevice, cuCtxGetDevice, 0)                                                                                                   \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 0)                                                                                                 \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 0)                                                                                                 \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 0)                                                                               \
    X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 0)                                                                          \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 0)                                                                              \
    X(cuModuleLoad, cuModuleLoad, 0)                                                                                                       \
    X(cuModuleLoadData, cuModuleLoadData, 0)                                                                                               \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 0)                                                                                           \
    X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 0)                                                                                     \
    X(cuModuleUnload, cuModuleUnload, 0)                                                                                                   \
    X(cuLibraryLoadData, cuLibraryLoadData, 0)                                                                                             \
    X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 0)                                                                                     \
    X(cuLibraryUnload, cuLibraryUnload, 0)                                                                                                 \
    X(cuMemGetInfo_v2, cuMemGetInfo, 0)                                                                                                    \
    X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 0)                                                                                            \
    X(cuGetExportTable, cuGetExportTable, 0)

struct api {
#define X(name, base, version) __typeof__(&name) name;
    CALLS(X)
#undef X
};

/* Is every function there? */
static inline bool api_all_found(const struct api *api) {
    void *const *each = (void *const *)api;
    for (size_t i = 0; i < sizeof(*api) / sizeof(void *); i++)
        if (!each[i])
            return false;
    return true;
}

/* Of a program or library that is linked to libcuda: the functions by their names (direct.c). */
__attribute__((visibility("default"))) void fill_direct(struct api *api);

/* How to come by them; found by name. False: not. */
bool find_route(const char *name, struct api *ret_api);
/* dlclose(3) of what the route opened, and the route again. */
bool reopen_route(const char *name, struct api *ret_api);

/* Reads commands from standard input and answers each with one line, until there are no more (steps.c). */
int take_steps(const char *route, struct api *api);
