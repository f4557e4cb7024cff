/* SPDX-License-Identifier: MIT */
#include "observe/files/overlay_layer.h"

#include "observe/files/local_path.h"
#include "observe/files/open_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Overlays whose layers are kept resolved; files come process by process, so that few are needed at once. */
enum { KEPT = 32 };
/* Layers of one overlay that are looked into, the upper one included: as many as the kernel allows (OVL_MAX_STACK, fs/overlayfs/params.h). */
enum { LAYERS_MAX = 501 };

struct resolved {
    const struct uma_mount *mount;
    size_t n;
    char **paths; /* without links, uppermost first; NULL: cannot be reached */
};

struct uma_overlay_layers {
    const struct uma_mounts *own;
    struct resolved kept[KEPT];
    size_t next;
    bool no_openat2;
};

static void forget(struct resolved *r) {
    for (size_t i = 0; i < r->n; i++)
        free(r->paths[i]);
    free(r->paths);
    *r = (struct resolved){ 0 };
}

struct uma_overlay_layers *uma_overlay_layers_new(const struct uma_mounts *own) {
    struct uma_overlay_layers *layers = calloc(1, sizeof(*layers));
    if (layers)
        layers->own = own;
    return layers;
}

struct uma_overlay_layers *uma_overlay_layers_free(struct uma_overlay_layers *layers) {
    for (size_t i = 0; layers && i < KEPT; i++)
        forget(&layers->kept[i]);
    free(layers);
    return NULL;
}

static char *resolve(const struct uma_overlay_layers *layers, const char *path) {
    struct uma_text real = { 0 };
    struct stat st;
    if (!path || uma_local_path(layers->own, "", path, &real, &st) < 0 || !S_ISDIR(st.st_mode)) {
        uma_text_done(&real);
        return NULL;
    }
    return real.data;
}

static const struct resolved *layers_of(struct uma_overlay_layers *layers, const struct uma_mount *mount) {
    for (size_t i = 0; i < KEPT; i++)
        if (layers->kept[i].mount == mount)
            return &layers->kept[i];
    struct resolved *r = &layers->kept[layers->next++ % KEPT];
    forget(r);
    size_t n = MIN_OF((size_t)mount->n_lower + 1, (size_t)LAYERS_MAX);
    r->paths = calloc(n, sizeof(*r->paths));
    if (!r->paths)
        return NULL;
    r->mount = mount;
    r->n = n;
    for (size_t i = 0; i < n; i++)
        r->paths[i] = resolve(layers, i == 0 ? mount->upper : mount->lower[i - 1]);
    return r;
}

/* Where the file is below each layer: `path` without the mount's point, behind what the mount shows of the overlay. */
static bool below(const struct uma_mount *mount, const char *path, struct uma_text *ret_below) {
    size_t n = strlen(mount->point);
    while (n > 0 && mount->point[n - 1] == '/')
        n--;
    if (strncmp(path, mount->point, n) != 0 || path[n] != '/')
        return false;
    if (strcmp(mount->root, "/") != 0)
        uma_text_append(ret_below, mount->root);
    uma_text_append(ret_below, path + n);
    return !ret_below->failed && ret_below->length > 0 && ret_below->data[0] == '/';
}

/* A regular file, found and not opened; -ENOENT: look into the next layer; else it is not to be had. */
static int find(struct uma_overlay_layers *layers, const char *path, struct stat *ret_st) {
    struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    _cleanup_close_ int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    if (fd < 0 &&
        errno == ENOTDIR) /* a whiteout, or another file, in place of a folder: what is below it is hidden here and not in the overlay */
        return -ENOENT;
    if (fd < 0) {
        layers->no_openat2 = errno == ENOSYS || errno == EPERM; /* EPERM: a filter of system calls */
        return layers->no_openat2 ? -ENOSYS : -errno;
    }
    if (fstat(fd, ret_st) < 0)
        return -errno;
    return S_ISREG(ret_st->st_mode) ? TAKE_FD(fd) : -ESTALE;
}

/*
 * The overlay shows the size and times of the file that has the data (ovl_getattr, fs/overlayfs/inode.c). A folder that was renamed in the overlay
 * (redirect_dir) or a copy of attributes alone (metacopy) leads to another file, which this tells apart.
 */
static bool same_data(const struct stat *a, const struct stat *b) {
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           (b->st_blocks != 0 || a->st_blocks == 0);
}

int uma_overlay_layer_open(struct uma_overlay_layers *layers, const struct uma_mount *mount, const char *path, const struct stat *st,
                           struct uma_text *ret_path, struct stat *ret_st) {
    _cleanup_text_ struct uma_text inside = { 0 }, whole = { 0 };
    if (layers->no_openat2)
        return -ENOSYS;
    if (!below(mount, path, &inside))
        return -ENOENT;
    const struct resolved *resolved = layers_of(layers, mount);
    for (size_t i = 0; resolved && i < resolved->n; i++) {
        struct stat found = { 0 };
        if (!resolved->paths[i]) {
            if (i == 0 && !mount->upper) /* read-only overlays have none */
                continue;
            return -ENOENT; /* it may be in this one, and what is below is then another file */
        }
        uma_text_reset(&whole);
        uma_text_append(&whole, resolved->paths[i]);
        uma_text_append(&whole, inside.data);
        _cleanup_close_ int fd = whole.failed ? -ENOMEM : find(layers, whole.data, &found);
        if (fd == -ENOENT)
            continue;
        if (fd < 0)
            return fd == -ESTALE ? -ENOENT : fd;
        if (!same_data(st, &found))
            return -ENOENT;
        int file = uma_open_file_at(fd, "", false, ret_st);
        if (file >= 0) { /* exchanged: a copy may find no memory, and the caller has nothing to look up then */
            struct uma_text old = *ret_path;
            *ret_path = whole;
            whole = old;
        }
        return file;
    }
    return resolved ? -ENOENT : -ENOMEM;
}
