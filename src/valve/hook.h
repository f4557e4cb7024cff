/* SPDX-License-Identifier: MIT */
/* hook.h - what the hooks have in common. */
#pragma once

#include "valve/ask.h"
#include "valve/hooks.h"
#include "valve/resolve.h"

/* The driver's own function of this name, of the type that hooks.h declares; the program's call is answered as the driver does before cuInit() where there is none. */
#define UMA_VALVE_REAL(name)                                                                                                               \
    __typeof__(name) *real = (__typeof__(name) *)uma_valve_real(UMA_VALVE_##name);                                                         \
    if (!real)                                                                                                                             \
    return CUDA_ERROR_NOT_INITIALIZED

/*
 * `call` (an expression that calls `real`) takes `bytes`: asked for, made, asked for once more if the driver refuses and room could be made, and counted. `key`, `given`: read after success.
 */
#define UMA_VALVE_TAKE(name, bytes, kind, call, key, given) UMA_VALVE_TAKE_OF(name, bytes, kind, call, key, given, uma_valve_context())
/* `context`: a number of the one that it goes with; read after success. */
#define UMA_VALVE_TAKE_OF(name, bytes, kind, call, key, given, context)                                                                    \
    do {                                                                                                                                   \
        struct uma_valve_ticket ticket_;                                                                                                   \
        if (uma_valve_inside())                                                                                                            \
            return call;                                                                                                                   \
        if (!uma_valve_ask(name, bytes, &ticket_))                                                                                         \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                                               \
        uma_valve_enter();                                                                                                                 \
        CUresult r_ = call;                                                                                                                \
        if (r_ == CUDA_ERROR_OUT_OF_MEMORY && uma_valve_ask_again(&ticket_))                                                               \
            r_ = call;                                                                                                                     \
        uint32_t context_ = r_ == CUDA_SUCCESS && ticket_.process ? (context) : 0;                                                         \
        uma_valve_leave();                                                                                                                 \
        if (r_ == CUDA_SUCCESS)                                                                                                            \
            uma_valve_given(&ticket_, kind, (uint64_t)(uintptr_t)(key), given, context_);                                                  \
        else                                                                                                                               \
            uma_valve_not_given(&ticket_);                                                                                                 \
        return r_;                                                                                                                         \
    } while (0)

#define UMA_VALVE_FREE(kind, key, call)                                                                                                    \
    do {                                                                                                                                   \
        struct uma_valve_holding holding_;                                                                                                 \
        if (uma_valve_inside() || !uma_valve_freeing(kind, (uint64_t)(uintptr_t)(key), &holding_))                                         \
            return call;                                                                                                                   \
        uma_valve_enter();                                                                                                                 \
        CUresult r_ = call;                                                                                                                \
        uma_valve_leave();                                                                                                                 \
        if (r_ == CUDA_SUCCESS)                                                                                                            \
            uma_valve_freed(&holding_);                                                                                                    \
        else                                                                                                                               \
            uma_valve_not_freed(&holding_);                                                                                                \
        return r_;                                                                                                                         \
    } while (0)

/* A number of the calling thread's current context, and of any: never 0. */
uint32_t uma_valve_context(void);
uint32_t uma_valve_context_number(CUcontext context);

/* a * b, or 0 where that does not fit: then the driver has the last word. */
static inline uint64_t uma_valve_times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? 0 : product;
}
