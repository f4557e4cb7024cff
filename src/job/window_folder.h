/* SPDX-License-Identifier: MIT */
/*
 * window_folder.h - the folder of the socket that helpers connect to: mode 0700, so that no other user gets near it, and locked (flock(2)) for as long as its umactl lives.
 * One whose lock is free belongs to a umactl that was killed, and the next one removes it: its own user's alone, nothing but the socket and the folder, no link
 * followed.
 */
#pragma once

#include "base/error.h"

enum { UMA_WINDOW_FOLDER_MAX = 64 }; /* with the socket's name it has to fit into sun_path, 108 bytes */

struct uma_window_folder {
    char path[UMA_WINDOW_FOLDER_MAX]; /* "": none */
    int lock_fd;                      /* -1: the file system has no such locks */
};

/* In XDG_RUNTIME_DIR, TMPDIR or /tmp. Removes what killed runs of this user left in the same place. */
int uma_window_folder_make(struct uma_window_folder *ret_folder, struct uma_error *err);
/* It must be empty. One without a path is done. */
void uma_window_folder_remove(struct uma_window_folder *folder);
