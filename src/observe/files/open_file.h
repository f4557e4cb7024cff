/* SPDX-License-Identifier: MIT */
/*
 * open_file.h - open something that may be anything, and have it only when it is a regular file. Nothing else is ever opened: a FIFO would block
 * or wake its writer, a device may act on being opened (a watchdog starts, a tape rewinds). Reads nothing; leaves the time of last access alone
 * where the kernel allows that.
 */
#pragma once

#include "uma_page_cache.h"

#include <stdbool.h>
#include <sys/stat.h>

/*
 * The regular file `name` in the open folder `folder` (AT_FDCWD; an absolute name; or "" for what `folder` itself is open on, O_PATH too), for
 * reading, close on exec. `follow`: where the last part of the name is a link, what it leads to, /proc/PID/fd/N too; else a link is -ELOOP.
 * The descriptor, or -errno: -EISDIR a folder, -ENXIO a FIFO, socket or device. *ret_st (NULL: not wanted) is the open file's, never an earlier one's.
 */
int uma_open_file_at(int folder, const char *name, bool follow, struct stat *ret_st);

/* A file of a listing, when its path still leads to that very file; -ESTALE: to another one by now. */
int uma_cached_file_open(const struct uma_cached_file *file, struct stat *ret_st);

/*
 * openat(2), close on exec, with O_NOATIME where that may be had: a folder or file that is looked at keeps its time of last use. The descriptor or -errno. It opens
 * whatever `name` is: for names that were looked at before, and for folders.
 */
int uma_open_quietly(int folder, const char *name, int flags);
