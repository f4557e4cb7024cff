/* SPDX-License-Identifier: MIT */
/*
 * recording.h - the readings of the last days in a ring file of fixed size, for `umactl guard history` to run the decision over them again with today's policy, or another: one record a second far from
 * the floor (the mean is of no use to a decision: the reading itself), every reading near it. Written in blocks of 64 KiB, synced when the block is full or a decision is taken. With each block that holds a decision, the
 * table of the processes that it saw (the 64 largest trees). No allocation after opening. Checksummed; a block that was cut by a power loss is passed over.
 */
#pragma once

#include "guard/history.h"
#include "guard/policy.h"

#include <pthread.h>

#define UMA_GUARD_RECORDING_BYTES (64ull * 1024 * 1024) /* three days at one reading a second, see recording.c */

struct uma_guard_recording;
struct uma_guard_recording *uma_guard_recording_open(const char *folder, const char **ret_note);
void uma_guard_recording_close(struct uma_guard_recording *recording);
void uma_guard_recording_add(struct uma_guard_recording *recording, const struct uma_guard_view *view, bool decided);

/* Readers: calls `each` for every view in order; stops when it returns non-zero. -errno, or what `each` returned. `ret_bad`: blocks passed over. */
int uma_guard_recording_replay(const char *path, int (*each)(void *userdata, const struct uma_guard_view *view, int64_t real_time),
                               void *userdata, size_t *ret_bad);
