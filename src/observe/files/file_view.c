/* SPDX-License-Identifier: MIT */
/*
 * Paths in /proc (fd links, maps) are what d_path() says to whoever reads them (fs/d_path.c): up from the file to the reader's root, or to the top of the file's own
 * mount tree where that is another one. So those of processes in this mount namespace are this process's paths, chroot or not; those of a container begin at
 * the top of its namespace, which is its root unless it also called chroot(2).
 */
#include "observe/files/file_view.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* "mnt:[4026531840]" */
enum { NAMESPACE_MAX = 64, PATH_BYTES = 4096 };

bool uma_mount_may_hang(const struct uma_mount *mount) {
    return mount->kind == UMA_FILESYSTEM_NETWORK || mount->kind == UMA_FILESYSTEM_FUSE;
}

/* ---- views -------------------------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b) {
    int32_t x = (*(const struct uma_mount *const *)a)->id, y = (*(const struct uma_mount *const *)b)->id;
    return (x > y) - (x < y);
}

static void read_mounts(struct uma_file_views *views, struct uma_file_view *view, pid_t pid) {
    if (uma_mounts_read(views->root, pid, views->arena, &view->mounts, NULL) < 0)
        return;
    size_t n = view->mounts.n;
    const struct uma_mount **sorted = uma_arena_array(views->arena, n, sizeof(void *));
    const struct uma_mount **hanging = uma_arena_array(views->arena, n, sizeof(void *));
    if (!sorted || !hanging)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct uma_mount *mount = &view->mounts.list[i];
        sorted[i] = mount;
        if (uma_mount_may_hang(mount) || strcmp(mount->type, "autofs") == 0)
            hanging[view->n_hanging++] = mount;
    }
    if (n > 0)
        qsort(sorted, n, sizeof(void *), by_id);
    view->by_id = sorted;
    view->hanging = hanging;
    view->has_mounts = true;
}

static int add_view(struct uma_file_views *views, const char *name, const char *root, pid_t pid) {
    if (views->n == UMA_FILE_VIEWS_MAX)
        return -E2BIG;
    if (views->n == views->capacity) {
        size_t capacity = views->capacity ? views->capacity * 2 : 16;
        struct uma_file_view **list = realloc(views->list, capacity * sizeof(void *));
        if (!list)
            return -ENOMEM;
        views->list = list;
        views->capacity = capacity;
    }
    struct uma_file_view *view = uma_arena_alloc(views->arena, sizeof(*view));
    if (!view)
        return -ENOMEM;
    view->own = views->n == 0;
    view->name = uma_arena_strndup(views->arena, name, NAMESPACE_MAX);
    view->root = uma_arena_strndup(views->arena, root, PATH_BYTES);
    if (!view->name || !view->root)
        return -ENOMEM;
    read_mounts(views, view, pid);
    views->list[views->n] = view;
    return (int)views->n++;
}

/* What a link says, NUL-terminated; -ENAMETOOLONG when it does not fit. */
static int read_link(int folder, const char *name, char *into, size_t size) {
    ssize_t n = readlinkat(folder, name, into, size);
    if (n < 0)
        return -errno;
    if ((size_t)n == size)
        return -ENAMETOOLONG;
    into[n] = '\0';
    return 0;
}

int uma_file_views_open(struct uma_root *root, struct uma_arena *arena, struct uma_file_views *ret_views, struct uma_error *err) {
    struct uma_file_views views = { .root = root, .arena = arena };
    char name[NAMESPACE_MAX] = "";
    int r = read_link(AT_FDCWD, "/proc/self/ns/mnt", name, sizeof(name));
    if (r == 0)
        r = add_view(&views, name, "", 0);
    if (r < 0) {
        uma_file_views_done(&views);
        return uma_error_set(err, -r, "/proc/self/ns/mnt");
    }
    *ret_views = views;
    return 0;
}

void uma_file_views_done(struct uma_file_views *views) {
    free(views->list);
    *views = (struct uma_file_views){ 0 };
}

int uma_file_views_of(struct uma_file_views *views, int folder, pid_t pid) {
    char name[NAMESPACE_MAX], root[PATH_BYTES];
    int r = read_link(folder, "ns/mnt", name, sizeof(name));
    if (r < 0)
        return r;
    if (strcmp(name, views->list[0]->name) == 0)
        return 0;
    r = read_link(folder, "root", root, sizeof(root));
    if (r < 0)
        return r;
    if (strcmp(root, "/") == 0)
        root[0] = '\0';
    for (size_t i = 1; i < views->n; i++) {
        struct uma_file_view *view = views->list[i];
        if (strcmp(view->name, name) == 0 && strcmp(view->root, root) == 0) {
            if (!view->has_mounts) /* the process that was asked first had ended */
                read_mounts(views, view, pid);
            return (int)i;
        }
    }
    return add_view(views, name, root, pid);
}

/* ---- mounts of views ---------------------------------------------------------------------------------------------- */

static const struct uma_mount *mount_of_id(const struct uma_file_view *view, int32_t id) {
    size_t low = 0, high = view->has_mounts ? view->mounts.n : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (view->by_id[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return view->has_mounts && low < view->mounts.n && view->by_id[low]->id == id ? view->by_id[low] : NULL;
}

const struct uma_mount *uma_file_views_mount(const struct uma_file_views *views, int view, int32_t id, int *ret_view) {
    if (id < 0)
        return NULL;
    const struct uma_mount *mount = mount_of_id(views->list[view], id);
    int owner = view;
    for (size_t i = 0; !mount && i < views->n; i++) { /* ids are given once on a machine (fs/namespace.c, mnt_alloc_id) */
        mount = mount_of_id(views->list[i], id);
        owner = (int)i;
    }
    if (mount)
        *ret_view = owner;
    return mount;
}

const struct uma_mount *uma_file_views_device(const struct uma_file_views *views, int view, dev_t device) {
    const struct uma_mount *mount = uma_mounts_of_device(&views->list[view]->mounts, device);
    for (size_t i = 0; !mount && i < views->n; i++)
        mount = uma_mounts_of_device(&views->list[i]->mounts, device);
    return mount;
}

/* ---- paths -------------------------------------------------------------------------------------------------------- */

const char *uma_file_view_inner(const struct uma_file_view *view, const char *path) {
    size_t n = strlen(view->root);
    return strncmp(path, view->root, n) == 0 && path[n] == '/' ? path + n : NULL;
}

bool uma_file_view_is_safe(const struct uma_file_view *view, const char *inner) {
    for (size_t i = 0; i < view->n_hanging; i++) {
        const char *point = view->hanging[i]->point;
        size_t n = strcmp(point, "/") == 0 ? 0 : strlen(point);
        if (strncmp(inner, point, n) == 0 && (inner[n] == '/' || inner[n] == '\0'))
            return false;
    }
    return view->has_mounts;
}

bool uma_file_view_stat(const struct uma_file_view *view, int folder, const char *inner, struct stat *ret_st) {
    if (!uma_file_view_is_safe(view, inner) || inner[1] == '\0')
        return false;
    _cleanup_close_ int top = view->own ? -1 : openat(folder, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0 && !view->own)
        return false;
    const char *path = view->own ? inner : inner + 1;
    struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS };
    _cleanup_close_ int fd = (int)syscall(SYS_openat2, top, path, &how, sizeof(how));
    if (fd >= 0)
        return fstat(fd, ret_st) == 0;
    /* before 5.6, or not allowed here: the text has no links, only somebody who swaps one in meanwhile is not noticed */
    return (errno == ENOSYS || errno == EPERM) && fstatat(top, path, ret_st, AT_SYMLINK_NOFOLLOW) == 0;
}
