/* SPDX-License-Identifier: MIT */
/*
 * held.h - what this process holds of the pool, by what its program knows it by: device and host pointers, handles, mappings, arrays. A free says only the pointer; here is
 * how many bytes that was.
 *
 * No allocation: tables grow by mmap(2). One lock for each of some shards, held for some ten nanoseconds and never across a call of the driver; whoever cannot get it for 0.2 s (a thread that was
 * cancelled while it held it, a signal handler in the middle) goes on without, and the bytes stay counted or uncounted: told by `lost`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum uma_valve_kind {
    UMA_VALVE_DEVICE = 1, /* cuMemAlloc*, cuMemAllocManaged: CUdeviceptr; `other` is not 0 for managed memory */
    UMA_VALVE_HOST,       /* cuMemAllocHost, cuMemHostAlloc: void * */
    UMA_VALVE_HANDLE,     /* cuMemCreate: CUmemGenericAllocationHandle; goes when it has no reference and no mapping any more */
    UMA_VALVE_MAPPING,    /* cuMemMap: CUdeviceptr; `other` is the handle */
    UMA_VALVE_ARRAY,      /* cuArrayCreate, cuArray3DCreate */
    UMA_VALVE_MIPMAP,     /* cuMipmappedArrayCreate */
    UMA_VALVE_POOL,       /* a pool of cuMemAllocAsync, by its handle: what the driver says that it keeps */
    UMA_VALVE_CONTEXT,    /* what these took without saying (overhead.h): cuCtxCreate */
    UMA_VALVE_PRIMARY,    /* cuDevicePrimaryCtxRetain, by device */
    UMA_VALVE_MODULE,     /* cuModuleLoad* */
    UMA_VALVE_LIBRARY,    /* cuLibraryLoad* */
    UMA_VALVE_KINDS,
    UMA_VALVE_MANAGED, /* cuMemAllocManaged, for ask.h alone: it is held as DEVICE, with `other` not 0 */
};

struct uma_valve_holding {
    uint64_t key;     /* pointer or handle; never 0 */
    uint64_t size;    /* bytes */
    uint64_t other;   /* MAPPING: the handle; DEVICE: is it managed? otherwise 0 */
    uint32_t context; /* a number of the context that it goes with; 0: of none */
    uint16_t kind;    /* enum uma_valve_kind */
    uint16_t users;   /* HANDLE: references and mappings */
};

static inline bool uma_valve_is_managed(const struct uma_valve_holding *holding) {
    return holding->kind == UMA_VALVE_DEVICE && holding->other;
}

/* splitmix64's finalizer (Steele, Lea, Flood: Fast splittable pseudorandom number generators): addresses differ in their middle bits alone. */
static inline uint64_t uma_valve_mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

struct uma_valve_held; /* of this process; a child begins with an empty one (state.h) */

/* In memory of the caller's (uma_valve_held_size() bytes, all zeros): nothing is allocated until something is put. */
size_t uma_valve_held_size(void);

/* One that is there already under this key and kind is replaced: `ret_before` is its size (0: none), because the driver gave the address anew after a free that was not seen. False: not put. */
bool uma_valve_held_put(struct uma_valve_held *held, const struct uma_valve_holding *holding, uint64_t *ret_before);
/* Out of the table. False: it is not there. */
bool uma_valve_held_take(struct uma_valve_held *held, enum uma_valve_kind kind, uint64_t key, struct uma_valve_holding *ret_holding);
bool uma_valve_held_find(struct uma_valve_held *held, enum uma_valve_kind kind, uint64_t key, struct uma_valve_holding *ret_holding);
/* Users of a handle, more or fewer; when none is left it is taken out, and `ret_size` is what it had (otherwise 0). False: it is not there. */
bool uma_valve_held_use(struct uma_valve_held *held, uint64_t handle, int change, uint64_t *ret_size);
/* The size of a pool as the driver says it now; `ret_before`: as it was. */
bool uma_valve_held_resize(struct uma_valve_held *held, enum uma_valve_kind kind, uint64_t key, uint64_t size, uint64_t *ret_before);
/* What goes with one context goes with another from now on: a number that is no context's, while it is not known whether it ends. */
void uma_valve_held_move_context(struct uma_valve_held *held, uint32_t from, uint32_t to);
/* All that goes with a context is taken out. */
struct uma_valve_dropped {
    uint64_t bytes, managed; /* `managed`: of `bytes` */
    uint64_t overhead;       /* of code (UMA_VALVE_MODULE), which is not in `bytes` */
};
struct uma_valve_dropped uma_valve_held_drop_context(struct uma_valve_held *held, uint32_t context);
/* Calls that could not be put in or taken out. */
uint64_t uma_valve_held_lost(const struct uma_valve_held *held);
