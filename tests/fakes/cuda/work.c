/* SPDX-License-Identifier: MIT */
/*
 * What programs need beside memory to get as far as using it, found by dlsym(3): copies and kernels that do nothing, for nobody looks at the bytes; events; interfaces to other libraries, which are not there.
 */
#include "fake.h"
#include "functions.h"

#include <stdlib.h>

/* Declared as what it is: a name to be found. The arguments are not looked at. */
#define ANSWERS(name, result)                                                                                                              \
    __attribute__((visibility("default"))) CUresult name(void);                                                                            \
    CUresult name(void) {                                                                                                                  \
        FAKE_READY();                                                                                                                      \
        fake_note("called %s", #name);                                                                                                     \
        return result;                                                                                                                     \
    }
#define DOES(name) ANSWERS(name, CUDA_SUCCESS)
#define DOES_NOT(name) ANSWERS(name, FAKE_NOT_SUPPORTED)

DOES(cuMemcpy)
DOES(cuMemcpyAsync)
DOES(cuMemcpy2D_v2)
DOES(cuMemcpy2DAsync_v2)
DOES(cuMemcpyHtoD_v2)
DOES(cuMemcpyHtoDAsync_v2)
DOES(cuMemcpyDtoH_v2)
DOES(cuMemcpyDtoHAsync_v2)
DOES(cuMemcpyDtoD_v2)
DOES(cuMemcpyDtoDAsync_v2)
DOES(cuMemsetD8Async)
DOES(cuMemsetD32Async)
DOES(cuLaunchKernel)
DOES(cuCtxSetLimit)
DOES(cuCtxSetCacheConfig)
DOES(cuDevicePrimaryCtxSetFlags_v2)
DOES(cuDevicePrimaryCtxSetFlags)
DOES(cuStreamQuery)
DOES(cuStreamWaitEvent)
DOES(cuEventDestroy_v2)
DOES(cuEventSynchronize)
DOES(cuEventQuery)
DOES(cuEventRecord)
DOES(cuProfilerStart)
DOES(cuProfilerStop)

DOES_NOT(cuCtxGetCacheConfig)
DOES_NOT(cuCtxGetSharedMemConfig)
DOES_NOT(cuCtxSetSharedMemConfig)
DOES_NOT(cuEventElapsedTime)
DOES_NOT(cuFuncGetAttribute)
DOES_NOT(cuFuncSetAttribute)
DOES_NOT(cuFuncSetCacheConfig)
DOES_NOT(cuFuncSetSharedMemConfig)
DOES_NOT(cuStreamAddCallback)
DOES_NOT(cuLinkCreate_v2)
DOES_NOT(cuLinkCreate)
DOES_NOT(cuLinkAddData_v2)
DOES_NOT(cuLinkAddData)
DOES_NOT(cuLinkComplete)
DOES_NOT(cuLinkDestroy)
DOES_NOT(cuModuleGetFunction)
DOES_NOT(cuModuleGetGlobal_v2)
DOES_NOT(cuModuleGetGlobal)
DOES_NOT(cuTexObjectCreate)
DOES_NOT(cuTexObjectDestroy)
DOES_NOT(cuGLGetDevices_v2)
DOES_NOT(cuGraphicsGLRegisterImage)
DOES_NOT(cuGraphicsUnregisterResource)
DOES_NOT(cuGraphicsMapResources)
DOES_NOT(cuGraphicsUnmapResources)
DOES_NOT(cuGraphicsSubResourceGetMappedArray)
DOES_NOT(cuGraphicsResourceGetMappedPointer_v2)
DOES_NOT(cuImportExternalMemory)
DOES_NOT(cuDestroyExternalMemory)
DOES_NOT(cuExternalMemoryGetMappedBuffer)
DOES_NOT(cuExternalMemoryGetMappedMipmappedArray)
DOES_NOT(cuMipmappedArrayGetLevel)
DOES_NOT(cuImportExternalSemaphore)
DOES_NOT(cuDestroyExternalSemaphore)
DOES_NOT(cuSignalExternalSemaphoresAsync)
DOES_NOT(cuWaitExternalSemaphoresAsync)
DOES_NOT(cuEGLStreamProducerConnect)
DOES_NOT(cuEGLStreamProducerDisconnect)
DOES_NOT(cuEGLStreamConsumerDisconnect)
DOES_NOT(cuEGLStreamProducerPresentFrame)
DOES_NOT(cuEGLStreamProducerReturnFrame)

CUresult cuEventCreate(void **phEvent, unsigned flags) {
    static int event;
    FAKE_IN_CONTEXT();
    (void)flags;
    if (!phEvent)
        return CUDA_ERROR_INVALID_VALUE;
    *phEvent = &event;
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
    enum { MAJOR = 75, MINOR = 76 };
    CUresult r = cuDeviceGetAttribute(major, MAJOR, dev);
    return r == CUDA_SUCCESS ? cuDeviceGetAttribute(minor, MINOR, dev) : r;
}

/* Asked before cuInit, too. */
CUresult cuModuleGetLoadingMode(int *mode) {
    enum { LAZY = 2 };
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = LAZY;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **pStr) {
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : error == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR";
    return CUDA_SUCCESS;
}
