/* SPDX-License-Identifier: MIT */
/*
 * ring_file.h - a file of fixed size that one guard alone writes: preallocated, so that a full disk is met when it is opened and not when it is needed; mode 0640; locked; never behind a symbolic link. What is there of another
 * size, form or owner is set aside as NAME.old (one of them, the newest) and begun anew.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UMA_GUARD_RING_HEAD = 64 }; /* bytes at the start of the file that say what it is */

struct uma_guard_ring_form {
    const char *name;
    uint64_t size;
    uint8_t head[UMA_GUARD_RING_HEAD];
    bool zeroed; /* write it once when it is new: a later sync of a record has then no block map to write beside it */
};

/* An open and locked descriptor, or -errno. *ret_note: a static text that says why not, or that another file was set aside; else NULL. */
int uma_guard_ring_file_open(const char *folder, const struct uma_guard_ring_form *form, const char **ret_note);

/* The boot id of this boot; zeros where it cannot be read. */
void uma_guard_boot_id(uint8_t ret_boot[16]);
