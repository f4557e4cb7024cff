/* SPDX-License-Identifier: MIT */
/* pools.h - the driver's own pools, as hooks besides those of cuMemAllocAsync need them: the memory of a device for graphs. The account has what the driver says that it keeps. */
#pragma once

#include "valve/cuda.h"

#include <stdbool.h>

/* The device of the calling thread's context. */
bool uma_valve_current_device(CUdevice *ret_device);

/* What a device keeps for graphs is read, and from now on looked at again, because a graph has memory there. */
void uma_valve_graphs_read(CUdevice device);
/* The same of all devices where one has; costs nothing in a process without. */
void uma_valve_graphs_look(void);
