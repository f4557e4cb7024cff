/* SPDX-License-Identifier: MIT */
/*
 * local_path.h - realpath(3) that never waits: each name on the way is looked up among the mounts before it is touched, and nothing on a network, FUSE or pseudo
 * file system is. Works in the view of another process too, whose absolute links begin at its own root. Changes nothing; what it found may be gone at once.
 */
#pragma once

#include "base/text.h"
#include "observe/files/mounts.h"

#include <sys/stat.h>

/*
 * `path` is absolute in a view: `door` "" and this process's mounts, or "/proc/PID/root" and that process's. *ret_path: without links, in the same view, to be
 * opened with `door` in front. `mounts` NULL: all is local. -EXDEV: it leads to where nothing is touched; -ENOENT, -EACCES, -ELOOP, -ENAMETOOLONG and
 * the like.
 */
int uma_local_path(const struct uma_mounts *mounts, const char *door, const char *path, struct uma_text *ret_path, struct stat *ret_st);
