/* SPDX-License-Identifier: MIT */
/* Sizes, offsets and numbers of the driver's types that the valve declares itself: compiled twice by test_header.py, with the valve's header (-DOURS) and with a toolkit's, and the answers compared. */
#ifdef OURS
#include "valve/cuda.h"
#define ALLOC of.alloc
#else
#include <cuda.h>
#define ALLOC alloc
#endif

#include <stddef.h>
#include <stdio.h>

#define SIZE(type) (void)printf("sizeof " #type " %zu\n", sizeof(type))
#define OFFSET(type, member) (void)printf("offsetof " #type " " #member " %zu\n", offsetof(type, member))
#define NUMBER(name) (void)printf(#name " %lld\n", (long long)(name))

int main(void) {
    SIZE(CUresult);
    SIZE(CUdevice);
    SIZE(CUdeviceptr);
    SIZE(CUmemGenericAllocationHandle);
    SIZE(CUmemLocation);
    SIZE(CUmemAllocationProp);
    OFFSET(CUmemAllocationProp, location);
    OFFSET(CUmemAllocationProp, allocFlags);
    SIZE(CUDA_ARRAY_DESCRIPTOR);
    OFFSET(CUDA_ARRAY_DESCRIPTOR, Format);
    OFFSET(CUDA_ARRAY_DESCRIPTOR, NumChannels);
    SIZE(CUDA_ARRAY3D_DESCRIPTOR);
    OFFSET(CUDA_ARRAY3D_DESCRIPTOR, Depth);
    OFFSET(CUDA_ARRAY3D_DESCRIPTOR, Format);
    OFFSET(CUDA_ARRAY3D_DESCRIPTOR, Flags);
    SIZE(CUDA_MEM_ALLOC_NODE_PARAMS);
    OFFSET(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.location);
    OFFSET(CUDA_MEM_ALLOC_NODE_PARAMS, accessDescs);
    OFFSET(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize);
    OFFSET(CUDA_MEM_ALLOC_NODE_PARAMS, dptr);
    SIZE(CUgraphNodeParams);
    OFFSET(CUgraphNodeParams, type);
    (void)printf("offsetof CUgraphNodeParams alloc.bytesize %zu\n", offsetof(CUgraphNodeParams, ALLOC.bytesize));
    NUMBER(CUDA_SUCCESS);
    NUMBER(CUDA_ERROR_INVALID_VALUE);
    NUMBER(CUDA_ERROR_OUT_OF_MEMORY);
    NUMBER(CUDA_ERROR_NOT_INITIALIZED);
    NUMBER(CUDA_ERROR_NOT_FOUND);
    NUMBER(CU_DEVICE_ATTRIBUTE_INTEGRATED);
    NUMBER(CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    NUMBER(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    NUMBER(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    NUMBER(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    NUMBER(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
    NUMBER(CU_MEM_LOCATION_TYPE_DEVICE);
    NUMBER(CU_MEM_LOCATION_TYPE_HOST);
    NUMBER(CU_MEM_LOCATION_TYPE_HOST_NUMA);
    NUMBER(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
    NUMBER(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    (void)printf("CU_STREAM_PER_THREAD %p\n", (void *)CU_STREAM_PER_THREAD);
    return 0;
}
