/* SPDX-License-Identifier: MIT */
/*
 * mountinfo.h - one line of a mount table cut into its fields, and the undoing of the kernel's escapes. Nothing is copied or judged here: what the fields
 * mean is for whoever asks (cgroup_mount.c, files/mounts.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Into the text that was parsed; not NUL-terminated, escapes as they stand. */
struct uma_mount_field {
    const char *s;
    size_t n;
};

struct uma_mount_line {
    struct uma_mount_field id, parent, device; /* empty in the short form; device: "8:1" */
    struct uma_mount_field root;               /* which part of the file system is shown; "/" in the short form */
    struct uma_mount_field point, flags, type, source;
    struct uma_mount_field options; /* of the file system ("super options"); in the short form all there are, `flags` is the same */
};

/* proc_pid_mountinfo(5). The line is [line, end) without its newline; false: it is not such a line. */
bool uma_mountinfo_line(const char *line, const char *end, struct uma_mount_line *ret_line);
/* proc_mounts(5), the short form. */
bool uma_mounts_line(const char *line, const char *end, struct uma_mount_line *ret_line);

bool uma_mount_field_is(struct uma_mount_field field, const char *word);
/* Undo \040, \011, \012, \134, \054, \075 (fs/seq_file.c: mangle_path, seq_escape). Room for field.n + 1 bytes; returns the length, NUL-terminated. */
size_t uma_mount_unescape(struct uma_mount_field field, char *into);
