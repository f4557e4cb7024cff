/* SPDX-License-Identifier: MIT */
/*
 * log_sync.h - sample logs onto the disk every few seconds, off the loop that writes them. Machines of this kind switch off hard under
 * load, and the last seconds before that are the ones that matter; but a disk that is busy for half a minute must not stop the sampling.
 */
#pragma once

struct uma_log_sync;

enum { UMA_LOG_SYNC_MAX = 4, UMA_LOG_SYNC_SECONDS = 5 };

/* fdatasync(2) these descriptors (copies of them) every UMA_LOG_SYNC_SECONDS. -1 entries are left out. All signals must be blocked in the
 * caller. NULL: no thread could be made; the kernel writes back in its own time. */
struct uma_log_sync *uma_log_sync_start(const int *fds, unsigned n);
/* Once more now, waiting for it at most a second; a thread that waits for its disk longer is left to itself. Returns NULL. */
struct uma_log_sync *uma_log_sync_stop(struct uma_log_sync *sync);
