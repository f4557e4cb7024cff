/* SPDX-License-Identifier: MIT */
#include "observe/files/gather.h"

#include "base/values.h"
#include "observe/files/open_file.h"
#include "observe/files/process_files.h"

#include <fcntl.h>
#include <string.h>

/* "/proc/77/root/models/a" -> "/models/a"; NULL: the path is no name in the process's view. */
static const char *in_view(const struct uma_used_file *used) {
    if (!used->other_view)
        return strncmp(used->path, "/proc/", 6) == 0 ? NULL : used->path;
    char door[48];
    int n = snprintf(door, sizeof(door), "/proc/%d/root/", used->pid);
    return strncmp(used->path, door, (size_t)n) == 0 ? used->path + n - 1 : NULL;
}

/* On a file system that may not answer: it is there, and that is all that is said. */
static int untouched(struct uma_gather *gather, const struct uma_used_file *used, const struct uma_cached_users *users) {
    gather->untouched++;
    if (used->inode) {
        int r = uma_cached_table_claim(gather->table, used->device, used->inode);
        if (r <= 0)
            return r < 0 ? r : uma_cached_table_again(gather->table, used->device, used->inode, NULL, NULL, users);
    }
    struct uma_cached_file file = {
        .path = used->path,
        .shown = used->shown && strcmp(used->shown, used->path) != 0 ? used->shown : NULL,
        .filesystem = used->mount ? used->mount->type : NULL,
        .container = used->other_view ? uma_gather_container(gather, used->pid) : NULL,
        .deleted = used->deleted,
        .device = used->device,
        .inode = used->inode,
        .why = "it lies where nobody may answer (network, FUSE), and was not touched",
    };
    return uma_cached_table_add(gather->table, &file, users);
}

static int one(struct uma_gather *gather, const struct uma_used_file *used) {
    struct uma_cached_users users = {
        .n_mapped_by = used->n_mapped_by, .n_open_by = used->n_open_by, .mapped_by = used->mapped_by, .open_by = used->open_by
    };
    if (used->may_hang)
        return untouched(gather, used, &users);
    struct stat st = { .st_mode = S_IFREG, .st_dev = used->device, .st_ino = used->inode, .st_size = (off_t)used->size };
    _cleanup_close_ int fd = uma_open_file_at(AT_FDCWD, used->path, true, &st);
    if (fd < 0 && fd != -EACCES && fd != -EPERM) {
        gather->counts.vanished++; /* also what turned out to be no regular file */
        return 0;
    }
    if (fd < 0 && !used->looked_at) {
        gather->counts.denied++;
        return 0;
    }
    if (fd >= 0 && used->looked_at && (st.st_ino != used->inode || st.st_dev != used->device)) {
        gather->counts.vanished++; /* its name is another file's by now */
        return 0;
    }
    bool door = strncmp(used->path, "/proc/", 6) == 0;
    const struct uma_gather_way way = {
        .path = used->path,
        .shown = used->shown,
        .container = used->other_view ? uma_gather_container(gather, used->pid) : NULL,
        .mount = used->mount,
        .in_view = in_view(used),
        .kind = used->kind,
        .deleted = used->deleted,
        .better = !door,
    };
    return uma_gather_file(gather, &way, fd, &st, NULL, &users);
}

int uma_gather_used(struct uma_gather *gather, struct uma_error *err) {
    struct uma_used_files used = { 0 };
    int r = uma_used_files_read(gather->root, gather->deadline_ns, gather->scratch, &used, err);
    if (r < 0)
        return r;
    gather->counts.processes = used.processes;
    gather->counts.processes_denied = used.denied;
    if (used.cut)
        uma_gather_cut_or_late(gather, "more files are in use than are kept");
    for (size_t i = 0; i < used.n && r == 0; i++) {
        if (!uma_gather_goes_on(gather, used.list[i].shown ? used.list[i].shown : used.list[i].path))
            return 0;
        r = one(gather, &used.list[i]);
    }
    return r < 0 ? uma_error_set(err, -r, "the files that processes use") : 0;
}
