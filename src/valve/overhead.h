/* SPDX-License-Identifier: MIT */
/*
 * overhead.h - what takes memory without saying how much: contexts and code. They are refused where the machine is at its floor already; what they took is the difference of free memory around the call, where this
 * process asked for nothing else meanwhile. Others of the machine may have: it is bounded, and it is a measurement, not a count.
 */
#pragma once

#include "valve/ask.h"

struct uma_valve_making {
    struct uma_valve_process *process;
    uint64_t free;
    uint32_t begun; /* calls of this process, then */
    bool known;
};

/* `least`: bytes that must be there. False: to be answered with CUDA_ERROR_OUT_OF_MEMORY. */
bool uma_valve_make_begin(const char *call, uint64_t least, struct uma_valve_making *ret_making);
/* `key` 0: the call failed, and what it took does not stay. Counted under the kind and key; `context`: kept with it. */
void uma_valve_make_end(const struct uma_valve_making *making, enum uma_valve_kind kind, uint64_t key, uint32_t context);

/*
 * Before it is destroyed or unloaded, the holding is taken out: the driver may give the same handle to another thread the moment it is free. False: it is not ours. Then either it has ended, or it
 * stays.
 */
bool uma_valve_overhead_ending(enum uma_valve_kind kind, uint64_t key, struct uma_valve_holding *ret_holding);
void uma_valve_overhead_ended(const struct uma_valve_holding *holding);
void uma_valve_overhead_stays(const struct uma_valve_holding *holding);

#define UMA_VALVE_UNMAKE(kind, key, call)                                                                                                  \
    do {                                                                                                                                   \
        struct uma_valve_holding holding_;                                                                                                 \
        if (uma_valve_inside() || !uma_valve_overhead_ending(kind, (uint64_t)(uintptr_t)(key), &holding_))                                 \
            return call;                                                                                                                   \
        uma_valve_enter();                                                                                                                 \
        CUresult r_ = call;                                                                                                                \
        uma_valve_leave();                                                                                                                 \
        if (r_ == CUDA_SUCCESS)                                                                                                            \
            uma_valve_overhead_ended(&holding_);                                                                                           \
        else                                                                                                                               \
            uma_valve_overhead_stays(&holding_);                                                                                           \
        return r_;                                                                                                                         \
    } while (0)

#define UMA_VALVE_MAKE(name, least, call, kind, key, context)                                                                              \
    do {                                                                                                                                   \
        struct uma_valve_making making_;                                                                                                   \
        if (uma_valve_inside())                                                                                                            \
            return call;                                                                                                                   \
        if (!uma_valve_make_begin(name, least, &making_))                                                                                  \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                                               \
        uma_valve_enter();                                                                                                                 \
        CUresult r_ = call;                                                                                                                \
        uma_valve_leave();                                                                                                                 \
        if (r_ == CUDA_SUCCESS)                                                                                                            \
            uma_valve_make_end(&making_, kind, (uint64_t)(uintptr_t)(key), context);                                                       \
        else                                                                                                                               \
            uma_valve_make_end(&making_, kind, 0, 0);                                                                                      \
        return r_;                                                                                                                         \
    } while (0)
