/* SPDX-License-Identifier: MIT */
/* Modules and libraries of device code. */
#include "valve/hook.h"
#include "valve/overhead.h"

/* Most take some megabytes: enough for the machine to be looked at. */
#define LEAST ((uint64_t)2 << 20)

CUresult cuModuleLoad(CUmodule *module, const char *fname) {
    UMA_VALVE_REAL(cuModuleLoad);
    UMA_VALVE_MAKE("cuModuleLoad", LEAST, real(module, fname), UMA_VALVE_MODULE, *module, 0);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    UMA_VALVE_REAL(cuModuleLoadData);
    UMA_VALVE_MAKE("cuModuleLoadData", LEAST, real(module, image), UMA_VALVE_MODULE, *module, 0);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned numOptions, int *options, void **optionValues) {
    UMA_VALVE_REAL(cuModuleLoadDataEx);
    UMA_VALVE_MAKE("cuModuleLoadDataEx", LEAST, real(module, image, numOptions, options, optionValues), UMA_VALVE_MODULE, *module, 0);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
    UMA_VALVE_REAL(cuModuleLoadFatBinary);
    UMA_VALVE_MAKE("cuModuleLoadFatBinary", LEAST, real(module, fatCubin), UMA_VALVE_MODULE, *module, 0);
}

CUresult cuModuleUnload(CUmodule hmod) {
    UMA_VALVE_REAL(cuModuleUnload);
    CUresult r = real(hmod);
    if (r == CUDA_SUCCESS && !uma_valve_inside())
        uma_valve_overhead_end(UMA_VALVE_MODULE, (uint64_t)(uintptr_t)hmod);
    return r;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jitOptions, void **jitOptionsValues, unsigned numJitOptions,
                           int *libraryOptions, void **libraryOptionValues, unsigned numLibraryOptions) {
    UMA_VALVE_REAL(cuLibraryLoadData);
    UMA_VALVE_MAKE("cuLibraryLoadData", LEAST,
                   real(library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions),
                   UMA_VALVE_LIBRARY, *library, 0);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, int *jitOptions, void **jitOptionsValues, unsigned numJitOptions,
                               int *libraryOptions, void **libraryOptionValues, unsigned numLibraryOptions) {
    UMA_VALVE_REAL(cuLibraryLoadFromFile);
    UMA_VALVE_MAKE(
        "cuLibraryLoadFromFile", LEAST,
        real(library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions),
        UMA_VALVE_LIBRARY, *library, 0);
}

CUresult cuLibraryUnload(CUlibrary library) {
    UMA_VALVE_REAL(cuLibraryUnload);
    CUresult r = real(library);
    if (r == CUDA_SUCCESS && !uma_valve_inside())
        uma_valve_overhead_end(UMA_VALVE_LIBRARY, (uint64_t)(uintptr_t)library);
    return r;
}
