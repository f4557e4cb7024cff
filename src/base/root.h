/* SPDX-License-Identifier: MIT */
/*
 * root.h - reading files of a machine that is this one ("/") or a folder (--root). Paths are relative: "proc/meminfo".
 * In a folder, links never lead out of it and only regular files and folders are opened (a FIFO would block). Every read is bounded.
 * With a capture folder, each file that is read is also written there, so that --root on it gives the same reading.
 * Not thread-safe.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

struct uma_root;

/* path NULL or "/": this machine. capture NULL: none; else a folder, created if missing, refused when not empty. */
int uma_root_open(const char *path, const char *capture, struct uma_root **ret_root, struct uma_error *err);
struct uma_root *uma_root_close(struct uma_root *root);
bool uma_root_is_live(const struct uma_root *root);
/* What the user gave, for messages: "" or "DIR". */
const char *uma_root_name(const struct uma_root *root);
/* The capture folder, or NULL. */
const char *uma_root_capture(const struct uma_root *root);

/*
 * Read at most `max` bytes of a file into `into` (reset first; NUL-terminated). Returns 0, or 1 when the file was longer and was cut.
 * -ENOENT, -EACCES ... with err naming the path as the user would write it. A kernel file that fails in read(2) gives that errno
 * (EOPNOTSUPP for disabled PSI, ESRCH for a process that ended, EAGAIN for an idle core).
 */
int uma_root_read(struct uma_root *root, const char *path, size_t max, struct uma_text *into, struct uma_error *err);
/* The same, keeping the file open for the next time (pread from 0) in slot `*kept` (start it as -1; uma_root_forget closes it). */
int uma_root_read_kept(struct uma_root *root, const char *path, size_t max, int *kept, struct uma_text *into, struct uma_error *err);
void uma_root_forget(int *kept);
/*
 * A sysfs attribute, kept open likewise: one pread(2), because an attribute is at most a page and comes whole. When the device behind a
 * kept file is gone: -ENODEV, and the slot is closed; the path is not tried again, because what stands there now may be another device.
 */
int uma_root_read_attribute(struct uma_root *root, const char *path, size_t max, int *kept, struct uma_text *into, struct uma_error *err);
/* A small sysfs file with one number. */
int uma_root_read_i64(struct uma_root *root, const char *path, int64_t *ret_value, struct uma_error *err);
/* A small file's first line without trailing white space; at most max bytes. */
int uma_root_read_line(struct uma_root *root, const char *path, size_t max, struct uma_text *into, struct uma_error *err);
/* Add `text` under `path` to the capture folder (for what was not read as a plain file, or must be filtered first). Nothing when none. */
int uma_root_record(struct uma_root *root, const char *path, const char *text, size_t length, struct uma_error *err);
/* Read without recording (the caller records a filtered form). */
int uma_root_read_unrecorded(struct uma_root *root, const char *path, size_t max, struct uma_text *into, struct uma_error *err);

/*
 * A folder held open, and a file read inside it: two reads then speak of the same thing even when its name is given to another in
 * between (a process number is reused; the folder of the old process answers ESRCH). `folder_path` is what `folder` was opened with.
 * For kernel files whose read(2) gives the rest in one piece (seq_file, cmdline, environ): a short read is taken as the end.
 * `record`: into the capture folder, too.
 */
int uma_root_open_folder(struct uma_root *root, const char *path, int *ret_folder, struct uma_error *err);
int uma_root_read_in(struct uma_root *root, int folder, const char *folder_path, const char *name, size_t max, bool record,
                     struct uma_text *into, struct uma_error *err);

/* Call `each` for every name in a folder ("." and ".." left out), at most max of them; stops when it returns non-zero and returns that.
 * Returns the number of entries seen, or a negative errno. Order is the file system's. */
int uma_root_list(struct uma_root *root, const char *path, size_t max, int (*each)(void *userdata, const char *name), void *userdata,
                  struct uma_error *err);
/* Does it exist (as anything)? */
bool uma_root_exists(struct uma_root *root, const char *path);
/* Is it, or does it lead to, a character device with this major number? One stat(2), no open: for telling a process's interesting
 * descriptors (proc/PID/fd/N) from the others. Only on this machine; always false in a folder, which has no devices. */
bool uma_root_is_device(struct uma_root *root, const char *path, unsigned major_number);

static inline void uma_cleanup_root(struct uma_root **r) {
    (void)uma_root_close(*r);
}
#define _cleanup_root_ _cleanup_(uma_cleanup_root)
