/* SPDX-License-Identifier: MIT */
/* Another library that stands before the driver, as a profiler does: it hands the call on to the next that has it. */
#include "valve/hooks.h"

#include <dlfcn.h>

__attribute__((visibility("default"))) unsigned behind_calls;

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    CUresult (*next)(CUdeviceptr *, size_t) = (CUresult(*)(CUdeviceptr *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    behind_calls++;
    return next ? next(dptr, bytesize) : CUDA_ERROR_NOT_INITIALIZED;
}
