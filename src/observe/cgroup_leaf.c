/* SPDX-License-Identifier: MIT */
#include "observe/cgroup_leaf.h"

#include "base/cleanup.h"
#include "observe/cgroup.h"
#include "observe/lines.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 1 << 16 }; /* a dozen hierarchies of 4 KiB paths at most */

static void done(struct uma_cgroup_mounts *mounts) {
    uma_cgroup_mounts_done(mounts);
}

static int find_mount(struct uma_root *root, struct uma_text *text, struct uma_cgroup_mounts *mounts, struct uma_error *err) {
    uma_cgroup_mounts_find(root, text, mounts);
    if (mounts->unified.base)
        return 0;
    return uma_error_text(err, ENOENT, "cgroup v2 is not mounted here");
}

/* The "0::/path" line (cgroups(7)); NULL: there is none. */
static char *unified_path(struct uma_text *text) {
    for (char *line = text->data, *end = text->data + text->length; line < end;) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        if (newline)
            *newline = '\0';
        if (strncmp(line, "0::", 3) == 0)
            return line + 3;
        line = newline ? newline + 1 : end;
    }
    return NULL;
}

int uma_cgroup_leaf_of(struct uma_root *root, pid_t pid, char *ret_path, size_t size, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 }, line = { 0 };
    _cleanup_(done) struct uma_cgroup_mounts mounts = { 0 };
    char file[64];
    int r = find_mount(root, &text, &mounts, err);
    if (r < 0)
        return r;
    (void)snprintf(file, sizeof(file), "proc/%d/cgroup", (int)pid);
    r = uma_root_read(root, file, FILE_MAX, &line, err);
    if (r < 0)
        return r;
    const char *path = line.length ? unified_path(&line) : NULL;
    if (!path)
        return uma_error_text(err, ENOENT, "process %d is in no group of cgroup v2", (int)pid);
    const char *below = uma_cgroup_path_below(&mounts.unified, path);
    if (!below)
        return uma_error_text(err, EXDEV, "the group of process %d is not to be seen from here: ask on the host, not in a container",
                              (int)pid);
    if (!below[0])
        return uma_error_text(err, EINVAL,
                              "process %d is in the root group, which holds the whole machine (in a container: ask on the host)", (int)pid);
    if (snprintf(ret_path, size, "/%s%s", mounts.unified.base, below) >= (int)size)
        return uma_error_text(err, ENAMETOOLONG, "the group's path is too long");
    return 0;
}

int uma_cgroup_leaf_check(struct uma_root *root, const char *path, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 };
    _cleanup_(done) struct uma_cgroup_mounts mounts = { 0 };
    char procs[4200];
    int r = find_mount(root, &text, &mounts, err);
    if (r < 0)
        return r;
    size_t n = strlen(mounts.unified.base);
    if (path[0] != '/' || strncmp(path + 1, mounts.unified.base, n) != 0 || path[n + 1] != '/' || strstr(path, "/.."))
        return uma_error_text(err, EXDEV, "%.200s is not below /%s, where cgroup v2 is", path, mounts.unified.base);
    if (path[n + 1 + strspn(path + n + 1, "/.")] == '\0') /* also by another way to write it */
        return uma_error_text(err, EINVAL, "the root group holds the whole machine");
    if (snprintf(procs, sizeof(procs), "%.4000s/cgroup.procs", path + 1) >= (int)sizeof(procs) || !uma_root_exists(root, procs))
        return uma_error_text(err, ENOENT, "%.200s is no group", path);
    return 0;
}
