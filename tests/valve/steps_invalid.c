/* SPDX-License-Identifier: MIT */
/* Calls that the driver refuses, whatever there is of memory. */
#include "steps.h"

#include <stdio.h>

void call_invalid(uint64_t size) {
    CUdeviceptr at = 0;
    void *made = NULL;
    size_t pitch;
    CUmemAllocationProp nowhere = { .type = 1, .location = { .type = 99 } };
    CUmemAllocationProp good = { .type = 1, .location = { .type = 1 } };
    CUDA_ARRAY_DESCRIPTOR flat = { .Width = size / 4, .Format = 12345, .NumChannels = 1 };
    CUDA_ARRAY3D_DESCRIPTOR none = { .Width = 0 };
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = { .bytesize = 0 };
    CUDA_MEM_ALLOC_NODE_PARAMS no_device = { .poolProps = { .location = { .type = 1, .id = -5 } }, .bytesize = size };
    CUgraph graph = NULL;
    (void)api->cuGraphCreate(&graph, 0);
    CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
    const CUresult said[] = {
        api->cuMemAlloc_v2(NULL, size),
        api->cuMemAlloc_v2(&at, 0),
        api->cuMemAllocPitch_v2(NULL, &pitch, size, 1, 4),
        api->cuMemAllocPitch_v2(&at, NULL, size, 1, 4),
        api->cuMemAllocPitch_v2(&at, &pitch, 0, 1, 4),
        api->cuMemAllocPitch_v2(&at, &pitch, size, 1, 3),
        api->cuMemAllocManaged(NULL, size, 1),
        api->cuMemAllocManaged(&at, 0, 1),
        api->cuMemAllocHost_v2(NULL, size),
        api->cuMemHostAlloc(&made, 0, 0),
        api->cuMemHostRegister_v2(NULL, size, 0),
        api->cuMemCreate(NULL, size, &good, 0),
        api->cuMemCreate(&at, size, NULL, 0),
        api->cuMemCreate(&at, 0, &good, 0),
        api->cuMemCreate(&at, 4096, &nowhere, 0),
        api->cuMemRelease(12345),
        api->cuMemMap(0, size, 0, 12345, 0),
        api->cuMemUnmap(0, size),
        api->cuMemRetainAllocationHandle(NULL, NULL),
        api->cuMemAllocAsync(NULL, size, NULL),
        api->cuMemAllocAsync(&at, 0, NULL),
        api->cuMemAllocFromPoolAsync(&at, size, NULL, NULL),
        api->cuMemAllocFromPoolAsync(NULL, size, NULL, NULL),
        api->cuMemFreeAsync(0, NULL),
        api->cuMemPoolTrimTo(NULL, 0),
        api->cuMemPoolDestroy(NULL),
        api->cuArrayCreate_v2(NULL, &flat),
        api->cuArrayCreate_v2((CUarray *)&made, NULL),
        api->cuArray3DCreate_v2(NULL, NULL),
        api->cuArray3DCreate_v2((CUarray *)&made, &none),
        api->cuArrayDestroy(NULL),
        api->cuMipmappedArrayCreate(NULL, &none, 1),
        api->cuMipmappedArrayCreate((CUmipmappedArray *)&made, NULL, 1),
        api->cuMipmappedArrayDestroy(NULL),
        api->cuGraphAddMemAllocNode(&node, NULL, NULL, 0, &params),
        api->cuGraphAddMemAllocNode(&node, NULL, NULL, 0, NULL),
        api->cuGraphAddMemAllocNode(NULL, graph, NULL, 0, &no_device),
        api->cuGraphAddMemAllocNode(&node, graph, NULL, 0, &no_device),
        api->cuGraphAddNode(&node, NULL, NULL, 0, NULL),
        api->cuGraphAddNode_v2(&node, NULL, NULL, NULL, 0, &any),
        api->cuGraphLaunch(NULL, NULL),
        api->cuGraphUpload(NULL, NULL),
        api->cuGreenCtxCreate(NULL, NULL, 0, 1),
        api->cuGreenCtxDestroy(NULL),
        api->cuDeviceGraphMemTrim(99),
        api->cuCtxCreate_v2(NULL, 0, 0),
        api->cuCtxCreate_v3(NULL, NULL, 0, 0, 0),
        api->cuCtxCreate_v4(NULL, NULL, 0, 0),
        api->cuCtxDestroy_v2(NULL),
        api->cuDevicePrimaryCtxRetain(NULL, 0),
        api->cuDevicePrimaryCtxRelease_v2(99),
        api->cuDevicePrimaryCtxReset_v2(99),
        api->cuModuleLoad(NULL, NULL),
        api->cuModuleLoadData(NULL, "code"),
        api->cuModuleLoadData((CUmodule *)&made, NULL),
        api->cuModuleLoadDataEx(NULL, NULL, 0, NULL, NULL),
        api->cuModuleLoadFatBinary(NULL, NULL),
        api->cuModuleUnload(NULL),
        api->cuLibraryLoadData(NULL, NULL, NULL, NULL, 0, NULL, NULL, 0),
        api->cuLibraryLoadFromFile(NULL, NULL, NULL, NULL, 0, NULL, NULL, 0),
        api->cuLibraryUnload(NULL),
        api->cuMemFree_v2(12345),
        api->cuMemFreeHost(NULL),
        api->cuDeviceTotalMem_v2(NULL, 0),
    };
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
        (void)printf("%s%d", i ? " " : "", said[i]);
    (void)api->cuGraphDestroy(graph);
    answer("%s", "");
}
