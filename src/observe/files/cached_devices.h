/* SPDX-License-Identifier: MIT */
/*
 * cached_devices.h - the block devices that hold this machine's file systems: their own cache is the file systems' metadata (Buffers of meminfo). Found by the mounts
 * that are there; a device that is not in use has no cache, because the last close drops it (blkdev_put_whole, block/bdev.c).
 */
#pragma once

#include "base/error.h"
#include "observe/files/mounts.h"

#include <sys/stat.h>

/*
 * Call `each` for every device of a local mount and for the whole disk that it is a part of, each once, open for reading (`fd` -errno: why not). `size` is
 * 0 when not known. Non-zero ends it and is returned.
 */
int uma_cached_devices_each(const struct uma_mounts *mounts,
                            int (*each)(void *userdata, const char *path, int fd, const struct stat *st, uint64_t size), void *userdata);
