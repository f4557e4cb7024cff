/* SPDX-License-Identifier: MIT */
/*
 * overlay_layer.h - the file behind a file of an overlay. Pages belong to the file of a layer (fs/overlayfs/file.c), which has as many overlays on top as there are
 * containers of one image: whoever counts overlays counts it as often. Opens nothing but what lies in a layer as it is called in the overlay and
 * is the same in size and time; follows no link.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"
#include "observe/files/mounts.h"

#include <sys/stat.h>

struct uma_overlay_layers;
/* `own`: this process's mounts, for keeping off layers that may not answer; outlives it. */
struct uma_overlay_layers *uma_overlay_layers_new(const struct uma_mounts *own);
struct uma_overlay_layers *uma_overlay_layers_free(struct uma_overlay_layers *layers);

/*
 * `path` is the file's in the view that `mount` is of, without links; `st` its stat there. The layer's file open for reading, its path as this process sees it, and its fstat.
 * -ENOENT when no layer that can be reached from here has it (layers are named as whoever mounted it saw them); -ENOSYS before 5.6 (openat2(2)).
 */
int uma_overlay_layer_open(struct uma_overlay_layers *layers, const struct uma_mount *mount, const char *path, const struct stat *st,
                           struct uma_text *ret_path, struct stat *ret_st);
