/* SPDX-License-Identifier: MIT */
/*
 * dmem.h - the kernel's own word on a limit of device memory: the dmem controller (6.14; admin-guide/cgroup-v2.rst, "DMEM"), which the driver uses where it is. A
 * second witness beside what the driver says of itself. Reads only; without the controller, or without NVIDIA's regions in it, there is no witness.
 */
#pragma once

#include "base/root.h"
#include "uma.h"

struct uma_dmem_reading {
    bool nvidia;             /* dmem.capacity of the root lists a region of NVIDIA's */
    struct uma_u64 capacity; /* of its regions together, bytes */
    struct uma_u64 max;      /* of the group: the least of its regions; UMA_ABSENT: no limit, or the group has no such file */
    struct uma_u64 current;
    bool unlimited; /* of the group: one of its regions has no limit */
};

/* `group`: full path of the folder ("/sys/fs/cgroup/..."), looked up below the root. */
void uma_dmem_read(struct uma_root *root, const char *group, struct uma_dmem_reading *ret_reading);

enum uma_dmem_file { UMA_DMEM_CAPACITY, UMA_DMEM_MAX_FILE, UMA_DMEM_CURRENT };
/* One of the three files into *reading: "nvidia/0000:01:00.0/vidmem 1073741824" lines; other makers' regions are left out. Pure. */
void uma_dmem_parse(const char *text, size_t length, enum uma_dmem_file file, struct uma_dmem_reading *reading);
/* Does the kernel hold the group to `limit`, in whole pages of at most 64 KiB? UMA_MAYBE: it is no witness. Pure. */
enum uma_truth uma_dmem_agrees(const struct uma_dmem_reading *reading, uint64_t limit);
