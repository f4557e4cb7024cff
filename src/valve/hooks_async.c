/* SPDX-License-Identifier: MIT */
/*
 * Memory in the order of a stream: it comes out of a pool of the driver's, which takes from the machine in blocks of its own and keeps what was freed. What counts is what the pool has reserved, as the driver
 * says it (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), not the sum of the calls; the same for the memory of graphs, one pool of each device (hooks_graph.c).
 */
#include "valve/hook.h"
#include "valve/pools.h"
#include "valve/process.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

/* Those who are asking the driver about pools have their answer before it is destroyed; a call of theirs takes no longer than this, or it is not waited for. */
enum { LOOK_WAIT_NS = 50000, LOOK_WAITS = 4000 };

static void forget_pool(struct uma_valve_process *process, uint64_t key) {
    for (unsigned i = 0; i < UMA_VALVE_POOLS; i++) {
        uint64_t is = key;
        (void)atomic_compare_exchange_strong(&process->pools[i], &is, 0);
    }
    for (unsigned i = 0; i < LOOK_WAITS && atomic_load(&process->pools_looked_at); i++) {
        struct timespec pause = { .tv_nsec = LOOK_WAIT_NS };
        (void)syscall(SYS_nanosleep, &pause, NULL);
    }
}

/* What the driver has reserved for it. */
static bool reserved_of(uint64_t key, uint64_t *ret_reserved) {
    if (key <= GRAPH_KEYS)
        return graph_reserved((CUdevice)(key - 1), ret_reserved);
    CUmemoryPool pool = (CUmemoryPool)(uintptr_t)key; /* NOLINT(performance-no-int-to-ptr): the key is the pool's handle */
    return attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, ret_reserved);
}

/* What a pool has is set to what the driver says. Returned: what it had before. */
static uint64_t set_pool(struct uma_valve_process *process, uint64_t key, uint64_t reserved) {
    uint64_t before = 0;
    if (!uma_valve_held_resize(process->held, UMA_VALVE_POOL, key, reserved, &before)) {
        struct uma_valve_holding pool = { .key = key, .size = reserved, .kind = UMA_VALVE_POOL };
        if (!uma_valve_held_put(process->held, &pool, &before))
            return reserved;
    }
    if (reserved > before) {
        (void)atomic_fetch_add(&process->slot->used, reserved - before);
        uma_valve_account_note_most(process->account);
    } else
        uma_valve_account_give_back(process->slot, before - reserved);
    return before;
}

/*
 * Asked once more after it was set: of threads that do this at once, one may write down what was true before another's call. Whoever writes last sees what is. True: the pool has less than
 * before.
 */
static bool settle(struct uma_valve_process *process, uint64_t key) {
    enum { TRIES = 8 };
    uint64_t reserved, now;
    bool less = false;
    if (!reserved_of(key, &reserved))
        return false;
    for (unsigned i = 0; i < TRIES; i++, reserved = now) {
        less |= set_pool(process, key, reserved) > reserved;
        if (!reserved_of(key, &now) || now == reserved)
            break;
    }
    return less;
}

bool uma_valve_pools_look(struct uma_valve_process *process) {
    bool less = false;
    (void)atomic_fetch_add(&process->pools_looked_at, 1);
    for (unsigned i = 0; i < UMA_VALVE_POOLS; i++) {
        uint64_t key = atomic_load(&process->pools[i]); /* after the count, which forget_pool() reads after it took the key out */
        if (key)
            less |= settle(process, key);
    }
    (void)atomic_fetch_sub(&process->pools_looked_at, 1);
    return less;
}

static void read_pool(uint64_t key) {
    struct uma_valve_process *process = uma_valve_process();
    if (!process)
        return;
    (void)settle(process, key);
    note_pool(process, key);
}

/* A device that is none, as the arguments of a program may name one, would have the key of a pool. */
void uma_valve_graphs_read(CUdevice device) {
    if (device >= 0 && GRAPH_KEY(device) <= GRAPH_KEYS)
        read_pool(GRAPH_KEY(device));
}

void uma_valve_graphs_look(void) {
    struct uma_valve_process *process = uma_valve_process();
    for (unsigned i = 0; process && i < UMA_VALVE_POOLS; i++) {
        uint64_t key = atomic_load_explicit(&process->pools[i], memory_order_relaxed);
        if (key && key <= GRAPH_KEYS)
            (void)settle(process, key);
    }
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

/* How much a pool that has `reserved` will have to grow for it, at most. `claimed`: what calls under way may find idle before this one. */
static uint64_t growth(CUmemoryPool pool, uint64_t reserved, uint64_t size, uint64_t claimed) {
    uint64_t used;
    if (!attribute_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
        return size;
    uint64_t idle = reserved > used ? reserved - used : 0;
    idle = idle > claimed ? idle - claimed : 0;
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

/* After a call, which most often found what it needed in a pool that had it: then what is written down is what the driver says, and stays. */
static void read_pool_after(struct uma_valve_process *process, CUmemoryPool pool) {
    uint64_t key = (uint64_t)(uintptr_t)pool, reserved;
    struct uma_valve_holding written;
    if (!attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) ||
        !uma_valve_held_find(process->held, UMA_VALVE_POOL, key, &written) || written.size != reserved)
        read_pool(key);
}

/* Out of a pool that the driver answers for, which has `reserved`: what it grows by is counted as the pool's before the call's own claim is let go of, so that no other process finds room in between. */
static CUresult allocate_of(const char *name, const struct arguments *a, CUmemoryPool pool, uint64_t reserved,
                            CUresult (*call)(const struct arguments *a)) {
    struct uma_valve_process *process = uma_valve_process();
    struct uma_valve_ticket ticket;
    if (!process || !a->dptr || !a->bytesize)
        return call(a);
    uint64_t claimed = atomic_fetch_add(&process->pool_claims, a->bytesize);
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    if (uma_valve_ask(name, growth(pool, reserved, a->bytesize, claimed), &ticket)) {
        r = call(a);
        if (r == CUDA_ERROR_OUT_OF_MEMORY && uma_valve_ask_again(&ticket))
            r = call(a);
        read_pool_after(process, pool);
        uma_valve_not_given(&ticket);
    }
    (void)atomic_fetch_sub(&process->pool_claims, a->bytesize);
    return r;
}

static CUresult allocate(const char *name, const struct arguments *a, CUmemoryPool pool, CUresult (*call)(const struct arguments *a)) {
    struct uma_valve_ticket ticket;
    uint64_t reserved;
    if (attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved))
        return allocate_of(name, a, pool, reserved, call);
    if (!uma_valve_ask(name, a->dptr ? a->bytesize : 0, &ticket))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = call(a);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && uma_valve_ask_again(&ticket))
        r = call(a);
    if (r == CUDA_SUCCESS && ticket.process && a->dptr)
        uma_valve_given(&ticket, UMA_VALVE_DEVICE, *a->dptr, a->bytesize, 0);
    else
        uma_valve_not_given(&ticket);
    return r;
}

static CUresult allocate_guarded(const char *name, const struct arguments *a, CUresult (*call)(const struct arguments *a)) {
    if (uma_valve_inside())
        return call(a);
    CUdevice device;
    uma_valve_enter();
    CUresult r = allocate(name, a, a->pool ? a->pool : current_pool(), call);
    if (r == CUDA_SUCCESS && is_captured(a->captured) && uma_valve_current_device(&device))
        uma_valve_graphs_read(device);
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
        read_pool((uint64_t)(uintptr_t)pool);
    return r;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    UMA_VALVE_REAL(cuMemPoolDestroy);
    struct uma_valve_process *process = uma_valve_inside() || !pool ? NULL : uma_valve_process();
    if (process)
        forget_pool(process, (uint64_t)(uintptr_t)pool); /* it is not asked any more; when it stays, it is noted at its next use */
    UMA_VALVE_FREE(UMA_VALVE_POOL, pool, real(pool));
}
