/* SPDX-License-Identifier: MIT */
/*
 * Memory in the order of a stream: it comes out of a pool of the driver's, which takes from the machine in blocks of its own and keeps what was freed. What counts is what the pool has reserved, as the driver
 * says it (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), not the sum of the calls; the same for the memory of graphs, one pool of each device (hooks_graph.c).
 */
#include "valve/hook.h"
#include "valve/pools.h"
#include "valve/process.h"

#include <stdatomic.h>

/* Keys of the graph memory of a device among the pools, whose handles are pointers. */
#define GRAPH_KEY(device) ((uint64_t)(unsigned)(device) + 1)
#define GRAPH_KEYS UINT64_C(4096)

typedef CUresult attribute_function(CUmemoryPool pool, int attribute, void *value);
typedef CUresult graph_attribute_function(CUdevice device, int attribute, void *value);
typedef CUresult device_function(CUdevice *device);
typedef CUresult pool_of_device_function(CUmemoryPool *pool, CUdevice device);

bool uma_valve_current_device(CUdevice *ret_device) {
    static _Atomic(void *) kept;
    device_function *get = (device_function *)uma_valve_real_once(&kept, "cuCtxGetDevice");
    return get && get(ret_device) == CUDA_SUCCESS;
}

/* The pool that cuMemAllocAsync takes from on this thread's device; NULL: not known. */
static CUmemoryPool current_pool(void) {
    static _Atomic(void *) kept;
    CUdevice device;
    CUmemoryPool pool = NULL;
    pool_of_device_function *get = (pool_of_device_function *)uma_valve_real_once(&kept, "cuDeviceGetMemPool");
    return get && uma_valve_current_device(&device) && get(&pool, device) == CUDA_SUCCESS ? pool : NULL;
}

static bool attribute_of(CUmemoryPool pool, int attribute, uint64_t *ret_value) {
    static _Atomic(void *) kept;
    attribute_function *get = (attribute_function *)uma_valve_real_once(&kept, "cuMemPoolGetAttribute");
    return pool && get && get(pool, attribute, ret_value) == CUDA_SUCCESS;
}

static bool graph_reserved(CUdevice device, uint64_t *ret_value) {
    static _Atomic(void *) kept;
    graph_attribute_function *get = (graph_attribute_function *)uma_valve_real_once(&kept, "cuDeviceGetGraphMemAttribute");
    return get && get(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, ret_value) == CUDA_SUCCESS;
}

static void note_pool(struct uma_valve_process *process, uint64_t key) {
    for (unsigned i = 0; i < UMA_VALVE_POOLS; i++)
        if (atomic_load(&process->pools[i]) == key)
            return;
    for (unsigned i = 0; i < UMA_VALVE_POOLS; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&process->pools[i], &none, key))
            return;
    }
}

static void forget_pool(struct uma_valve_process *process, uint64_t key) {
    for (unsigned i = 0; i < UMA_VALVE_POOLS; i++) {
        uint64_t is = key;
        (void)atomic_compare_exchange_strong(&process->pools[i], &is, 0);
    }
}

/* What a pool has is set to what the driver says: what it had before is returned. */
static uint64_t set_pool(struct uma_valve_process *process, uint64_t key, uint64_t reserved) {
    uint64_t before = 0;
    if (!uma_valve_held_resize(process->held, UMA_VALVE_POOL, key, reserved, &before)) {
        struct uma_valve_holding pool = { .key = key, .size = reserved, .kind = UMA_VALVE_POOL };
        if (!uma_valve_held_put(process->held, &pool, &before))
            return reserved;
    }
    note_pool(process, key);
    if (reserved > before)
        (void)atomic_fetch_add(&process->slot->used, reserved - before);
    else
        uma_valve_account_give_back(process->slot, before - reserved);
    return before;
}

bool uma_valve_pools_look(struct uma_valve_process *process) {
    bool less = false;
    for (unsigned i = 0; i < UMA_VALVE_POOLS; i++) {
        uint64_t key = atomic_load_explicit(&process->pools[i], memory_order_relaxed), reserved;
        bool of_graphs = key <= GRAPH_KEYS;
        CUmemoryPool pool = (CUmemoryPool)(uintptr_t)key; /* NOLINT(performance-no-int-to-ptr): the key is the pool's handle */
        if (key && (of_graphs ? graph_reserved((CUdevice)(key - 1), &reserved)
                              : attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved)))
            less |= set_pool(process, key, reserved) > reserved;
    }
    return less;
}

void uma_valve_graphs_read(CUdevice device) {
    struct uma_valve_process *process = uma_valve_process();
    uint64_t reserved;
    if (process && graph_reserved(device, &reserved))
        (void)set_pool(process, GRAPH_KEY(device), reserved);
}

void uma_valve_graphs_look(void) {
    struct uma_valve_process *process = uma_valve_process();
    for (unsigned i = 0; process && i < UMA_VALVE_POOLS; i++) {
        uint64_t key = atomic_load_explicit(&process->pools[i], memory_order_relaxed);
        if (key && key <= GRAPH_KEYS)
            uma_valve_graphs_read((CUdevice)(key - 1));
    }
}

static void read_pool(CUmemoryPool pool) {
    struct uma_valve_process *process = uma_valve_process();
    uint64_t reserved;
    if (process && attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved))
        (void)set_pool(process, (uint64_t)(uintptr_t)pool, reserved);
}

/* Is what is asked for in this stream written down for a graph, whose memory comes when it is launched? Neither the legacy stream nor none can be. */
static bool is_captured(CUstream stream) {
    static _Atomic(void *) kept;
    int status = 0;
    if ((uintptr_t)stream <= 1)
        return false;
    CUresult (*get)(CUstream, int *) = (CUresult(*)(CUstream, int *))uma_valve_real_once(&kept, "cuStreamIsCapturing");
    return get && get(stream, &status) == CUDA_SUCCESS && status != 0;
}

/* How much the pool will have to grow for it, at most. */
static uint64_t growth(CUmemoryPool pool, uint64_t size) {
    uint64_t reserved, used;
    if (!attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) ||
        !attribute_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
        return size;
    uint64_t idle = reserved > used ? reserved - used : 0;
    return size > idle ? size - idle : 0;
}

/* `allocate` does the driver's call with what is in `arguments`. */
struct arguments {
    void *real;
    CUdeviceptr *dptr;
    size_t bytesize;
    CUmemoryPool pool;         /* of the call; NULL: it names none */
    CUstream stream, captured; /* `captured`: the same by a name that says it everywhere */
};

/* The stream of a call of the per-thread kind: no stream is the thread's own. */
static CUstream of_thread(CUstream stream) {
    return stream ? stream : CU_STREAM_PER_THREAD;
}

static CUresult call_plain(const struct arguments *a) {
    return ((__typeof__(cuMemAllocAsync) *)a->real)(a->dptr, a->bytesize, a->stream);
}

static CUresult call_from_pool(const struct arguments *a) {
    return ((__typeof__(cuMemAllocFromPoolAsync) *)a->real)(a->dptr, a->bytesize, a->pool, a->stream);
}

static CUresult allocate(const char *name, const struct arguments *a, CUmemoryPool pool, CUresult (*call)(const struct arguments *a)) {
    struct uma_valve_ticket ticket;
    uint64_t reserved;
    CUdevice device;
    bool by_pool = attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    uint64_t size = !a->dptr ? 0 : by_pool ? growth(pool, a->bytesize) : a->bytesize;
    if (!uma_valve_ask(name, size, &ticket))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = call(a);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && uma_valve_ask_again(&ticket))
        r = call(a);
    if (r == CUDA_SUCCESS && !by_pool && ticket.process && a->dptr)
        uma_valve_given(&ticket, UMA_VALVE_DEVICE, *a->dptr, a->bytesize, 0);
    else
        uma_valve_not_given(&ticket);
    if (by_pool)
        read_pool(pool);
    if (r == CUDA_SUCCESS && is_captured(a->captured) && uma_valve_current_device(&device))
        uma_valve_graphs_read(device);
    return r;
}

static CUresult allocate_guarded(const char *name, const struct arguments *a, CUresult (*call)(const struct arguments *a)) {
    if (uma_valve_inside())
        return call(a);
    uma_valve_enter();
    CUresult r = allocate(name, a, a->pool ? a->pool : current_pool(), call);
    uma_valve_leave();
    return r;
}

/* NOLINTBEGIN(readability-non-const-parameter): the driver's own signatures */
CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    UMA_VALVE_REAL(cuMemAllocAsync);
    struct arguments a = { .real = (void *)real, .dptr = dptr, .bytesize = bytesize, .stream = hStream, .captured = hStream };
    return allocate_guarded("cuMemAllocAsync", &a, call_plain);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    UMA_VALVE_REAL(cuMemAllocAsync_ptsz);
    struct arguments a = { .real = (void *)real, .dptr = dptr, .bytesize = bytesize, .stream = hStream, .captured = of_thread(hStream) };
    return allocate_guarded("cuMemAllocAsync", &a, call_plain);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    UMA_VALVE_REAL(cuMemAllocFromPoolAsync);
    struct arguments a = { .real = (void *)real, .dptr = dptr, .bytesize = bytesize, .pool = pool, .stream = hStream, .captured = hStream };
    return pool ? allocate_guarded("cuMemAllocFromPoolAsync", &a, call_from_pool) : call_from_pool(&a);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    UMA_VALVE_REAL(cuMemAllocFromPoolAsync_ptsz);
    struct arguments a = {
        .real = (void *)real, .dptr = dptr, .bytesize = bytesize, .pool = pool, .stream = hStream, .captured = of_thread(hStream)
    };
    return pool ? allocate_guarded("cuMemAllocFromPoolAsync", &a, call_from_pool) : call_from_pool(&a);
}
/* NOLINTEND(readability-non-const-parameter) */

/* A free may be of what another call gave (cuMemAlloc); which pool it goes back to is seen when the pool is next looked at: the machine has it when the stream comes that far. */
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    UMA_VALVE_REAL(cuMemFreeAsync);
    UMA_VALVE_FREE(UMA_VALVE_DEVICE, dptr, real(dptr, hStream));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
    UMA_VALVE_REAL(cuMemFreeAsync_ptsz);
    UMA_VALVE_FREE(UMA_VALVE_DEVICE, dptr, real(dptr, hStream));
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
    UMA_VALVE_REAL(cuMemPoolTrimTo);
    CUresult r = real(pool, minBytesToKeep);
    if (r == CUDA_SUCCESS && !uma_valve_inside())
        read_pool(pool);
    return r;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    UMA_VALVE_REAL(cuMemPoolDestroy);
    struct uma_valve_process *process = uma_valve_inside() || !pool ? NULL : uma_valve_process();
    if (process)
        forget_pool(process, (uint64_t)(uintptr_t)pool); /* it is not asked any more; when it stays, it is noted at its next use */
    UMA_VALVE_FREE(UMA_VALVE_POOL, pool, real(pool));
}
