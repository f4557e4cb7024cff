/* SPDX-License-Identifier: MIT */
/*
 * views.h - how much free memory the usual tools and calls would report at this moment, so that a person can see which of them misleads:
 * nvidia-smi (memory.free), cudaMemGetInfo (free), free(1) (free and available). All are free bytes. Pure.
 */
#pragma once

#include "account/gpu_share.h"
#include "uma.h"

/* 0, or -ENOMEM (nvidia_smi_text lives in `arena`). */
int uma_views_build(const struct uma_snapshot *snapshot, struct uma_arena *arena, struct uma_views *ret_views);
