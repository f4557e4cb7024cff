/* SPDX-License-Identifier: MIT */
/* platform.h - which machine this is: DMI and device tree, kernel, driver, DGX release, and whether CPU and GPU share the pool. */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

void uma_platform_read(struct uma_root *root, struct uma_snapshot *snapshot);
/* After the GPUs are known: name, unified and evidence from everything that was read; also gpu.unified where the driver did not say. Pure. */
void uma_platform_conclude(struct uma_snapshot *snapshot);
