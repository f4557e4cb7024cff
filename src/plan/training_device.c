/* SPDX-License-Identifier: MIT */
/*
 * From what torch has handed out to what leaves the pool: the caching allocator's fragments, the CUDA context.
 */
#include "plan/training_parts.h"

void uma_training_finish(const struct uma_training_job *job, uint64_t loss_bytes, struct uma_estimate *estimate) {
    (void)loss_bytes;
    double ratio = job->train->loss == UMA_LOSS_FUSED_LINEAR ? 1.08 : 1.15;
    estimate->reserved = uma_scale(estimate->total, ratio);
    estimate->context = 500000000;
    estimate->device = uma_plus(estimate->reserved, estimate->context);
    estimate->device_high = uma_plus(uma_scale(estimate->high, 1.3), estimate->context);
}
