/* SPDX-License-Identifier: MIT */
/* Memory by pointer: cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, and page-locked host memory, which is of the same pool. */
#include "valve/hook.h"
#include "valve/process.h"

enum {
    PITCH =
        512 /* a row of cuMemAllocPitch is rounded up to so much, as textures need it (CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT is less) */
};

/* NULL: the driver refuses it, and takes nothing. */
static uint64_t size_if(const void *result, uint64_t size) {
    return result ? size : 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    UMA_VALVE_REAL(cuMemAlloc_v2);
    UMA_VALVE_TAKE("cuMemAlloc", size_if(dptr, bytesize), UMA_VALVE_DEVICE, real(dptr, bytesize), *dptr, bytesize);
}

/* Elements of other sizes the driver refuses. */
static uint64_t pitch_size(size_t width, size_t height, unsigned element) {
    if (element != 4 && element != 8 && element != 16)
        return 0;
    return width > SIZE_MAX - PITCH ? 0 : uma_valve_times((width + PITCH - 1) / PITCH * PITCH, height);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned ElementSizeBytes) {
    UMA_VALVE_REAL(cuMemAllocPitch_v2);
    UMA_VALVE_TAKE("cuMemAllocPitch", size_if(pPitch, size_if(dptr, pitch_size(WidthInBytes, Height, ElementSizeBytes))), UMA_VALVE_DEVICE,
                   real(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes), *dptr, uma_valve_times(*pPitch, Height));
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned flags) {
    UMA_VALVE_REAL(cuMemAllocManaged);
    UMA_VALVE_TAKE("cuMemAllocManaged", size_if(dptr, bytesize), UMA_VALVE_MANAGED, real(dptr, bytesize, flags), *dptr, bytesize);
}

CUresult cuMemFree_v2(CUdeviceptr dptr) {
    UMA_VALVE_REAL(cuMemFree_v2);
    UMA_VALVE_FREE(UMA_VALVE_DEVICE, dptr, real(dptr));
}

/* On a device of its own memory, the machine's is not the ceiling's affair. */
static uint64_t host_size_if(const void *result, uint64_t size) {
    struct uma_valve_process *process = result ? uma_valve_process() : NULL;
    return process && uma_valve_process_unified(process) ? size : 0;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize) {
    UMA_VALVE_REAL(cuMemAllocHost_v2);
    UMA_VALVE_TAKE("cuMemAllocHost", host_size_if(pp, bytesize), UMA_VALVE_HOST, real(pp, bytesize), *pp, bytesize);
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned Flags) {
    UMA_VALVE_REAL(cuMemHostAlloc);
    UMA_VALVE_TAKE("cuMemHostAlloc", host_size_if(pp, bytesize), UMA_VALVE_HOST, real(pp, bytesize, Flags), *pp, bytesize);
}

CUresult cuMemFreeHost(void *p) {
    UMA_VALVE_REAL(cuMemFreeHost);
    UMA_VALVE_FREE(UMA_VALVE_HOST, p, real(p));
}
