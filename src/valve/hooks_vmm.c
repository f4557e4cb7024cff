/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory management: cuMemCreate takes memory from the pool; it goes back when neither a handle (cuMemRelease) nor a mapping (cuMemUnmap) is left, in whichever order a program lets go of them: some
 * release the handle as soon as it is mapped.
 */
#include "valve/hook.h"
#include "valve/process.h"

/* On a device of its own memory, what is created in the machine's is not the ceiling's affair; without properties the driver refuses. */
static uint64_t size_of(const CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop) {
    if (!handle || !prop)
        return 0;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        return size;
    struct uma_valve_process *process = uma_valve_process();
    return process && uma_valve_process_unified(process) ? size : 0;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags) {
    UMA_VALVE_REAL(cuMemCreate);
    UMA_VALVE_TAKE_OF("cuMemCreate", size_of(handle, size, prop), UMA_VALVE_HANDLE, real(handle, size, prop, flags), *handle, size, 0);
}

/* One user fewer of a handle; its bytes go back with the last. */
static void let_go(uint64_t handle) {
    struct uma_valve_process *process = uma_valve_process();
    uint64_t size = 0;
    if (process && uma_valve_held_use(process->held, handle, -1, &size) && size)
        uma_valve_account_give_back(process->slot, size);
}

static void use(uint64_t handle) {
    struct uma_valve_process *process = uma_valve_process();
    uint64_t none;
    if (process)
        (void)uma_valve_held_use(process->held, handle, 1, &none);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    UMA_VALVE_REAL(cuMemRelease);
    struct uma_valve_process *process = uma_valve_inside() || !handle ? NULL : uma_valve_process();
    uint64_t size = 0;
    if (!process)
        return real(handle);
    /* before the call: the driver may hand the same number to another thread the moment it is free */
    bool held = uma_valve_held_use(process->held, handle, -1, &size);
    uma_valve_enter();
    CUresult r = real(handle);
    uma_valve_leave();
    if (r == CUDA_SUCCESS)
        uma_valve_account_give_back(process->slot, size);
    else if (held && size) { /* it was the last user, and still is */
        struct uma_valve_holding again = { .key = handle, .size = size, .kind = UMA_VALVE_HANDLE, .users = 1 };
        uma_valve_not_freed(&again);
    } else if (held)
        use(handle);
    return r;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
    UMA_VALVE_REAL(cuMemRetainAllocationHandle);
    CUresult r = real(handle, addr);
    if (r == CUDA_SUCCESS && handle && !uma_valve_inside())
        use(*handle);
    return r;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    UMA_VALVE_REAL(cuMemMap);
    CUresult r = real(ptr, size, offset, handle, flags);
    struct uma_valve_process *process = r == CUDA_SUCCESS && !uma_valve_inside() ? uma_valve_process() : NULL;
    struct uma_valve_holding created, mapping = { .key = ptr, .size = size, .other = handle, .kind = UMA_VALVE_MAPPING };
    uint64_t before;
    if (process && uma_valve_held_find(process->held, UMA_VALVE_HANDLE, handle, &created)) { /* an imported one is another process's */
        use(handle);
        if (!uma_valve_held_put(process->held, &mapping, &before))
            let_go(handle);
    }
    return r;
}

/* Mappings that are taken out before the driver's call, for it to be undone when it fails. A range of more is that of a pool at its end. */
enum { UNMAPPED = 32 };

struct unmapped {
    struct uma_valve_holding mapping;
    uint64_t size; /* of its handle, when nobody else used it */
};

/* The mapping at this address. False: it is not ours. */
static bool unmap_one(struct uma_valve_process *process, uint64_t at, struct unmapped *ret) {
    if (!uma_valve_held_take(process->held, UMA_VALVE_MAPPING, at, &ret->mapping))
        return false;
    (void)uma_valve_held_use(process->held, ret->mapping.other, -1, &ret->size);
    return ret->mapping.size > 0;
}

static void map_again(struct uma_valve_process *process, const struct unmapped *u) {
    uint64_t before;
    if (u->size) { /* the mapping was the last user, and still is */
        struct uma_valve_holding again = { .key = u->mapping.other, .size = u->size, .kind = UMA_VALVE_HANDLE, .users = 1 };
        uma_valve_not_freed(&again);
    } else
        use(u->mapping.other);
    (void)uma_valve_held_put(process->held, &u->mapping, &before);
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    UMA_VALVE_REAL(cuMemUnmap);
    struct uma_valve_process *process = uma_valve_inside() ? NULL : uma_valve_process();
    struct unmapped all[UNMAPPED], more;
    unsigned n = 0;
    uint64_t at = ptr;
    if (!process)
        return real(ptr, size);
    /* before the call: the driver may give the numbers of handles anew. A range may hold several mappings, one after another: the driver takes none in part */
    for (; n < UNMAPPED && at - ptr < size && unmap_one(process, at, &all[n]); n++)
        at += all[n].mapping.size;
    unsigned n_left = n;
    uma_valve_enter();
    CUresult r = real(ptr, size);
    uma_valve_leave();
    while (n_left-- > 0) /* the last first: with it a handle of several was taken out, which the others are users of */
        if (r == CUDA_SUCCESS)
            uma_valve_account_give_back(process->slot, all[n_left].size);
        else
            map_again(process, &all[n_left]);
    for (; r == CUDA_SUCCESS && n == UNMAPPED && at - ptr < size && unmap_one(process, at, &more); at += more.mapping.size)
        uma_valve_account_give_back(process->slot, more.size);
    return r;
}
