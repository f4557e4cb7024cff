/* SPDX-License-Identifier: MIT */
/*
 * tunable.h - one setting of the kernel: read as it is now, set, and read back, because a kernel may take another value than it was given, or none. Only files
 * that hold settings of memory and of disks can be named: /proc/sys/vm, /sys/kernel/mm, /sys/block/DISK/queue. Never creates a file, never follows "..".
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* The longest of these values is a word or a 64-bit number. */
enum { UMA_TUNABLE_VALUE_MAX = 64, UMA_TUNABLE_PATH_MAX = 192 };

/* Is it the path ("proc/sys/vm/swappiness", no "/" in front) of a setting that may be named here? Pure. */
bool uma_tunable_path_fine(const char *path);
/* Is it a value: one word of letters, digits and a few signs? Pure. */
bool uma_tunable_value_fine(const char *value);

/*
 * Some settings have two faces, of which one is in force and the other shows 0: dirty_bytes and dirty_ratio, and the same of dirty_background. Setting one
 * puts the other to 0, and bytes take no 0 (mm/page-writeback.c): what was before is the pair. The path of the other face; NULL when there is none. Pure.
 */
const char *uma_tunable_counterpart(const char *path);

/*
 * `prefix`: "" for this machine, a folder in tests. Of a file that shows all it can be the selected word; else the line, without white space around it.
 * -ENOENT: this kernel has no such setting. -EINVAL: not a value, or not a path that may be named. The error names the path.
 */
int uma_tunable_read(const char *prefix, const char *path, char ret_value[UMA_TUNABLE_VALUE_MAX], struct uma_error *err);
/* May this user write it, as far as can be told beforehand? 0, -EACCES, -EPERM, -EROFS: the error says which right it takes. */
int uma_tunable_writable(const char *prefix, const char *path, struct uma_error *err);
/* Set it and read it back: -EIO when it then is another one, and *ret_now (always filled when it could be read) says which. */
int uma_tunable_write(const char *prefix, const char *path, const char *value, char ret_now[UMA_TUNABLE_VALUE_MAX], struct uma_error *err);
