/* SPDX-License-Identifier: MIT */
#include "valve/hooks.h"

void *const uma_valve_hooks[UMA_VALVE_N_ENTRIES] = {
#define X(name, base, since, per_thread) [UMA_VALVE_##name] = (void *)name,
    UMA_VALVE_ENTRIES(X)
#undef X
};
