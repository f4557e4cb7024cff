/* SPDX-License-Identifier: MIT */
/* Modules and libraries of device code. */
#include "valve/hook.h"
#include "valve/overhead.h"

/* Most take some megabytes: enough for the machine to be looked at. */
#define LEAST ((uint64_t)2 << 20)

/* NULL: the driver refuses it, and takes nothing. */
static uint64_t least(const void *result, const void *code) {
    return result && code ? LEAST : 0;
}

CUresult cuModuleLoad(CUmodule *module, const char *fname) {
    UMA_VALVE_REAL(cuModuleLoad);
    UMA_VALVE_MAKE("cuModuleLoad", least(module, fname), real(module, fname), UMA_VALVE_MODULE, *module, uma_valve_context());
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    UMA_VALVE_REAL(cuModuleLoadData);
    UMA_VALVE_MAKE("cuModuleLoadData", least(module, image), real(module, image), UMA_VALVE_MODULE, *module, uma_valve_context());
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned numOptions, int *options, void **optionValues) {
    UMA_VALVE_REAL(cuModuleLoadDataEx);
    UMA_VALVE_MAKE("cuModuleLoadDataEx", least(module, image), real(module, image, numOptions, options, optionValues), UMA_VALVE_MODULE,
                   *module, uma_valve_context());
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
    UMA_VALVE_REAL(cuModuleLoadFatBinary);
    UMA_VALVE_MAKE("cuModuleLoadFatBinary", least(module, fatCubin), real(module, fatCubin), UMA_VALVE_MODULE, *module,
                   uma_valve_context());
}

CUresult cuModuleUnload(CUmodule hmod) {
    UMA_VALVE_REAL(cuModuleUnload);
    UMA_VALVE_UNMAKE(UMA_VALVE_MODULE, hmod, real(hmod));
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jitOptions, void **jitOptionsValues, unsigned numJitOptions,
                           int *libraryOptions, void **libraryOptionValues, unsigned numLibraryOptions) {
    UMA_VALVE_REAL(cuLibraryLoadData);
    UMA_VALVE_MAKE("cuLibraryLoadData", least(library, code),
                   real(library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions),
                   UMA_VALVE_LIBRARY, *library, 0);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, int *jitOptions, void **jitOptionsValues, unsigned numJitOptions,
                               int *libraryOptions, void **libraryOptionValues, unsigned numLibraryOptions) {
    UMA_VALVE_REAL(cuLibraryLoadFromFile);
    UMA_VALVE_MAKE(
        "cuLibraryLoadFromFile", least(library, fileName),
        real(library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions),
        UMA_VALVE_LIBRARY, *library, 0);
}

CUresult cuLibraryUnload(CUlibrary library) {
    UMA_VALVE_REAL(cuLibraryUnload);
    UMA_VALVE_UNMAKE(UMA_VALVE_LIBRARY, library, real(library));
}
