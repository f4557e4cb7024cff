/* SPDX-License-Identifier: MIT */
/* window_library.h - the library that is preloaded into a job (src/window/): where it is, and that it is this one. Nothing of it is executed to find out. */
#pragma once

#include "base/error.h"

#include <limits.h>
#include <stddef.h>

/* The variable that names the only place. */
#define UMA_WINDOW_LIBRARY_VARIABLE "UMACTL_WINDOW_LIBRARY"

/* Absolute, fit for LD_PRELOAD, and the helper of this program's version. UMACTL_WINDOW_LIBRARY names the only place; else beside the program, else where it is
 * installed. */
int uma_window_library_find(char ret_path[PATH_MAX], struct uma_error *err);

enum uma_window_library {
    UMA_WINDOW_LIBRARY_FITS,
    UMA_WINDOW_LIBRARY_NOT_ELF,
    UMA_WINDOW_LIBRARY_FOREIGN,
    UMA_WINDOW_LIBRARY_NOT_HELPER,
    UMA_WINDOW_LIBRARY_VERSION
};
/* What the bytes of a file are. Pure. */
enum uma_window_library uma_window_library_judge(const unsigned char *bytes, size_t length);
