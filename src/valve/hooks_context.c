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

/* Not of contexts that live. */
#define ENDING UINT32_C(0x80000000)

uint32_t uma_valve_context_number(CUcontext context) {
    uint32_t number = (uint32_t)(uma_valve_mix((uint64_t)(uintptr_t)context) >> 32) & ~ENDING;
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

/*
 * All that was allocated in a context goes with it. Before the driver ends it, what is in it is given another number, and what it took itself is taken out: the next context may have the same
 * address, the moment this one is gone.
 */
struct ending {
    struct uma_valve_process *process;
    struct uma_valve_holding self;
    bool held;              /* self: it is known what it took */
    uint32_t number, other; /* as of the context, and meanwhile */
};

static void begin_end(struct uma_valve_process *process, enum uma_valve_kind kind, uint64_t key, uint32_t number,
                      struct ending *ret_ending) {
    static _Atomic uint32_t count;
    *ret_ending = (struct ending){ .process = process, .number = number, .other = ENDING | atomic_fetch_add(&count, 1) };
    ret_ending->held = uma_valve_overhead_ending(kind, key, &ret_ending->self);
    uma_valve_held_move_context(process->held, ret_ending->number, ret_ending->other);
}

static void has_ended(const struct ending *e) {
    struct uma_valve_slot *slot = e->process->slot;
    struct uma_valve_dropped dropped = uma_valve_held_drop_context(e->process->held, e->other);
    if (e->held)
        uma_valve_overhead_ended(&e->self);
    (void)atomic_fetch_sub(&slot->untouched, dropped.managed);
    uma_valve_account_give_back(slot, dropped.bytes);
    (void)atomic_fetch_sub(&slot->overhead, dropped.overhead);
}

static void has_not_ended(const struct ending *e) {
    uma_valve_held_move_context(e->process->held, e->other, e->number);
    if (e->held)
        uma_valve_overhead_stays(&e->self);
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
    struct uma_valve_process *process = uma_valve_inside() || !ctx ? NULL : uma_valve_process();
    struct ending ending;
    if (!process)
        return real(ctx);
    begin_end(process, UMA_VALVE_CONTEXT, (uint64_t)(uintptr_t)ctx, uma_valve_context_number(ctx), &ending);
    uma_valve_enter();
    CUresult r = real(ctx);
    uma_valve_leave();
    (r == CUDA_SUCCESS ? has_ended : has_not_ended)(&ending);
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
    UMA_VALVE_UNMAKE(UMA_VALVE_CONTEXT, hCtx, real(hCtx));
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
    struct ending ending;
    if (!process || !uma_valve_held_find(process->held, UMA_VALVE_PRIMARY, primary_key(dev), &holding))
        return real(dev);
    begin_end(process, UMA_VALVE_PRIMARY, primary_key(dev), holding.context, &ending);
    uma_valve_enter();
    CUresult r = real(dev);
    bool ended = r == CUDA_SUCCESS && !is_active(dev); /* others may use it still */
    uma_valve_leave();
    (ended ? has_ended : has_not_ended)(&ending);
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
