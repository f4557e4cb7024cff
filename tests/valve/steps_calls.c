/* SPDX-License-Identifier: MIT */
/*
 * The calls that take memory, by name, each with the one that gives it back: for the matrix of routes and calls (test_routes.py). "A+B" is A with B to go with it: a graph made by A and run by B, a context of A's
 * that B ends.
 */
#include "steps.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 32 };
enum { FLOAT = 0x20 };
enum { ASIDE = 2 /* the device whose primary context is nobody else's in the program */ };

static CUresult take_memory(const char *call, uint64_t size, uint64_t extra, uint64_t *ret_key) {
    CUdeviceptr at = 0;
    void *made = NULL;
    size_t pitch;
    CUresult r = -1;
    CUDA_ARRAY_DESCRIPTOR flat = { .Width = size / 4, .Format = FLOAT, .NumChannels = 1 };
    CUDA_ARRAY3D_DESCRIPTOR deep = { .Width = 64, .Height = 64, .Depth = size / 4 / 4096, .Format = FLOAT, .NumChannels = 1 };
    /* of cuMemCreate: where, and which of them */
    CUmemAllocationProp prop = {
        .type = 1, .location = { .type = extra ? (int)(extra & 0xff) : CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(extra >> 8) }
    };
    if (strcmp(call, "cuMemAlloc") == 0)
        r = api->cuMemAlloc_v2(&at, size);
    else if (strcmp(call, "cuMemAllocPitch") == 0)
        r = api->cuMemAllocPitch_v2(&at, &pitch, 4096, size / 4096, 4);
    else if (strcmp(call, "cuMemAllocManaged") == 0)
        r = api->cuMemAllocManaged(&at, size, 1);
    else if (strcmp(call, "cuMemAllocHost") == 0)
        r = api->cuMemAllocHost_v2(&made, size);
    else if (strcmp(call, "cuMemHostAlloc") == 0)
        r = api->cuMemHostAlloc(&made, size, 0);
    else if (strcmp(call, "cuMemCreate") == 0)
        r = api->cuMemCreate(&at, size, &prop, 0);
    else if (strcmp(call, "cuMemAllocAsync") == 0)
        r = api->cuMemAllocAsync(&at, size, NULL);
    else if (strcmp(call, "cuMemAllocFromPoolAsync") == 0)
        r = api->cuMemAllocFromPoolAsync(&at, size, pointer(extra), NULL);
    else if (strcmp(call, "cuArrayCreate") == 0)
        r = api->cuArrayCreate_v2((CUarray *)&made, &flat);
    else if (strcmp(call, "cuArray3DCreate") == 0)
        r = api->cuArray3DCreate_v2((CUarray *)&made, &deep);
    else if (strcmp(call, "cuMipmappedArrayCreate") == 0)
        r = api->cuMipmappedArrayCreate((CUmipmappedArray *)&made, &deep, 1);
    *ret_key = at ? at : (uint64_t)(uintptr_t)made;
    return r;
}

static CUresult give_memory(const char *call, uint64_t key) {
    if (strcmp(call, "cuMemAllocHost") == 0 || strcmp(call, "cuMemHostAlloc") == 0)
        return api->cuMemFreeHost(pointer(key));
    if (strcmp(call, "cuMemCreate") == 0)
        return api->cuMemRelease(key);
    if (strcmp(call, "cuMemAllocAsync") == 0 || strcmp(call, "cuMemAllocFromPoolAsync") == 0)
        return api->cuMemFreeAsync(key, NULL);
    if (strncmp(call, "cuArray", 7) == 0)
        return api->cuArrayDestroy(pointer(key));
    if (strncmp(call, "cuMipmapped", 11) == 0)
        return api->cuMipmappedArrayDestroy(pointer(key));
    return api->cuMemFree_v2(key);
}

static CUresult load(const char *call, uint64_t *ret_key) {
    void *made = NULL;
    CUresult r = -1;
    if (strcmp(call, "cuModuleLoad") == 0)
        r = api->cuModuleLoad((CUmodule *)&made, "/dev/null");
    else if (strcmp(call, "cuModuleLoadData") == 0)
        r = api->cuModuleLoadData((CUmodule *)&made, "code");
    else if (strcmp(call, "cuModuleLoadDataEx") == 0)
        r = api->cuModuleLoadDataEx((CUmodule *)&made, "code", 0, NULL, NULL);
    else if (strcmp(call, "cuModuleLoadFatBinary") == 0)
        r = api->cuModuleLoadFatBinary((CUmodule *)&made, "code");
    else if (strcmp(call, "cuLibraryLoadData") == 0)
        r = api->cuLibraryLoadData((CUlibrary *)&made, "code", NULL, NULL, 0, NULL, NULL, 0);
    else if (strcmp(call, "cuLibraryLoadFromFile") == 0)
        r = api->cuLibraryLoadFromFile((CUlibrary *)&made, "/dev/null", NULL, NULL, 0, NULL, NULL, 0);
    *ret_key = (uint64_t)(uintptr_t)made;
    return r;
}

/* A graph that needs memory, made in one of the ways in which it can be: by the call for it, by the call for any node (of two versions), or out of a stream that is captured. */
static CUresult make_graph(const char *how, uint64_t size, CUgraph *ret_graph) {
    CUgraphNode node;
    CUstream stream = NULL;
    CUdeviceptr at;
    CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .of.alloc.bytesize = size };
    *ret_graph = NULL;
    if (strcmp(how, "captured") == 0) {
        CUresult r = api->cuStreamCreate(&stream, 1);
        r = r == CUDA_SUCCESS ? api->cuStreamBeginCapture_v2(stream, 0) : r;
        CUresult asked = r == CUDA_SUCCESS ? api->cuMemAllocAsync(&at, size, stream) : r;
        r = r == CUDA_SUCCESS ? api->cuStreamEndCapture(stream, ret_graph) : r;
        (void)api->cuStreamDestroy_v2(stream);
        return r == CUDA_SUCCESS ? asked : r;
    }
    CUresult r = api->cuGraphCreate(ret_graph, 0);
    if (r != CUDA_SUCCESS)
        return r;
    if (strcmp(how, "node") == 0)
        return api->cuGraphAddNode(&node, *ret_graph, NULL, 0, &any);
    if (strcmp(how, "node-v2") == 0)
        return api->cuGraphAddNode_v2(&node, *ret_graph, NULL, NULL, 0, &any);
    return api->cuGraphAddMemAllocNode(&node, *ret_graph, NULL, 0, &any.of.alloc);
}

CUresult run_graph(const char *how, uint64_t size, bool upload) {
    CUgraph graph;
    CUgraphExec exec = NULL;
    CUresult r = make_graph(how, size, &graph);
    if (r == CUDA_SUCCESS)
        r = api->cuGraphInstantiateWithFlags(&exec, graph, 0);
    if (r == CUDA_SUCCESS)
        r = upload ? api->cuGraphUpload(exec, NULL) : api->cuGraphLaunch(exec, NULL);
    if (exec)
        (void)api->cuGraphExecDestroy(exec);
    if (graph)
        (void)api->cuGraphDestroy(graph);
    return r;
}

/* ---- contexts ---- */

static CUresult take_context(const char *call, uint64_t *ret_key) {
    CUcontext context = NULL;
    CUdevice device = 0;
    CUresult r = api->cuCtxGetDevice(&device);
    if (r != CUDA_SUCCESS)
        return r;
    if (strncmp(call, "cuCtxCreate_v4", 14) == 0)
        r = api->cuCtxCreate_v4(&context, NULL, 0, device);
    else if (strncmp(call, "cuCtxCreate_v3", 14) == 0)
        r = api->cuCtxCreate_v3(&context, NULL, 0, 0, device);
    else if (strncmp(call, "cuCtxCreate_v2", 14) == 0)
        r = api->cuCtxCreate_v2(&context, 0, device);
    else if (strncmp(call, "cuGreenCtxCreate", 16) == 0)
        r = api->cuGreenCtxCreate((CUgreenCtx *)&context, pointer(1), device, 1);
    else
        r = api->cuDevicePrimaryCtxRetain(&context, ASIDE);
    *ret_key = (uint64_t)(uintptr_t)context;
    return r;
}

static CUresult give_context(const char *call, uint64_t key) {
    const char *by = strchr(call, '+') ? strchr(call, '+') + 1 : "";
    if (strncmp(call, "cuGreenCtxCreate", 16) == 0)
        return api->cuGreenCtxDestroy(pointer(key));
    if (strncmp(call, "cuCtxCreate", 11) == 0)
        return strcmp(by, "cuCtxDestroy") == 0 ? api->cuCtxDestroy(pointer(key)) : api->cuCtxDestroy_v2(pointer(key));
    return strcmp(by, "cuDevicePrimaryCtxReset") == 0      ? api->cuDevicePrimaryCtxReset(ASIDE)
           : strcmp(by, "cuDevicePrimaryCtxReset_v2") == 0 ? api->cuDevicePrimaryCtxReset_v2(ASIDE)
           : strcmp(by, "cuDevicePrimaryCtxRelease") == 0  ? api->cuDevicePrimaryCtxRelease(ASIDE)
                                                           : api->cuDevicePrimaryCtxRelease_v2(ASIDE);
}

static bool is_of_context(const char *call) {
    return strncmp(call, "cuCtx", 5) == 0 || strncmp(call, "cuGreenCtx", 10) == 0 || strncmp(call, "cuDevicePrimary", 15) == 0;
}

/* ---- all ---- */

static bool is_of_graph(const char *call) {
    return strncmp(call, "cuGraph", 7) == 0 || strncmp(call, "captured", 8) == 0;
}

static CUresult take_graph(const char *call, uint64_t size) {
    const char *how = strncmp(call, "captured", 8) == 0             ? "captured"
                      : strncmp(call, "cuGraphAddNode_v2", 17) == 0 ? "node-v2"
                      : strncmp(call, "cuGraphAddNode", 14) == 0    ? "node"
                                                                    : "";
    return run_graph(how, size, strstr(call, "+cuGraphUpload"));
}

static _Atomic uint64_t mapped_size; /* the same for all of a program */

/* A handle that is mapped; what gives it back unmaps it. */
static CUresult take_mapped(uint64_t size, uint64_t *ret_key) {
    uint64_t handle = 0, again = 0;
    CUdeviceptr at = 0;
    CUresult r = take_memory("cuMemCreate", size, 0, &handle);
    if (r != CUDA_SUCCESS)
        return r;
    r = api->cuMemAddressReserve(&at, size, 0, 0, 0);
    r = r == CUDA_SUCCESS ? api->cuMemMap(at, size, 0, handle, 0) : r;
    r = r == CUDA_SUCCESS ? api->cuMemRetainAllocationHandle(&again, pointer(at)) : r;
    *ret_key = at;
    mapped_size = size;
    CUresult released = api->cuMemRelease(handle);
    return r != CUDA_SUCCESS ? r : released;
}

static CUresult give_mapped(uint64_t key) {
    uint64_t handle = 0;
    CUresult r = api->cuMemRetainAllocationHandle(&handle, pointer(key));
    r = r == CUDA_SUCCESS ? api->cuMemUnmap(key, mapped_size) : r;
    r = r == CUDA_SUCCESS ? api->cuMemRelease(handle) : r; /* of each of the two that retained it */
    return r == CUDA_SUCCESS ? api->cuMemRelease(handle) : r;
}

CUresult take_call(const char *call, uint64_t size, uint64_t extra, uint64_t *ret_key) {
    size_t free, total;
    *ret_key = 0;
    if (strcmp(call, "cuMemGetInfo") == 0)
        return api->cuMemGetInfo_v2(&free, &total);
    if (strcmp(call, "cuDeviceTotalMem") == 0)
        return api->cuDeviceTotalMem_v2(&total, 0);
    if (is_of_context(call))
        return take_context(call, ret_key);
    if (is_of_graph(call))
        return take_graph(call, size);
    if (strcmp(call, "cuMemMap") == 0)
        return take_mapped(size, ret_key);
    if (strncmp(call, "cuModule", 8) == 0 || strncmp(call, "cuLibrary", 9) == 0)
        return load(call, ret_key);
    return take_memory(call, size, extra, ret_key);
}

CUresult give_call(const char *call, uint64_t key) {
    if (strcmp(call, "cuMemGetInfo") == 0 || strcmp(call, "cuDeviceTotalMem") == 0)
        return CUDA_SUCCESS;
    if (is_of_context(call))
        return give_context(call, key);
    if (is_of_graph(call))
        return CUDA_SUCCESS; /* it stays with the device, until it is trimmed */
    if (strcmp(call, "cuMemMap") == 0)
        return give_mapped(key);
    if (strncmp(call, "cuModule", 8) == 0)
        return api->cuModuleUnload(pointer(key));
    if (strncmp(call, "cuLibrary", 9) == 0)
        return api->cuLibraryUnload(pointer(key));
    return give_memory(call, key);
}

/* ---- one call, by many threads at once ---- */

struct rounds {
    pthread_t thread;
    pthread_barrier_t *start;
    const struct step *step;
    CUcontext context;
    unsigned failed, refused;
};

static void *take_and_give(void *argument) {
    struct rounds *w = argument;
    const char *call = w->step->word[1];
    uint64_t key;
    w->failed += api->cuCtxSetCurrent(w->context) != CUDA_SUCCESS;
    (void)pthread_barrier_wait(w->start);
    for (uint64_t i = 0; i < w->step->n[3]; i++) {
        CUresult r = take_call(call, w->step->n[4], w->step->n[5], &key);
        w->refused += r == CUDA_ERROR_OUT_OF_MEMORY;
        w->failed += r != CUDA_SUCCESS && r != CUDA_ERROR_OUT_OF_MEMORY;
        w->failed += r == CUDA_SUCCESS && give_call(call, key) != CUDA_SUCCESS;
    }
    return NULL;
}

/* threads-of CALL THREADS ROUNDS SIZE EXTRA */
static void threads_of(const struct step *s) {
    struct rounds all[THREADS] = { 0 };
    pthread_barrier_t start;
    unsigned n = s->n[2] < THREADS ? (unsigned)s->n[2] : THREADS, failed = 0, refused = 0;
    CUcontext context = NULL;
    (void)api->cuCtxGetCurrent(&context);
    if (pthread_barrier_init(&start, NULL, n) != 0)
        abort();
    for (unsigned i = 0; i < n; i++) {
        all[i] = (struct rounds){ .start = &start, .step = s, .context = context };
        if (pthread_create(&all[i].thread, NULL, take_and_give, &all[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < n; i++) {
        (void)pthread_join(all[i].thread, NULL);
        failed += all[i].failed;
        refused += all[i].refused;
    }
    (void)pthread_barrier_destroy(&start);
    answer("%u %u", failed, refused);
}

/* ---- whose functions the route has found ---- */

/* The name under which whoever has the function exports it, where that is the valve; "-" otherwise. */
static const char *valves_name(void *function) {
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname && strstr(info.dli_fname, "libuma-valve") && info.dli_sname ? info.dli_sname : "-";
}

static void say_functions(void) {
#define X(name, base, version) (void)printf(#name " %s ", valves_name((void *)api->name));
    CALLS(X)
#undef X
    answer("%s", "");
}

bool step_call(const struct step *s) {
    if (strcmp(s->word[0], "threads-of") == 0)
        threads_of(s);
    else if (strcmp(s->word[0], "functions") == 0)
        say_functions();
    else
        return false;
    return true;
}
