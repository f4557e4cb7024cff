/* SPDX-License-Identifier: MIT */
/*
 * The memory of graphs: nodes name it (cuGraphAddMemAllocNode, cuGraphAddNode, or cuMemAllocAsync in a stream that is captured), and the driver takes it when the graph is launched or uploaded. Each device keeps one pool for all of
 * its graphs, whose parts share what is not in use at the same time: what counts is what the driver says that the pool has. How much a launch will take it does not say.
 */
#include "valve/hook.h"
#include "valve/pools.h"

/* Nothing is taken yet, but what cannot be had is better refused here, where the program can hear it, than when the graph is launched. */
static bool may_have(const char *call, const CUDA_MEM_ALLOC_NODE_PARAMS *params, struct uma_valve_ticket *ret_ticket) {
    CUdevice device = 0;
    if (params->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        uma_valve_graphs_read(params->poolProps.location.id);
    else if (uma_valve_current_device(&device))
        uma_valve_graphs_read(device);
    return uma_valve_ask(call, params->bytesize, ret_ticket);
}

/* NULL: the driver will refuse it, whatever there is of memory. */
static const CUDA_MEM_ALLOC_NODE_PARAMS *if_valid(const CUgraphNode *node, CUgraph graph, const CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    bool nowhere = params && params->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE && params->poolProps.location.id < 0;
    return node && graph && !nowhere ? params : NULL;
}

/* `call` adds a node with these parameters; NULL: they name no memory, or the driver will refuse them. */
#define ADD_NODE(name, params, call)                                                                                                       \
    do {                                                                                                                                   \
        struct uma_valve_ticket ticket_;                                                                                                   \
        const CUDA_MEM_ALLOC_NODE_PARAMS *params_ = params;                                                                                \
        if (uma_valve_inside() || !params_)                                                                                                \
            return call;                                                                                                                   \
        uma_valve_enter();                                                                                                                 \
        bool granted_ = may_have(name, params_, &ticket_);                                                                                 \
        CUresult r_ = granted_ ? call : CUDA_ERROR_OUT_OF_MEMORY;                                                                          \
        if (granted_)                                                                                                                      \
            uma_valve_not_given(&ticket_);                                                                                                 \
        uma_valve_leave();                                                                                                                 \
        return r_;                                                                                                                         \
    } while (0)

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
                                CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
    UMA_VALVE_REAL(cuGraphAddMemAllocNode);
    ADD_NODE("cuGraphAddMemAllocNode", if_valid(phGraphNode, hGraph, nodeParams),
             real(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

static const CUDA_MEM_ALLOC_NODE_PARAMS *alloc_of(const CUgraphNodeParams *params) {
    return params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? &params->of.alloc : NULL;
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,
                        CUgraphNodeParams *nodeParams) {
    UMA_VALVE_REAL(cuGraphAddNode);
    ADD_NODE("cuGraphAddNode", if_valid(phGraphNode, hGraph, alloc_of(nodeParams)),
             real(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, const void *dependencyData,
                           size_t numDependencies, CUgraphNodeParams *nodeParams) {
    UMA_VALVE_REAL(cuGraphAddNode_v2);
    ADD_NODE("cuGraphAddNode", if_valid(phGraphNode, hGraph, alloc_of(nodeParams)),
             real(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams));
}

/* After a launch or an upload the driver knows what the graph took. */
static CUresult took(CUresult r) {
    if (!uma_valve_inside()) {
        uma_valve_enter();
        uma_valve_graphs_look();
        uma_valve_leave();
    }
    return r;
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
    UMA_VALVE_REAL(cuGraphUpload);
    return took(real(hGraphExec, hStream));
}

CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
    UMA_VALVE_REAL(cuGraphUpload_ptsz);
    return took(real(hGraphExec, hStream));
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
    UMA_VALVE_REAL(cuGraphLaunch);
    return took(real(hGraphExec, hStream));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
    UMA_VALVE_REAL(cuGraphLaunch_ptsz);
    return took(real(hGraphExec, hStream));
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
    UMA_VALVE_REAL(cuDeviceGraphMemTrim);
    CUresult r = real(device);
    if (r == CUDA_SUCCESS && !uma_valve_inside())
        uma_valve_graphs_read(device);
    return r;
}
