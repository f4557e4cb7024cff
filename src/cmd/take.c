/* SPDX-License-Identifier: MIT */
/* Taking a snapshot as the common options say: from this machine, from a folder, or from a document. */
#include "cmd/command.h"

#include <fcntl.h>
#include <string.h>

struct uma_observe_options uma_command_observe_options(const struct uma_common_options *options) {
    const char *nvml = getenv("UMACTL_NVML");
    return (struct uma_observe_options){ .root = options->root, .nvml = nvml && *nvml ? nvml : NULL };
}

/* The documented most of uma_snapshot_parse(); one byte more tells "too large" from "just fits". */
enum { SNAPSHOT_BYTES_MAX = 256 * 1024 * 1024 };

static int read_all(int fd, const char *name, struct uma_text *text, struct uma_error *err) {
    static char block[64 * 1024];
    for (;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return uma_error_set(err, errno, "%s: cannot be read", name);
        if (n == 0)
            return text->failed ? uma_error_set(err, ENOMEM, "%s", name) : 0;
        uma_text_append_n(text, block, (size_t)n);
        if (text->length > SNAPSHOT_BYTES_MAX)
            return uma_error_text(err, EFBIG, "%s: larger than 256 MiB, which no snapshot is", name);
    }
}

static int take_from_file(const char *path, struct uma_snapshot *ret_snapshot, struct uma_error *err) {
    bool standard_input = strcmp(path, "-") == 0;
    const char *name = standard_input ? "standard input" : path;
    _cleanup_text_ struct uma_text text = { 0 };
    _cleanup_close_ int fd = -1;
    if (!standard_input && (fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)) < 0)
        return uma_error_set(err, errno, "%s: cannot be opened, expected a snapshot written by `umactl snapshot`", name);
    int r = read_all(standard_input ? STDIN_FILENO : fd, name, &text, err);
    if (r < 0)
        return r;
    if (text.length == 0)
        return uma_error_text(err, EINVAL, "%s: empty, expected a snapshot written by `umactl snapshot`", name);
    return uma_snapshot_parse(text.data, text.length, name, ret_snapshot, err);
}

int uma_command_snapshot_take(const struct uma_common_options *options, unsigned what, struct uma_snapshot *ret_snapshot,
                              struct uma_error *err) {
    if (options->from)
        return take_from_file(options->from, ret_snapshot, err);
    struct uma_observe_options observe = uma_command_observe_options(options);
    return uma_command_snapshot_read(&observe, what, ret_snapshot, err);
}

int uma_command_snapshot_read(const struct uma_observe_options *options, unsigned what, struct uma_snapshot *ret_snapshot,
                              struct uma_error *err) {
    struct uma_observer *observer = NULL;
    int r = uma_observer_open(options, &observer, err);
    if (r < 0)
        return r;
    struct uma_snapshot snapshot;
    r = uma_snapshot_init(&snapshot);
    if (r < 0)
        (void)uma_error_set(err, -r, "taking a snapshot");
    else if ((r = uma_observer_read(observer, what, &snapshot, err)) < 0)
        uma_snapshot_done(&snapshot);
    else
        *ret_snapshot = snapshot;
    (void)uma_observer_close(observer);
    return MIN_OF(r, 0);
}
