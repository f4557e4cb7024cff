/* SPDX-License-Identifier: MIT */
/* The folder of a run record on the disk. Its content is run_record.c's. */
#include "record/run_record.h"

#include "base/write.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int uma_state_path(char *ret_path, size_t size, struct uma_error *err) {
    const char *own = getenv("UMACTL_STATE"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;
    /* The XDG Base Directory specification: a relative path in these variables is to be ignored. */
    if (own && own[0])
        n = snprintf(ret_path, size, "%s", own);
    else if (state && state[0] == '/')
        n = snprintf(ret_path, size, "%s/umactl", state);
    else if (home && home[0] == '/')
        n = snprintf(ret_path, size, "%s/.local/state/umactl", home);
    else
        return uma_error_text(err, ENOENT, "no place for run records: UMACTL_STATE, XDG_STATE_HOME and HOME are unset");
    if (n < 0 || (size_t)n >= size)
        return uma_error_text(err, ENAMETOOLONG, "the path of the state directory is longer than %zu bytes", size - 1);
    return 0;
}

/* mkdir -p, new folders with mode 0700 as the XDG specification asks. */
static int make_folders(const char *path, struct uma_error *err) {
    char part[4096];
    size_t n = strlen(path);
    if (n >= sizeof(part))
        return uma_error_set(err, ENAMETOOLONG, "%s", path);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return uma_error_set(err, errno, "making %s", part);
    }
    return 0;
}

int uma_run_folder_create(const char *id, struct uma_run_folder *ret_folder, struct uma_error *err) {
    struct uma_run_folder folder = { .dir_fd = -1, .events_fd = -1 };
    char state[3500];
    int r = uma_state_path(state, sizeof(state), err);
    if (r < 0)
        return r;
    (void)snprintf(folder.path, sizeof(folder.path), "%s/runs", state);
    r = make_folders(folder.path, err);
    if (r < 0)
        return r;
    (void)snprintf(folder.path, sizeof(folder.path), "%s/runs/%.160s", state, id);
    if (mkdir(folder.path, 0700) < 0)
        return uma_error_set(err, errno, "making %s", folder.path);
    _cleanup_close_ int dir = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir >= 0)
        folder.events_fd = openat(dir, "events.jsonl", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (folder.events_fd < 0) {
        r = uma_error_set(err, errno, "%s %s", dir < 0 ? "opening" : "making events.jsonl in", folder.path);
        (void)rmdir(folder.path); /* an empty folder would be taken for a record */
        return r;
    }
    folder.dir_fd = TAKE_FD(dir);
    *ret_folder = folder;
    return 0;
}

int uma_run_folder_put(struct uma_run_folder *folder, const char *file, const char *text, size_t length, bool durable,
                       struct uma_error *err) {
    char temporary[64];
    if (folder->dir_fd < 0)
        return 0;
    (void)snprintf(temporary, sizeof(temporary), ".%.50s.new", file);
    _cleanup_close_ int fd = openat(folder->dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return uma_error_set(err, errno, "writing %s/%s", folder->path, file);
    int r = uma_write_all(fd, text, length);
    if (r == 0 && durable && fdatasync(fd) < 0)
        r = -errno;
    if (r == 0 && renameat(folder->dir_fd, temporary, folder->dir_fd, file) < 0)
        r = -errno;
    if (r < 0) {
        (void)unlinkat(folder->dir_fd, temporary, 0);
        return uma_error_set(err, -r, "writing %s/%s", folder->path, file);
    }
    return 0;
}

int uma_run_folder_event(struct uma_run_folder *folder, const struct uma_event *event) {
    _cleanup_text_ struct uma_text line = { 0 };
    if (folder->events_fd < 0)
        return 0;
    uma_event_format(event, &line);
    if (line.failed)
        return -ENOMEM;
    return uma_write_all(folder->events_fd, line.data, line.length);
}

void uma_run_folder_close(struct uma_run_folder *folder) {
    if (folder->dir_fd >= 0)
        (void)close(folder->dir_fd);
    if (folder->events_fd >= 0)
        (void)close(folder->events_fd);
    folder->dir_fd = folder->events_fd = -1;
}
