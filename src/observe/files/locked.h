/* SPDX-License-Identifier: MIT */
/*
 * locked.h - which files one process has locked in memory (mlock(2), mlockall(2)), from /proc/PID/smaps: pages that no eviction takes. smaps walks every page of
 * the process, some 10 ms for each GiB that it maps, so it is asked of a process only that is known to have locked something (VmLck). Never more than was read.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/root.h"

#include <stdint.h>
#include <sys/types.h>

/* Locked mappings of one file that follow one another. Which file: the superblock's device (maps.h) and the inode. */
struct uma_locked_file {
    uint32_t major, minor;
    uint64_t inode;
    uint64_t bytes; /* resident of them */
};

/*
 * Text of smaps (fs/proc/task_mmu.c, show_smap): a line of maps, then fields; "VmFlags:" with the word "lo" is VM_LOCKED. Mappings without a file are left out.
 * Pure, bounded by the text. 0 or -ENOMEM.
 */
int uma_locked_parse(const char *text, size_t length, struct uma_arena *arena, size_t *ret_n, struct uma_locked_file **ret_files,
                     struct uma_error *err);
/* Of a process; none, and smaps not read, where VmLck of /proc/PID/status is 0. -errno: it ended, or may not be looked into. */
int uma_locked_read(struct uma_root *root, pid_t pid, struct uma_arena *arena, size_t *ret_n, struct uma_locked_file **ret_files,
                    struct uma_error *err);
