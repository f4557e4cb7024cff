/* SPDX-License-Identifier: MIT */
/*
 * ledger.h - where every byte of MemTotal is. The rows sum to it exactly, by construction: each row takes what it wants of what is
 * left, in a fixed order, and what no row wanted is `unexplained`. A row whose sources are unknown takes nothing. Pure.
 *
 * The order is from what the kernel counts page by page (free, anonymous, cache) to what is inferred (pinned, GPU, driver pools), so
 * that a torn reading or an overlap of two counters cuts the inferred rows; what was cut is `overcounted`.
 */
#pragma once

#include "account/gpu_share.h"
#include "uma.h"

void uma_ledger_build(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share, struct uma_ledger *ret_ledger);

/* Free pages that a kernel handed to CMA beyond its size and cannot give out again; 0 when that is not so. UMA_UNKNOWN without the
 * lines. */
struct uma_u64 uma_cma_lost(const struct uma_meminfo *meminfo);
/* All huge pages, used or not. */
uint64_t uma_hugetlb_bytes(const struct uma_meminfo *meminfo);
/*
 * May the size of the driver's pools be told from this snapshot? NVIDIA's driver does not count them anywhere, so only a machine where no
 * compute process holds GPU memory tells (cudaMallocManaged is under-reported: pynvml issue 63, so beside a CUDA process the remainder
 * proves nothing). TTM counts them itself (GPUReclaim).
 */
bool uma_driver_pools_evident(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share);
