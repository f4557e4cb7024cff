/* SPDX-License-Identifier: MIT */
/* cuGetProcAddress: names without suffix, a CUDA version, flags for the variants of the per-thread default stream, and the status of the search. */
#include "fake.h"
#include "functions.h"

#include <stdio.h>
#include <string.h>

enum { STATUS_SUCCESS, STATUS_NOT_FOUND, STATUS_VERSION_NOT_SUFFICIENT };

/* What is not in the valve's list; versions as in cudaTypedefs.h. */
#define OTHERS(X)                                                                                                                          \
    X(cuInit, cuInit, 2000, false)                                                                                                         \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020, false)                                                                                 \
    X(cuDeviceGet, cuDeviceGet, 2000, false)                                                                                               \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000, false)                                                                                     \
    X(cuDeviceGetName, cuDeviceGetName, 2000, false)                                                                                       \
    X(cuDeviceGetUuid, cuDeviceGetUuid, 9020, false)                                                                                       \
    X(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, false)                                                                                   \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, false)                                                                             \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, false)                                                                  \
    X(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, false)                                                                                \
    X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, false)                                                                                \
    X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040, false)                                                            \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, false)                                                                 \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, false)                                                                                       \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, false)                                                                                       \
    X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, false)                                                                                  \
    X(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, false)                                                                                    \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000, false)                                                                                         \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000, false)                                                                                     \
    X(cuMemHostRegister_v2, cuMemHostRegister, 6050, false)                                                                                \
    X(cuMemHostUnregister, cuMemHostUnregister, 4000, false)                                                                               \
    X(cuMemAddressReserve, cuMemAddressReserve, 10020, false)                                                                              \
    X(cuMemAddressFree, cuMemAddressFree, 10020, false)                                                                                    \
    X(cuMemSetAccess, cuMemSetAccess, 10020, false)                                                                                        \
    X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, false)                                                          \
    X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020, false)                                                            \
    X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020, false)                                                        \
    X(cuMemPoolCreate, cuMemPoolCreate, 11020, false)                                                                                      \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, false)                                                                          \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, false)                                                                          \
    X(cuStreamCreate, cuStreamCreate, 2000, false)                                                                                         \
    X(cuStreamDestroy_v2, cuStreamDestroy, 4000, false)                                                                                    \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000, false)                                                                               \
    X(cuStreamSynchronize_ptsz, cuStreamSynchronize, 7000, true)                                                                           \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, false)                                                                         \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, false)                                                                                \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, false)                                                                              \
    X(cuGraphCreate, cuGraphCreate, 10000, false)                                                                                          \
    X(cuGraphDestroy, cuGraphDestroy, 10000, false)                                                                                        \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiate, 11040, false)                                                                       \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, false)                                                                                \
    X(cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070, false)                                                                        \
    X(cuGetExportTable, cuGetExportTable, 3000, false)                                                                                     \
    X(cuGetErrorString, cuGetErrorString, 6000, false)

struct function {
    const char *base;
    int since;
    bool per_thread;
    void *function;
};

/* The table's entries that are NVML's have no function here. */
#define nvmlDeviceGetMemoryInfo NULL
#define nvmlDeviceGetMemoryInfo_v2 NULL
static const struct function functions[] = {
#define X(name, base, since, per_thread) { #base, since, per_thread, (void *)(name) },
    OTHERS(X) UMA_VALVE_ENTRIES(X)
#undef X
};
#undef nvmlDeviceGetMemoryInfo
#undef nvmlDeviceGetMemoryInfo_v2

/* The newest that is not newer than `version`; of the per-thread kind where asked for and there is one. */
static const struct function *search(const char *symbol, int version, bool per_thread, bool *ret_known) {
    const struct function *best = NULL, *of_thread = NULL;
    *ret_known = false;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        const struct function *f = &functions[i];
        if (!f->function || strcmp(f->base, symbol) != 0)
            continue;
        *ret_known = true;
        if (f->since > version)
            continue;
        const struct function **to = f->per_thread ? &of_thread : &best;
        if (!*to || f->since > (*to)->since)
            *to = f;
    }
    return per_thread && of_thread ? of_thread : best;
}

static CUresult answer(const char *symbol, void **pfn, int version, unsigned long long flags, int *ret_status) {
    bool known;
    if (!symbol || !pfn || flags > 2 || version > fake_cuda_scenario()->driver)
        return CUDA_ERROR_INVALID_VALUE;
    fake_note("%s %d %llu", symbol, version, flags);
    const struct function *f = search(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
    if (!f && fake_cuda_scenario()->any && (*pfn = fake_unknown(symbol))) {
        *ret_status = STATUS_SUCCESS;
        return CUDA_SUCCESS;
    }
    *pfn = f ? f->function : NULL;
    *ret_status = f ? STATUS_SUCCESS : known ? STATUS_VERSION_NOT_SUFFICIENT : STATUS_NOT_FOUND;
    return CUDA_SUCCESS;
}

/* Before 12.0: what is not found is an error. */
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, unsigned long long flags) {
    int status = STATUS_SUCCESS;
    CUresult r = answer(symbol, pfn, cudaVersion, flags, &status);
    return r == CUDA_SUCCESS && status != STATUS_SUCCESS ? FAKE_NOT_FOUND : r;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, unsigned long long flags, int *symbolStatus) {
    int status = STATUS_SUCCESS;
    CUresult r = answer(symbol, pfn, cudaVersion, flags, &status);
    if (r == CUDA_SUCCESS && symbolStatus)
        *symbolStatus = status;
    return r;
}

CUresult uma_fake_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, unsigned long long flags, int *symbolStatus) {
    return cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
}

/* Nothing is known of what the driver's private tables do: with "any", all in them say that they did it, and do nothing. */
static CUresult of_table(void) {
    fake_note("called of a table");
    return CUDA_SUCCESS;
}

#define FOUR of_table, of_table, of_table, of_table
#define SIXTEEN FOUR, FOUR, FOUR, FOUR
static const struct {
    size_t size; /* of the table, in bytes */
    CUresult (*functions[64])(void);
} table = { .size = sizeof(table), .functions = { SIXTEEN, SIXTEEN, SIXTEEN, SIXTEEN } };

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
    char id[2 * sizeof(pExportTableId->bytes) + 1];
    if (!ppExportTable || !pExportTableId)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < sizeof(pExportTableId->bytes); i++)
        (void)snprintf(id + 2 * i, 3, "%02x", pExportTableId->bytes[i]);
    fake_note("table %s", id);
    if (!fake_cuda_scenario()->any)
        return FAKE_NOT_FOUND;
    *ppExportTable = &table;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **pStr) {
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    switch (error) {
    case CUDA_SUCCESS:
        *pStr = "no error";
        return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_VALUE:
        *pStr = "invalid argument";
        return CUDA_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
        *pStr = "out of memory";
        return CUDA_SUCCESS;
    default:
        *pStr = NULL;
        return CUDA_ERROR_INVALID_VALUE;
    }
}
