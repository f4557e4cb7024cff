/* SPDX-License-Identifier: MIT */
/*
 * gpu.h - GPUs. A vendor is a table of functions. NVIDIA's library can hang for minutes, so it is called only in a separate probe
 * process (umactl-probe), asked over a socket with a deadline; AMD and Tegra are read from sysfs and /proc directly.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

struct uma_gpu_reader;
/* `options`: nvml (NULL: $UMACTL_NVML), gpu_deadline, keep_probe. Nothing is started yet. */
struct uma_gpu_reader *uma_gpu_reader_new(struct uma_root *root, const struct uma_observe_options *options);
/* Ends the probe without waiting for one that does not die. */
struct uma_gpu_reader *uma_gpu_reader_free(struct uma_gpu_reader *reader);
/* Ask the probe (starting it when needed); returns at once, so that other sources are read meanwhile. */
void uma_gpu_ask(struct uma_gpu_reader *reader);
/*
 * Wait for the answer until the deadline counted from uma_gpu_ask(), and fill snapshot->gpus. Processes must have been read before (AMD's
 * per-process figures come from their fdinfo; without them they are UMA_UNKNOWN), and meminfo (Tegra's NvMapMemUsed).
 * gpus.source is NVML's; only where there is no NVML (UMA_ABSENT) and another vendor has GPUs it is that vendor's. Counters (joules,
 * throttle_seconds) are what the driver says: one that is smaller than before means that the driver was loaded again, and whoever takes
 * differences starts over from it instead of reporting a negative one.
 */
void uma_gpu_collect(struct uma_gpu_reader *reader, struct uma_snapshot *snapshot);

/*
 * In a --root folder NVML is only asked when UMACTL_NVML (options.nvml) names a library. Otherwise the recorded answer
 * UMA_GPU_RECORD under the root is used: the "gpus" object of the snapshot document. A capture writes that file.
 */
#define UMA_GPU_RECORD "umactl/gpu.json"
/* When the folder was captured (the "time" of its snapshot), so that --root on it gives the same document. */
#define UMA_TIME_RECORD "umactl/time"
