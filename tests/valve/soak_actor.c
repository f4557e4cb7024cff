/* SPDX-License-Identifier: MIT */
/* The calls of one thread. A driver's answer that is neither yes nor out of memory is a failure, but where the call was made to fail. */
#include "soak.h"

#include <pthread.h>
#include <string.h>

enum { FLOAT = 0x20, ATTRIBUTE_THRESHOLD = 4 };

static const uint64_t sizes[] = { 4096, 65536, 1 << 19, 1 << 20, 2 << 20, 8 << 20, 16 << 20, 32 << 20 };

static void *pointer(uint64_t number) {
    return (void *)(uintptr_t)number; /* NOLINT(performance-no-int-to-ptr): handles are kept as numbers */
}

/* ---- answers ---- */

static bool said_yes(struct soak_actor *a, const char *call, CUresult r) {
    a->calls++;
    a->refused += r == CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_OUT_OF_MEMORY)
        soak_failed("%s answered %d", call, r);
    return r == CUDA_SUCCESS;
}

static void must(struct soak_actor *a, const char *call, CUresult r) {
    a->calls++;
    if (r != CUDA_SUCCESS)
        soak_failed("%s answered %d", call, r);
}

/* A call that gives back, until the driver does it: a stubborn one says at times that it did not, and then it did not. */
enum { STUBBORN = 999 };
#define MUST_GIVE(a, name, call)                                                                                                           \
    do {                                                                                                                                   \
        CUresult r_;                                                                                                                       \
        while ((r_ = (call)) == STUBBORN)                                                                                                  \
            (a)->failing++;                                                                                                                \
        must(a, name, r_);                                                                                                                 \
    } while (0)

static void must_not(struct soak_actor *a, const char *call, CUresult r) {
    a->calls++;
    a->failing++;
    if (r == CUDA_SUCCESS)
        soak_failed("%s succeeded with what was none", call);
}

/* ---- taking ---- */

static CUresult take_device(struct soak_actor *a, struct soak_thing *t, unsigned how) {
    struct api *api = &a->api;
    size_t pitch;
    t->kind = SOAK_DEVICE;
    if (how == 0)
        return api->cuMemAlloc_v2(&t->key, t->size);
    if (how == 1)
        return api->cuMemAllocPitch_v2(&t->key, &pitch, 1000 + soak_below(&a->random, 1000), t->size / 4096 + 1, 4);
    return api->cuMemAllocManaged(&t->key, t->size, 1);
}

static CUresult take_host(struct soak_actor *a, struct soak_thing *t, unsigned how) {
    void *made = NULL;
    CUresult r = how ? a->api.cuMemHostAlloc(&made, t->size, how) : a->api.cuMemAllocHost_v2(&made, t->size);
    t->kind = SOAK_HOST;
    t->key = (uint64_t)(uintptr_t)made;
    return r;
}

static CUresult take_array(struct soak_actor *a, struct soak_thing *t, unsigned how) {
    void *made = NULL;
    CUDA_ARRAY_DESCRIPTOR flat = { .Width = t->size / 4, .Format = FLOAT, .NumChannels = 1 };
    CUDA_ARRAY3D_DESCRIPTOR deep = { .Width = 32, .Height = 32, .Depth = t->size / 4096, .Format = FLOAT, .NumChannels = 1 };
    CUresult r = how == 0   ? a->api.cuArrayCreate_v2((CUarray *)&made, &flat)
                 : how == 1 ? a->api.cuArray3DCreate_v2((CUarray *)&made, &deep)
                            : a->api.cuMipmappedArrayCreate((CUmipmappedArray *)&made, &deep, 1 + soak_below(&a->random, 5));
    t->kind = how == 2 ? SOAK_MIPMAP : SOAK_ARRAY;
    t->key = (uint64_t)(uintptr_t)made;
    return r;
}

static CUresult take_async(struct soak_actor *a, struct soak_thing *t) {
    CUmemPoolProps props = { .allocType = 1, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    t->kind = SOAK_ASYNC;
    t->size = (uint64_t)SOAK_BLOCK * (1 + soak_below(&a->random, 8));
    if (!a->pool && soak_below(&a->random, 4) == 0)
        must(a, "cuMemPoolCreate", a->api.cuMemPoolCreate(&a->pool, &props));
    t->in_pool = a->pool && soak_below(&a->random, 2);
    t->in_context = false; /* what a pool gives does not go with a context */
    return t->in_pool ? a->api.cuMemAllocFromPoolAsync(&t->key, t->size, a->pool, NULL) : a->api.cuMemAllocAsync(&t->key, t->size, NULL);
}

static CUresult take_handle(struct soak_actor *a, struct soak_thing *t) {
    CUmemAllocationProp prop = { .type = 1, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    t->kind = SOAK_VMM;
    t->in_context = false;
    t->size = (uint64_t)SOAK_BLOCK * (1 + soak_below(&a->random, 8));
    t->references = 1;
    return a->api.cuMemCreate(&t->key, t->size, &prop, 0);
}

static CUresult take_code(struct soak_actor *a, struct soak_thing *t, unsigned how) {
    void *made = NULL;
    CUresult r = how == 0   ? a->api.cuModuleLoad((CUmodule *)&made, "/dev/null")
                 : how == 1 ? a->api.cuModuleLoadData((CUmodule *)&made, "code")
                 : how == 2 ? a->api.cuModuleLoadDataEx((CUmodule *)&made, "code", 0, NULL, NULL)
                 : how == 3 ? a->api.cuModuleLoadFatBinary((CUmodule *)&made, "code")
                 : how == 4 ? a->api.cuLibraryLoadData((CUlibrary *)&made, "code", NULL, NULL, 0, NULL, NULL, 0)
                            : a->api.cuLibraryLoadFromFile((CUlibrary *)&made, "/dev/null", NULL, NULL, 0, NULL, NULL, 0);
    t->kind = how < 4 ? SOAK_MODULE : SOAK_LIBRARY;
    t->in_context = how < 4 && t->in_context;
    t->key = (uint64_t)(uintptr_t)made;
    return r;
}

static void take(struct soak_actor *a, struct soak_thing *t) {
    unsigned which = soak_below(&a->random, 24);
    *t = (struct soak_thing){ .size = sizes[soak_below(&a->random, sizeof(sizes) / sizeof(sizes[0]))], .in_context = a->own };
    CUresult r = which < 8    ? take_device(a, t, which % 3)
                 : which < 11 ? take_host(a, t, which - 8)
                 : which < 14 ? take_array(a, t, which - 11)
                 : which < 18 ? take_async(a, t)
                 : which < 22 ? take_handle(a, t)
                              : take_code(a, t, soak_below(&a->random, 6));
    if (!said_yes(a, "a call that takes memory", r))
        t->kind = SOAK_NONE;
    else if (!t->key)
        soak_failed("a call that took memory said nothing");
}

/* ---- giving back ---- */

static void give_handle(struct soak_actor *a, struct soak_thing *t) {
    if (t->address)
        MUST_GIVE(a, "cuMemUnmap", a->api.cuMemUnmap(t->address, t->size));
    t->address = 0;
    for (; t->references > 0; t->references--)
        MUST_GIVE(a, "cuMemRelease", a->api.cuMemRelease(t->key));
}

/* Of what a pool gave, and of what cuMemAlloc did, either call. */
static void give_pointer(struct soak_actor *a, uint64_t key, bool in_stream) {
    if (in_stream)
        MUST_GIVE(a, "cuMemFreeAsync", a->api.cuMemFreeAsync(key, NULL));
    else
        MUST_GIVE(a, "cuMemFree", a->api.cuMemFree_v2(key));
}

static void give(struct soak_actor *a, struct soak_thing *t) {
    switch (t->kind) {
    case SOAK_NONE:
        return;
    case SOAK_DEVICE:
        give_pointer(a, t->key, soak_below(&a->random, 4) == 0);
        a->freed = t->key;
        break;
    case SOAK_ASYNC:
        give_pointer(a, t->key, soak_below(&a->random, 4) != 0);
        break;
    case SOAK_HOST:
        MUST_GIVE(a, "cuMemFreeHost", a->api.cuMemFreeHost(pointer(t->key)));
        break;
    case SOAK_ARRAY:
        MUST_GIVE(a, "cuArrayDestroy", a->api.cuArrayDestroy(pointer(t->key)));
        break;
    case SOAK_MIPMAP:
        MUST_GIVE(a, "cuMipmappedArrayDestroy", a->api.cuMipmappedArrayDestroy(pointer(t->key)));
        break;
    case SOAK_VMM:
        give_handle(a, t);
        break;
    case SOAK_MODULE:
        MUST_GIVE(a, "cuModuleUnload", a->api.cuModuleUnload(pointer(t->key)));
        break;
    case SOAK_LIBRARY:
        MUST_GIVE(a, "cuLibraryUnload", a->api.cuLibraryUnload(pointer(t->key)));
        break;
    }
    t->kind = SOAK_NONE;
}

/* Of handles: mapped, referred to once more, let go of one by one. The last of them frees. */
static void change_handle(struct soak_actor *a, struct soak_thing *t) {
    uint64_t same = 0;
    switch (soak_below(&a->random, 4)) {
    case 0:
        if (!t->address && t->references) {
            must(a, "cuMemAddressReserve", a->api.cuMemAddressReserve(&t->address, t->size, 0, 0, 0));
            must(a, "cuMemMap", a->api.cuMemMap(t->address, t->size, 0, t->key, 0));
        }
        break;
    case 1:
        if (t->address) {
            must(a, "cuMemRetainAllocationHandle", a->api.cuMemRetainAllocationHandle(&same, pointer(t->address)));
            t->references++;
            if (same != t->key)
                soak_failed("cuMemRetainAllocationHandle gave another handle");
        }
        break;
    case 2:
        if (t->references > 0 && (t->address || t->references > 1)) {
            MUST_GIVE(a, "cuMemRelease", a->api.cuMemRelease(t->key));
            t->references--;
        }
        break;
    default:
        if (t->address && t->references > 0) {
            MUST_GIVE(a, "cuMemUnmap", a->api.cuMemUnmap(t->address, t->size));
            t->address = 0;
        }
    }
}

/* ---- what is not memory of its own ---- */

static void contexts(struct soak_actor *a) {
    CUcontext same = NULL;
    CUresult r;
    switch (soak_below(&a->random, 4)) {
    case 0: /* one more user of the primary context, which stays */
        must(a, "cuDevicePrimaryCtxRetain", a->api.cuDevicePrimaryCtxRetain(&same, 0));
        MUST_GIVE(a, "cuDevicePrimaryCtxRelease", a->api.cuDevicePrimaryCtxRelease_v2(0));
        if (same != a->primary)
            soak_failed("another primary context");
        return;
    default:
        break;
    }
    if (!a->own) {
        r = soak_below(&a->random, 2) ? a->api.cuCtxCreate_v2(&a->own, 0, 0) : a->api.cuCtxCreate_v4(&a->own, NULL, 0, 0);
        if (!said_yes(a, "cuCtxCreate", r))
            a->own = NULL;
        return;
    }
    MUST_GIVE(a, "cuCtxDestroy", a->api.cuCtxDestroy_v2(a->own)); /* and all that is in it */
    a->own = NULL;
    for (unsigned i = 0; i < SOAK_THINGS; i++)
        if (a->things[i].in_context)
            a->things[i].kind = SOAK_NONE;
    must(a, "cuCtxSetCurrent", a->api.cuCtxSetCurrent(a->primary));
}

static void end_pool(struct soak_actor *a) {
    for (unsigned i = 0; i < SOAK_THINGS; i++)
        if (a->things[i].kind == SOAK_ASYNC && a->things[i].in_pool)
            give(a, &a->things[i]);
    if (a->pool)
        MUST_GIVE(a, "cuMemPoolDestroy", a->api.cuMemPoolDestroy(a->pool));
    a->pool = NULL;
}

static void pools(struct soak_actor *a) {
    CUmemoryPool pool = NULL;
    uint64_t threshold = soak_below(&a->random, 2) ? 0 : 8 << 20;
    must(a, "cuDeviceGetMemPool", a->api.cuDeviceGetMemPool(&pool, 0));
    switch (soak_below(&a->random, 5)) {
    case 0:
        MUST_GIVE(a, "cuMemPoolTrimTo", a->api.cuMemPoolTrimTo(pool, threshold));
        break;
    case 1:
        must(a, "cuMemPoolSetAttribute", a->api.cuMemPoolSetAttribute(pool, ATTRIBUTE_THRESHOLD, &threshold));
        break;
    case 2:
        end_pool(a);
        break;
    default:
        must(a, "cuStreamSynchronize", a->api.cuStreamSynchronize(NULL));
    }
}

static void graphs(struct soak_actor *a) {
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = { .bytesize = SOAK_GRAPH };
    must(a, "cuGraphCreate", a->api.cuGraphCreate(&graph, 0));
    bool has_node = said_yes(a, "cuGraphAddMemAllocNode", a->api.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    if (has_node && said_yes(a, "cuGraphInstantiate", a->api.cuGraphInstantiateWithFlags(&exec, graph, 0))) {
        (void)said_yes(a, "cuGraphLaunch", a->api.cuGraphLaunch(exec, NULL));
        must(a, "cuGraphExecDestroy", a->api.cuGraphExecDestroy(exec));
    }
    must(a, "cuGraphDestroy", a->api.cuGraphDestroy(graph));
    if (soak_below(&a->random, 2))
        MUST_GIVE(a, "cuDeviceGraphMemTrim", a->api.cuDeviceGraphMemTrim(0));
}

static void read_figures(struct soak_actor *a) {
    size_t free = 0, total = 0, device = 0;
    must(a, "cuMemGetInfo", a->api.cuMemGetInfo_v2(&free, &total));
    must(a, "cuMemGetInfo", a->api.cuMemGetInfo_v2(NULL, &device));
    must(a, "cuMemGetInfo", a->api.cuMemGetInfo_v2(&device, NULL));
    must(a, "cuDeviceTotalMem", a->api.cuDeviceTotalMem_v2(&device, 0));
    if (free > total || (a->unified && (total > a->ceiling || device != total)))
        soak_failed("free %zu total %zu of the device %zu", free, total, device);
}

static void fail(struct soak_actor *a, const struct soak_thing *t) {
    uint64_t none = UINT64_C(0xdead00001234);
    size_t pitch;
    CUDA_ARRAY_DESCRIPTOR flat = { .Width = 0, .Format = FLOAT, .NumChannels = 1 };
    CUarray array;
    switch (soak_below(&a->random, 12)) {
    case 0:
        must_not(a, "cuMemFree", a->api.cuMemFree_v2(none));
        break;
    case 1:
        must_not(a, "cuMemFreeHost", a->api.cuMemFreeHost(pointer(none)));
        break;
    case 2:
        must_not(a, "cuMemRelease", a->api.cuMemRelease(none));
        break;
    case 3:
        must_not(a, "cuMemUnmap", a->api.cuMemUnmap(none, SOAK_BLOCK));
        break;
    case 4:
        must_not(a, "cuArrayDestroy", a->api.cuArrayDestroy(NULL));
        break;
    case 5:
        (void)a->api.cuMemFree_v2(0); /* the driver may take it for nothing to do */
        break;
    case 6:
        must_not(a, "cuMemAlloc", a->api.cuMemAlloc_v2(NULL, 1 << 20));
        break;
    case 7:
        must_not(a, "cuMemAllocPitch", a->api.cuMemAllocPitch_v2(NULL, &pitch, 1 << 20, 1, 4));
        break;
    case 8:
        must_not(a, "cuArrayCreate", a->api.cuArrayCreate_v2(&array, &flat));
        break;
    case 9: /* by the wrong call */
        if (t->kind == SOAK_DEVICE)
            must_not(a, "cuMemFreeHost", a->api.cuMemFreeHost(pointer(t->key)));
        break;
    case 10: /* twice: with addresses given anew it would be another thread's */
        if (a->freed && !a->reuse)
            must_not(a, "cuMemFree", a->api.cuMemFree_v2(a->freed));
        break;
    default:
        must_not(a, "cuModuleUnload", a->api.cuModuleUnload(pointer(none)));
    }
}

/* ---- between threads of a process ---- */

enum { MAILBOX = 4 };
static pthread_mutex_t mailbox_lock = PTHREAD_MUTEX_INITIALIZER;
static struct soak_thing mailbox[MAILBOX];

/* What one thread took another gives back. */
static void exchange(struct soak_actor *a, struct soak_thing *t) {
    if (t->in_context || t->in_pool)
        return;
    unsigned at = soak_below(&a->random, MAILBOX);
    (void)pthread_mutex_lock(&mailbox_lock);
    struct soak_thing other = mailbox[at];
    mailbox[at] = *t;
    (void)pthread_mutex_unlock(&mailbox_lock);
    *t = other;
}

/* ---- one step ---- */

void soak_step(struct soak_actor *a) {
    struct soak_thing *t = &a->things[soak_below(&a->random, SOAK_THINGS)];
    unsigned which = soak_below(&a->random, 100);
    if (which < 70) {
        if (t->kind == SOAK_NONE)
            take(a, t);
        else if (t->kind == SOAK_VMM && soak_below(&a->random, 3))
            change_handle(a, t);
        else
            give(a, t);
    } else if (which < 76)
        fail(a, t);
    else if (which < 82)
        exchange(a, t);
    else if (which < 86)
        contexts(a);
    else if (which < 91)
        pools(a);
    else if (which < 93)
        graphs(a);
    else if (which < 98)
        read_figures(a);
    else if (soak_below(&a->random, 8) == 0) {
        soak_close(a);
        if (soak_open(a))
            a->reopened++;
    }
}

void soak_look(struct soak_actor *a) {
    CUmemoryPool pool = NULL;
    must(a, "cuDeviceGetMemPool", a->api.cuDeviceGetMemPool(&pool, 0));
    MUST_GIVE(a, "cuMemPoolTrimTo", a->api.cuMemPoolTrimTo(pool, SIZE_MAX));
    if (a->pool)
        MUST_GIVE(a, "cuMemPoolTrimTo", a->api.cuMemPoolTrimTo(a->pool, SIZE_MAX));
    MUST_GIVE(a, "cuDeviceGraphMemTrim", a->api.cuDeviceGraphMemTrim(0));
}

void soak_give_all(struct soak_actor *a) {
    CUmemoryPool pool = NULL;
    if (a->own) {
        MUST_GIVE(a, "cuCtxDestroy", a->api.cuCtxDestroy_v2(a->own));
        a->own = NULL;
        for (unsigned i = 0; i < SOAK_THINGS; i++)
            if (a->things[i].in_context)
                a->things[i].kind = SOAK_NONE;
        must(a, "cuCtxSetCurrent", a->api.cuCtxSetCurrent(a->primary));
    }
    end_pool(a);
    for (unsigned i = 0; i < SOAK_THINGS; i++)
        give(a, &a->things[i]);
    for (unsigned i = 0; i < MAILBOX; i++) {
        struct soak_thing nothing = { 0 };
        (void)pthread_mutex_lock(&mailbox_lock);
        struct soak_thing other = mailbox[i];
        mailbox[i] = nothing;
        (void)pthread_mutex_unlock(&mailbox_lock);
        give(a, &other);
    }
    must(a, "cuDeviceGetMemPool", a->api.cuDeviceGetMemPool(&pool, 0));
    MUST_GIVE(a, "cuMemPoolTrimTo", a->api.cuMemPoolTrimTo(pool, 0));
    MUST_GIVE(a, "cuDeviceGraphMemTrim", a->api.cuDeviceGraphMemTrim(0));
}

bool soak_refused_as_child(struct soak_actor *a) {
    uint64_t at = 0;
    void *host = NULL;
    /* at its ceiling, the job is refused before the driver is asked */
    CUresult device = a->api.cuMemAlloc_v2(&at, 1 << 20), page_locked = a->api.cuMemHostAlloc(&host, 1 << 20, 0);
    return (device == CUDA_ERROR_NOT_INITIALIZED || device == CUDA_ERROR_OUT_OF_MEMORY) &&
           (page_locked == CUDA_ERROR_NOT_INITIALIZED || page_locked == CUDA_ERROR_OUT_OF_MEMORY) &&
           a->api.cuMemFree_v2(a->things[0].key) == CUDA_ERROR_NOT_INITIALIZED && a->api.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
}

void soak_count(struct soak_actor *a) {
    (void)atomic_fetch_add(&soak_control->calls, a->calls);
    (void)atomic_fetch_add(&soak_control->refused, a->refused);
    (void)atomic_fetch_add(&soak_control->failing, a->failing);
    (void)atomic_fetch_add(&soak_control->reopened, a->reopened);
    a->calls = a->refused = a->failing = a->reopened = 0;
}
