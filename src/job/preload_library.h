/* SPDX-License-Identifier: MIT */
/*
 * preload_library.h - a library of umactl's own that is preloaded into a job (src/window/, src/valve/): where it is, and that it is this one. Nothing of it is executed to find
 * out.
 */
#pragma once

#include "base/error.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct uma_library {
    const char *file;     /* "libuma-window.so" */
    const char *folder;   /* below the program's own where it is built: "window" */
    const char *variable; /* of the environment, that names the only place */
    const char *mark;     /* text in it, followed by its version in digits */
    uint64_t version;
    const char *what; /* "helper" */
};
extern const struct uma_library uma_library_window, uma_library_valve;

/* Absolute, fit for LD_PRELOAD, and of this program's version. The variable names the only place; else beside the program, else where it is installed. */
int uma_library_find(const struct uma_library *library, char ret_path[PATH_MAX], struct uma_error *err);

enum uma_library_file { UMA_LIBRARY_FITS, UMA_LIBRARY_NOT_ELF, UMA_LIBRARY_FOREIGN, UMA_LIBRARY_ANOTHER, UMA_LIBRARY_VERSION };
/* What the bytes of a file are. Pure. */
enum uma_library_file uma_library_judge(const struct uma_library *library, const unsigned char *bytes, size_t length);
