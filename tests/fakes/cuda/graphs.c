/* SPDX-License-Identifier: MIT */
/*
 * Streams, which do their work at once unless it is captured for a graph; and graphs, whose memory is taken when they are launched or uploaded and kept for the device's other graphs until it is trimmed.
 */
#include "fake.h"
#include "functions.h"

#include <stdlib.h>
#include <string.h>

struct CUgraph_st {
    uint64_t bytes;
};

struct CUgraphExec_st {
    uint64_t bytes;
};

struct CUstream_st {
    CUgraph captured; /* NULL: it is not */
};

struct block {
    struct block *next;
    struct fake_backing backing;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks[FAKE_DEVICES_MAX];
static _Thread_local struct CUstream_st of_thread;

void fake_graphs_forget(void) {
    (void)memset(blocks, 0, sizeof(blocks));
    of_thread.captured = NULL;
    (void)pthread_mutex_init(&lock, NULL);
}

/* ---- streams ---- */

/* NULL: the legacy stream, which can not be captured. */
static CUstream stream_of(CUstream stream) {
    return (uintptr_t)stream <= 1 ? NULL : stream == CU_STREAM_PER_THREAD ? &of_thread : stream;
}

bool fake_capture(CUstream stream, uint64_t bytes, CUdeviceptr *ret_pointer) {
    const struct CUstream_st *s = stream_of(stream);
    if (!s || !s->captured)
        return false;
    s->captured->bytes += bytes;
    *ret_pointer = fake_new_key(bytes);
    return true;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned flags) {
    FAKE_IN_CONTEXT();
    if (!phStream || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *phStream = calloc(1, sizeof(**phStream));
    return *phStream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamDestroy_v2(CUstream hStream) {
    FAKE_IN_CONTEXT();
    if (!stream_of(hStream) || hStream == CU_STREAM_PER_THREAD)
        return FAKE_INVALID_HANDLE;
    free(hStream);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream hStream) {
    FAKE_IN_CONTEXT();
    (void)hStream;
    fake_pools_settle();
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize_ptsz(CUstream hStream) {
    return cuStreamSynchronize(hStream);
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, int mode) {
    FAKE_IN_CONTEXT();
    CUstream stream = stream_of(hStream);
    if (!stream || stream->captured || mode < 0 || mode > 2)
        return CUDA_ERROR_INVALID_VALUE;
    return cuGraphCreate(&stream->captured, 0);
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph) {
    FAKE_IN_CONTEXT();
    CUstream stream = stream_of(hStream);
    if (!stream || !stream->captured || !phGraph)
        return CUDA_ERROR_INVALID_VALUE;
    *phGraph = stream->captured;
    stream->captured = NULL;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream hStream, int *captureStatus) {
    FAKE_IN_CONTEXT();
    const struct CUstream_st *stream = stream_of(hStream);
    if (!captureStatus)
        return CUDA_ERROR_INVALID_VALUE;
    *captureStatus = stream && stream->captured;
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

CUresult cuGraphCreate(CUgraph *phGraph, unsigned flags) {
    FAKE_READY();
    if (!phGraph || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *phGraph = calloc(1, sizeof(**phGraph));
    return *phGraph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph hGraph) {
    FAKE_READY();
    free(hGraph);
    return hGraph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
                                CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
    FAKE_READY();
    if (!phGraphNode || !hGraph || !nodeParams || nodeParams->bytesize == 0 || (numDependencies && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    if (nodeParams->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE && nodeParams->poolProps.location.id < 0)
        return CUDA_ERROR_INVALID_VALUE;
    hGraph->bytes += nodeParams->bytesize;
    nodeParams->dptr = fake_new_key(nodeParams->bytesize);
    *phGraphNode = (CUgraphNode)(uintptr_t)nodeParams->dptr; /* NOLINT(performance-no-int-to-ptr) */
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
                        CUgraphNodeParams *nodeParams) {
    enum { EMPTY = 5 };
    FAKE_READY();
    if (!phGraphNode || !hGraph || !nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies, numDependencies, &nodeParams->of.alloc);
    if (nodeParams->type != EMPTY)
        return FAKE_NOT_SUPPORTED;
    *phGraphNode = (CUgraphNode)(uintptr_t)fake_new_key(1); /* NOLINT(performance-no-int-to-ptr) */
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, const void *dependencyData,
                           size_t numDependencies, CUgraphNodeParams *nodeParams) {
    (void)dependencyData;
    return cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags) {
    FAKE_IN_CONTEXT();
    if (!phGraphExec || !hGraph || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    *phGraphExec = calloc(1, sizeof(**phGraphExec));
    if (!*phGraphExec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*phGraphExec)->bytes = hGraph->bytes;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
    FAKE_READY();
    free(hGraphExec);
    return hGraphExec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static uint64_t graph_bytes(CUdevice device) {
    uint64_t sum = 0;
    for (const struct block *b = blocks[device]; b; b = b->next)
        sum += b->backing.size;
    return sum;
}

/* Graphs of a device share its memory for graphs: it grows to what the largest of them needs. */
static CUresult get_memory(CUgraphExec hGraphExec) {
    FAKE_IN_CONTEXT();
    if (!hGraphExec)
        return CUDA_ERROR_INVALID_VALUE;
    CUdevice device = fake_context_device(fake_context());
    (void)pthread_mutex_lock(&lock);
    uint64_t have = graph_bytes(device), size = hGraphExec->bytes > have ? hGraphExec->bytes - have : 0;
    struct block *block = size && fake_gate(size) == CUDA_SUCCESS ? calloc(1, sizeof(*block)) : NULL;
    bool got = size == 0 || (block && fake_backing_take(size, &block->backing));
    if (block && got) {
        block->next = blocks[device];
        blocks[device] = block;
        fake_count(FAKE_KIND_GRAPH, (int64_t)size);
    } else
        free(block);
    (void)pthread_mutex_unlock(&lock);
    return got ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
    (void)hStream;
    return get_memory(hGraphExec);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
    return cuGraphLaunch(hGraphExec, hStream);
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
    (void)hStream;
    return get_memory(hGraphExec);
}

CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
    return cuGraphUpload(hGraphExec, hStream);
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
    FAKE_READY();
    FAKE_GIVES_BACK();
    if (!fake_device_valid(device))
        return FAKE_INVALID_DEVICE;
    (void)pthread_mutex_lock(&lock);
    for (struct block *b; (b = blocks[device]);) {
        blocks[device] = b->next;
        fake_count(FAKE_KIND_GRAPH, -(int64_t)b->backing.size);
        fake_backing_give(&b->backing);
        free(b);
    }
    (void)pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attr, void *value) {
    FAKE_READY();
    if (!value || attr < 0 || attr > 3)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_valid(device))
        return FAKE_INVALID_DEVICE;
    (void)pthread_mutex_lock(&lock);
    *(uint64_t *)value = graph_bytes(device);
    (void)pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}
