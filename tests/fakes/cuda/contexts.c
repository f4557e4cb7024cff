/* SPDX-License-Identifier: MIT */
/* The driver's start, devices and contexts. */
#include "fake.h"
#include "functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_YET, READY, OF_A_PARENT };
enum { DEPTH = 16 };

struct CUctx_st {
    CUdevice device;
};

static _Atomic int state;
static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    CUcontext context;
    unsigned users;
} primaries[FAKE_DEVICES_MAX];
static _Thread_local CUcontext stack[DEPTH];
static _Thread_local unsigned depth;

CUresult fake_ready(void) {
    (void)atomic_fetch_add(&fake_calls, 1);
    return atomic_load(&state) == READY ? CUDA_SUCCESS : FAKE_NOT_INITIALIZED;
}

bool fake_is_stubborn(void) {
    static _Atomic uint64_t calls;
    uint64_t each = fake_cuda_scenario()->stubborn;
    return each && (atomic_fetch_add(&calls, 1) + 1) % each == 0;
}

CUcontext fake_context(void) {
    return depth > 0 ? stack[depth - 1] : NULL;
}

CUdevice fake_context_device(CUcontext context) {
    return context->device;
}

bool fake_device_valid(CUdevice device) {
    return device >= 0 && device < fake_cuda_scenario()->devices;
}

void fake_contexts_forget(void) {
    if (atomic_load(&state) == READY)
        atomic_store(&state, OF_A_PARENT);
    (void)memset(primaries, 0, sizeof(primaries));
    depth = 0;
}

CUresult cuInit(unsigned flags) {
    int none = NOT_YET;
    (void)atomic_fetch_add(&fake_calls, 1);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return atomic_compare_exchange_strong(&state, &none, READY) || none == READY ? CUDA_SUCCESS : FAKE_NOT_INITIALIZED;
}

CUresult cuDriverGetVersion(int *driverVersion) {
    if (!driverVersion)
        return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = fake_cuda_scenario()->driver;
    return CUDA_SUCCESS;
}

/* ---- devices ---- */

CUresult cuDeviceGetCount(int *count) {
    FAKE_READY();
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = fake_cuda_scenario()->devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    FAKE_READY();
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_valid(ordinal))
        return FAKE_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev) {
    FAKE_READY();
    if (!name || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_valid(dev))
        return FAKE_INVALID_DEVICE;
    (void)snprintf(name, (size_t)len, "Fake device %d", dev);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) {
    FAKE_READY();
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_valid(dev))
        return FAKE_INVALID_DEVICE;
    *uuid = (CUuuid){ { 'f', 'a', 'k', 'e', (unsigned char)dev } };
    return CUDA_SUCCESS;
}

/* What is documented of a device (CUdevice_attribute), as a small one of this generation would say it; what is not here is 0. */
static const int attributes[] = {
    [1] = 1024,                                       /* threads of a block */
    [2] = 1024,                                       /* block, x y z */
    [3] = 1024,        [4] = 64,    [5] = 2147483647, /* grid, x y z */
    [6] = 65535,       [7] = 65535, [8] = 49152,      /* shared memory of a block */
    [9] = 65536,                                      /* constant memory */
    [10] = 32,                                        /* warp */
    [11] = 2147483647,                                /* pitch */
    [12] = 65536,                                     /* registers of a block */
    [14] = 512,                                       /* alignment of textures */
    [16] = 48,                                        /* multiprocessors */
    [19] = 1,                                         /* host memory can be mapped */
    [31] = 1,                                         /* concurrent kernels */
    [38] = 25165824,                                  /* level-2 cache */
    [39] = 1536,                                      /* threads of a multiprocessor */
    [40] = 2,                                         /* copy engines */
    [41] = 1,                                         /* unified addresses */
    [51] = 32,                                        /* alignment of pitched textures */
    [75] = 12,                                        /* compute capability, 12.1 */
    [76] = 1,          [78] = 1,                      /* priorities of streams */
    [81] = 102400,                                    /* shared memory and registers of a multiprocessor */
    [82] = 65536,      [83] = 1,                      /* managed memory */
    [89] = 1,                                         /* concurrent managed access */
    [90] = 1,                                         /* preemption */
    [95] = 1,                                         /* cooperative launch */
    [97] = 101376,                                    /* shared memory of a block, opted in */
    [99] = 1,                                         /* host memory can be registered */
    [102] = 1,                                        /* virtual memory management, with file descriptors */
    [103] = 1,         [106] = 24,                    /* blocks of a multiprocessor */
    [115] = 1,                                        /* pools, with file descriptors */
    [119] = 1,
};

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
    return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceGetAttribute(int *pi, int attrib, CUdevice dev) {
    FAKE_READY();
    if (!pi || attrib <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_valid(dev))
        return FAKE_INVALID_DEVICE;
    *pi = attrib == CU_DEVICE_ATTRIBUTE_INTEGRATED                      ? fake_cuda_scenario()->integrated
          : (size_t)attrib < sizeof(attributes) / sizeof(attributes[0]) ? attributes[attrib]
                                                                        : 0;
    return CUDA_SUCCESS;
}

/* ---- contexts ---- */

static CUcontext make(CUdevice device) {
    uint64_t size = fake_cuda_scenario()->context;
    CUcontext context = fake_gate(size) == CUDA_SUCCESS ? calloc(1, sizeof(*context)) : NULL;
    if (!context)
        return NULL;
    context->device = device;
    if (fake_take(FAKE_KIND_CONTEXT, size, NULL, (uint64_t)(uintptr_t)context))
        return context;
    free(context);
    return NULL;
}

static bool is_context(CUcontext context) {
    (void)pthread_mutex_lock(&fake_lock);
    bool found = context && fake_find(FAKE_KIND_CONTEXT, (uint64_t)(uintptr_t)context);
    (void)pthread_mutex_unlock(&fake_lock);
    return found;
}

static void end(CUcontext context) {
    fake_give_all_of(context);
    if (fake_give(FAKE_KIND_CONTEXT, (uint64_t)(uintptr_t)context))
        free(context);
    while (depth > 0 && stack[depth - 1] == context)
        depth--;
}

static bool push(CUcontext context) {
    if (depth == DEPTH)
        return false;
    stack[depth++] = context;
    return true;
}

static CUresult create(CUcontext *pctx, CUdevice dev) {
    FAKE_READY();
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_valid(dev))
        return FAKE_INVALID_DEVICE;
    CUcontext context = make(dev);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (void)push(context);
    *pctx = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned flags, CUdevice dev) {
    (void)flags;
    return create(pctx, dev);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, void *paramsArray, int numParams, unsigned flags, CUdevice dev) {
    (void)flags;
    return numParams < 0 || (numParams > 0 && !paramsArray) ? CUDA_ERROR_INVALID_VALUE : create(pctx, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, void *ctxCreateParams, unsigned flags, CUdevice dev) {
    (void)flags;
    (void)ctxCreateParams;
    return create(pctx, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
    FAKE_READY();
    FAKE_GIVES_BACK();
    if (!is_context(ctx))
        return FAKE_INVALID_CONTEXT;
    end(ctx);
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext ctx) {
    return cuCtxDestroy_v2(ctx);
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned flags) {
    enum { DEFAULT_STREAM = 1 };
    FAKE_READY();
    if (!phCtx || !desc || flags != DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_valid(dev))
        return FAKE_INVALID_DEVICE;
    CUcontext context = make(dev);
    *phCtx = context ? (CUgreenCtx)context : *phCtx;
    return context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
    return cuCtxDestroy_v2((CUcontext)hCtx);
}

CUresult cuCtxGetCurrent(CUcontext *pctx) {
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = fake_context();
    return atomic_load(&state) == READY ? CUDA_SUCCESS : FAKE_NOT_INITIALIZED;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
    FAKE_READY();
    if (ctx && !is_context(ctx))
        return FAKE_INVALID_CONTEXT;
    if (depth > 0)
        depth--;
    return !ctx || push(ctx) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
    FAKE_READY();
    if (!is_context(ctx))
        return FAKE_INVALID_CONTEXT;
    return push(ctx) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx) {
    FAKE_IN_CONTEXT();
    CUcontext top = stack[--depth];
    if (pctx)
        *pctx = top;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    FAKE_IN_CONTEXT();
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = fake_context()->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    FAKE_IN_CONTEXT();
    fake_pools_settle();
    return CUDA_SUCCESS;
}

/* ---- primary contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
    FAKE_READY();
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_valid(dev))
        return FAKE_INVALID_DEVICE;
    (void)pthread_mutex_lock(&primary_lock);
    if (!primaries[dev].context)
        primaries[dev].context = make(dev);
    CUcontext context = primaries[dev].context;
    primaries[dev].users += context != NULL;
    (void)pthread_mutex_unlock(&primary_lock);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pctx = context;
    return CUDA_SUCCESS;
}

static CUresult end_primary(CUdevice dev, bool reset) {
    FAKE_READY();
    FAKE_GIVES_BACK();
    if (!fake_device_valid(dev))
        return FAKE_INVALID_DEVICE;
    CUcontext ended = NULL;
    (void)pthread_mutex_lock(&primary_lock);
    bool was = primaries[dev].context;
    if (was && (reset || --primaries[dev].users == 0)) {
        ended = primaries[dev].context;
        primaries[dev].context = NULL;
        primaries[dev].users = 0;
    }
    (void)pthread_mutex_unlock(&primary_lock);
    if (ended)
        end(ended);
    return was || reset ? CUDA_SUCCESS : FAKE_INVALID_CONTEXT;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    return end_primary(dev, false);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    return end_primary(dev, false);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    return end_primary(dev, true);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
    return end_primary(dev, true);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active) {
    FAKE_READY();
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_valid(dev))
        return FAKE_INVALID_DEVICE;
    (void)pthread_mutex_lock(&primary_lock);
    *active = primaries[dev].context != NULL;
    (void)pthread_mutex_unlock(&primary_lock);
    *flags = 0;
    return CUDA_SUCCESS;
}
