/* SPDX-License-Identifier: MIT */
/*
 * room.h - free memory out of page cache, for a call that the driver cannot satisfy from what is free: it asks the kernel for blocks and does not try hard. A bounded step: the node's helper
 * (`umactl run` watches the account) evicts model files that nobody uses; without one, the process's own weight files (open or mapped) leave the cache, as far as they are clean and not mapped.
 */
#pragma once

#include "valve/process.h"

/* How long a call may be held up for it. */
#define UMA_VALVE_ROOM_NS ((int64_t)400 * 1000000)

/* At least `wanted` bytes, if they can be had: bytes evicted, as far as is known. */
uint64_t uma_valve_make_room(struct uma_valve_process *process, uint64_t wanted);

/* Is it a file of weights, by the end of its name? As the rest of umactl knows them (observe/files/stores.c). */
bool uma_valve_is_weight_file(const char *path);
