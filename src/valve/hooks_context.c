/* SPDX-License-Identifier: MIT */
/* Contexts. When one ends, so does all that was allocated in it. */
#include "valve/hook.h"
#include "valve/overhead.h"
#include "valve/process.h"

#include <stdatomic.h>

/* What must be there for a context, whose size nobody says: a PyTorch process holds 0.69 GiB after first use. */
#define LEAST ((uint64_t)256 << 20)

/* Of a part of one that is there: enough for the machine to be looked at. */
#define LEAST_GREEN ((uint64_t)2 << 20)

uint32_t uma_valve_context_number(CUcontext context) {
    uint32_t number = (uint32_t)(uma_valve_mix((uint64_t)(uintptr_t)context) >> 32);
    return !context ? 0 : number ? number : 1;
}

uint32_t uma_valve_context(void) {
    static _Atomic(void *) kept;
    CUresult (*get)(CUcontext *) = (CUresult(*)(CUcontext *))uma_valve_real_once(&kept, "cuCtxGetCurrent");
    CUcontext context = NULL;
    return get && get(&context) == CUDA_SUCCESS ? uma_valve_context_number(context) : 0;
}

/* NULL: the driver refuses it, and takes nothing. */
static uint64_t least(const void *result) {
    return result ? LEAST : 0;
}

/* All that was allocated in a context goes with it. */
static void context_ended(uint64_t key, enum uma_valve_kind kind, uint32_t number) {
    struct uma_valve_process *process = uma_valve_process();
    if (!process)
        return;
    uint64_t overhead = 0;
    uma_valve_overhead_end(kind, key);
    uma_valve_account_give_back(process->slot, uma_valve_held_drop_context(process->held, number, &overhead));
    (void)atomic_fetch_sub(&process->slot->overhead, overhead);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned flags, CUdevice dev) {
    UMA_VALVE_REAL(cuCtxCreate_v2);
    UMA_VALVE_MAKE("cuCtxCreate", least(pctx), real(pctx, flags, dev), UMA_VALVE_CONTEXT, *pctx, 0);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, void *paramsArray, int numParams, unsigned flags, CUdevice dev) {
    UMA_VALVE_REAL(cuCtxCreate_v3);
    UMA_VALVE_MAKE("cuCtxCreate", least(pctx), real(pctx, paramsArray, numParams, flags, dev), UMA_VALVE_CONTEXT, *pctx, 0);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, void *ctxCreateParams, unsigned flags, CUdevice dev) {
    UMA_VALVE_REAL(cuCtxCreate_v4);
    UMA_VALVE_MAKE("cuCtxCreate", least(pctx), real(pctx, ctxCreateParams, flags, dev), UMA_VALVE_CONTEXT, *pctx, 0);
}

static CUresult destroy(CUresult (*real)(CUcontext), CUcontext ctx) {
    if (uma_valve_inside())
        return real(ctx);
    uma_valve_enter();
    CUresult r = real(ctx);
    uma_valve_leave();
    if (r == CUDA_SUCCESS)
        context_ended((uint64_t)(uintptr_t)ctx, UMA_VALVE_CONTEXT, uma_valve_context_number(ctx));
    return r;
}

CUresult cuCtxDestroy(CUcontext ctx) {
    UMA_VALVE_REAL(cuCtxDestroy);
    return destroy(real, ctx);
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
    UMA_VALVE_REAL(cuCtxDestroy_v2);
    return destroy(real, ctx);
}

/* ---- the primary context of a device: one for all libraries of a process ---- */

static bool is_active(CUdevice device) {
    static _Atomic(void *) kept;
    CUresult (*get)(CUdevice, unsigned *, int *) =
        (CUresult(*)(CUdevice, unsigned *, int *))uma_valve_real_once(&kept, "cuDevicePrimaryCtxGetState");
    unsigned flags = 0;
    int active = 1; /* not known: it stays counted */
    return !get || get(device, &flags, &active) != CUDA_SUCCESS || active;
}

/* A green context shares the primary one, which is made for it where it is not there yet. */
CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned flags) {
    UMA_VALVE_REAL(cuGreenCtxCreate);
    uint64_t bytes = least(phCtx);
    UMA_VALVE_MAKE("cuGreenCtxCreate", bytes && is_active(dev) ? LEAST_GREEN : bytes, real(phCtx, desc, dev, flags), UMA_VALVE_CONTEXT,
                   *phCtx, 0);
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
    UMA_VALVE_REAL(cuGreenCtxDestroy);
    CUresult r = real(hCtx);
    if (r == CUDA_SUCCESS && !uma_valve_inside())
        uma_valve_overhead_end(UMA_VALVE_CONTEXT, (uint64_t)(uintptr_t)hCtx);
    return r;
}

static uint64_t primary_key(CUdevice device) {
    return (uint64_t)(unsigned)device + 1;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
    UMA_VALVE_REAL(cuDevicePrimaryCtxRetain);
    if (uma_valve_inside() || !pctx || is_active(dev))
        return real(pctx, dev); /* another user of one that is there takes nothing */
    /* the number of the context is kept with it, for its end */
    UMA_VALVE_MAKE("cuDevicePrimaryCtxRetain", LEAST, real(pctx, dev), UMA_VALVE_PRIMARY, primary_key(dev),
                   uma_valve_context_number(*pctx));
}

static CUresult end_primary(CUresult (*real)(CUdevice), CUdevice dev) {
    struct uma_valve_process *process = uma_valve_inside() ? NULL : uma_valve_process();
    struct uma_valve_holding holding;
    if (!process)
        return real(dev);
    bool held = uma_valve_held_find(process->held, UMA_VALVE_PRIMARY, primary_key(dev), &holding);
    uma_valve_enter();
    CUresult r = real(dev);
    bool ended = r == CUDA_SUCCESS && held && !is_active(dev);
    uma_valve_leave();
    if (ended)
        context_ended(primary_key(dev), UMA_VALVE_PRIMARY, holding.context);
    return r;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    UMA_VALVE_REAL(cuDevicePrimaryCtxRelease);
    return end_primary(real, dev);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    UMA_VALVE_REAL(cuDevicePrimaryCtxRelease_v2);
    return end_primary(real, dev);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
    UMA_VALVE_REAL(cuDevicePrimaryCtxReset);
    return end_primary(real, dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    UMA_VALVE_REAL(cuDevicePrimaryCtxReset_v2);
    return end_primary(real, dev);
}
