/* SPDX-License-Identifier: MIT */
/*
 * recording.h - the readings of the last days in a ring file of fixed size, for `umactl guard history` to run the decision over them again with today's policy, or another: one record a second far from
 * the floor (the mean is of no use to a decision: the reading itself), every reading near it for as long as that is not the rule. In blocks of 8 KiB, written and synced by a second thread when the block is full, a decision was taken or half a
 * minute is over. With a decision goes the table of the processes that it saw (the 64 largest trees), and others before it for as long as they are few. No allocation after opening. Checksummed; what a power loss cut is passed over.
 */
#pragma once

#include "guard/history.h"
#include "guard/policy.h"
#include "guard/write_behind.h"

/* A reading takes 20 bytes far from the floor and 40 near it (measured by the unit test), and two a second are the most that is kept for long: 64 MiB are a month far from the floor, and a week near it with a table of processes a minute. See recording.c. */
#define UMA_GUARD_RECORDING_BYTES (64ull * 1024 * 1024)

struct uma_guard_recording;
/* As uma_guard_trail_open(): one that keeps nothing, and a note, where there is no folder to write to. NULL for want of memory alone. */
struct uma_guard_recording *uma_guard_recording_open(const char *folder, const char **ret_note);
/* What is not on disk yet is written, for two seconds at most. */
void uma_guard_recording_close(struct uma_guard_recording *recording);
/* After acting, not before it: with a large table it takes half a millisecond. `decided`: there were actions. Never waits for the disk. */
void uma_guard_recording_add(struct uma_guard_recording *recording, const struct uma_guard_view *view, bool decided);
void uma_guard_recording_kept(struct uma_guard_recording *recording, struct uma_guard_kept *ret_kept);

/*
 * Readers: calls `each` for every view in order; stops when it returns non-zero. -errno, or what `each` returned; -EBADMSG: it is no recording. `ret_bad`: blocks passed over. The first reading after something that is missing has
 * its gap set. The view's processes are those of the last table kept, with its time; of each tree they are the largest, and the rest of it is added to its topmost process.
 */
int uma_guard_recording_replay(const char *path, int (*each)(void *userdata, const struct uma_guard_view *view, int64_t real_time),
                               void *userdata, size_t *ret_bad);
/* The same of an open file. */
int uma_guard_recording_replay_fd(int fd, int (*each)(void *userdata, const struct uma_guard_view *view, int64_t real_time), void *userdata,
                                  size_t *ret_bad);
/* The first bytes of a recording, which say what it is. */
#define UMA_GUARD_RECORDING_HEAD "umactl guard readings 1"
