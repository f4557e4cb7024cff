/* SPDX-License-Identifier: MIT */
/*
 * A stack of open folders, one for each level; the walk goes on where the topmost stands. Everything is reached by name from the folder that held it, so a
 * path of any length works, and whoever swaps a folder for a link while we are in it gains nothing (O_NOFOLLOW on each step).
 *
 * Whether something is a mount that must not be touched has to be known before it is touched: stat(2) on a mounted FUSE root asks its server, and
 * NFS revalidates the root of a mount at every lookup (fs/nfs/dir.c, nfs_weak_revalidate). So names are looked up among the mount points below the tree, which
 * works because nothing below the opened root is reached through a link: its real path (/proc/self/fd) and the names since then are the mount point.
 */
#include "observe/files/walk.h"

#include "base/text.h"
#include "base/units.h"
#include "observe/files/magic.h"
#include "observe/files/open_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

/* Between two questions to stop(): some 100 us with a warm cache, a few ms on a cold disk. */
enum { STOP_EVERY = 64 };

struct level {
    DIR *stream;
    dev_t device;
    ino_t inode;
    size_t path_length; /* of the walk's path when this folder is on top, without '/' */
    bool mounts_below;  /* some mount point starts with this folder's path */
};

struct walker {
    const struct uma_walk *walk;
    struct uma_walk_counts *counts;
    struct uma_text path; /* as given, and the rest */
    size_t root_length;   /* of the part given, with the '/' behind it: what follows is relative to the root */
    const char *given;
    struct uma_text real;            /* of the root: /proc/self/fd's; empty: not known */
    const struct uma_mount **points; /* of mounts below the root, by point; of equals the last one mounted alone */
    size_t n_points;
    size_t point_skip; /* bytes of a point to leave out to have it relative to the root */
    bool untouchable_below;
    enum uma_filesystem_kind root_kind;
    dev_t root_device;
    uint64_t entries;
    size_t depth;
    struct level levels[UMA_WALK_DEPTH_MAX];
};

static void walker_done(struct walker *w) {
    while (w->depth > 0)
        (void)closedir(w->levels[--w->depth].stream);
    uma_text_done(&w->path);
    uma_text_done(&w->real);
    free(w->points);
}
#define _cleanup_walker_ _cleanup_(walker_done)

/* ---- opening ------------------------------------------------------------------------------------------------------ */

/* stat(2) has just said that it is a regular file. One open: the steps that rule out all else (open_file.h) take three times as long, which 100,000 files feel. */
int uma_walk_open(const struct uma_walk_entry *entry) {
    struct stat st;
    bool alone = entry->name[0] == '\0';
    _cleanup_close_ int fd = alone ? uma_open_file_at(entry->folder, "", false, NULL)
                                   : uma_open_quietly(entry->folder, entry->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0)
        return !alone && fd == -ELOOP ? -ESTALE : fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    return st.st_ino == entry->st->st_ino && st.st_dev == entry->st->st_dev && S_ISREG(st.st_mode) ? TAKE_FD(fd) : -ESTALE;
}

/* ---- mounts below ------------------------------------------------------------------------------------------------- */

static bool is_untouchable(const struct walker *w, enum uma_filesystem_kind kind) {
    return (kind == UMA_FILESYSTEM_NETWORK || kind == UMA_FILESYSTEM_FUSE || kind == UMA_FILESYSTEM_PSEUDO) && kind != w->root_kind;
}

static int by_point(const void *a, const void *b) {
    const struct uma_mount *x = *(const struct uma_mount *const *)a, *y = *(const struct uma_mount *const *)b;
    int order = strcmp(x->point, y->point);
    return order ? order : (x > y) - (x < y);
}

/* The mounts below the root, sorted; hidden ones too: taking one for a mount that must not be touched leaves something out, and says so. */
static int find_mounts(struct walker *w) {
    const struct uma_mounts *mounts = w->walk->mounts;
    if (!mounts || mounts->n == 0)
        return 0;
    const struct uma_mount *at = w->real.length ? uma_mounts_of_path(mounts, w->real.data) : uma_mounts_of_device(mounts, w->root_device);
    w->root_kind = at ? at->kind : UMA_FILESYSTEM_LOCAL;
    if (w->real.length == 0)
        return 0;
    size_t n = strcmp(w->real.data, "/") == 0 ? 0 : w->real.length;
    w->point_skip = n + 1;
    w->points = calloc(mounts->n, sizeof(void *));
    if (!w->points)
        return -ENOMEM;
    for (size_t i = 0; i < mounts->n; i++) {
        const char *point = mounts->list[i].point;
        if (strncmp(point, w->real.data, n) == 0 && point[n] == '/' && point[n + 1] != '\0')
            w->points[w->n_points++] = &mounts->list[i];
    }
    if (w->n_points == 0)
        return 0;
    qsort(w->points, w->n_points, sizeof(void *), by_point);
    size_t kept = 0;
    for (size_t i = 0; i < w->n_points; i++) {
        if (i + 1 < w->n_points && strcmp(w->points[i]->point, w->points[i + 1]->point) == 0)
            continue;
        w->untouchable_below |= is_untouchable(w, w->points[i]->kind);
        w->points[kept++] = w->points[i];
    }
    w->n_points = kept;
    return 0;
}

/* The first mount point that is not before `relative`. */
static size_t lower_point(const struct walker *w, const char *relative) {
    size_t low = 0, high = w->n_points;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(w->points[middle]->point + w->point_skip, relative) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct uma_mount *mount_at(const struct walker *w, const char *relative) {
    size_t i = lower_point(w, relative);
    return i < w->n_points && strcmp(w->points[i]->point + w->point_skip, relative) == 0 ? w->points[i] : NULL;
}

/* Is any mount point below the folder that `path` now names? */
static bool has_mounts_below(struct walker *w) {
    if (w->n_points == 0 || w->depth == 0)
        return w->n_points > 0;
    size_t length = w->path.length;
    uma_text_char(&w->path, '/');
    if (w->path.failed)
        return true;
    const char *folder = w->path.data + w->root_length;
    size_t i = lower_point(w, folder);
    bool below = i < w->n_points && strncmp(w->points[i]->point + w->point_skip, folder, strlen(folder)) == 0;
    w->path.length = length;
    w->path.data[length] = '\0';
    return below;
}

/* ---- what is passed over ------------------------------------------------------------------------------------------- */

static void count_failure(struct walker *w, int code) {
    switch (code) {
    case ENOENT:
    case ENOTDIR: /* something else has its name by now */
    case ELOOP:
    case ESTALE:
        w->counts->vanished++;
        return;
    case EMFILE:
    case ENFILE:
        w->counts->cut = w->counts->too_many_open = true;
        return;
    default:
        if (w->counts->denied++ == 0)
            (void)snprintf(w->counts->denied_at, sizeof(w->counts->denied_at), "%s", w->path.data);
    }
}

/* Does a link's text lead out of the tree, as far as its letters say? `depth`: folders between the root and the link. */
static bool text_leaves(const struct walker *w, const char *target, size_t depth) {
    if (target[0] == '/') {
        size_t n = w->real.length;
        if (n == 0 || strncmp(target, w->real.data, n) != 0 || (n > 1 && target[n] != '/' && target[n] != '\0'))
            return true;
        target += n;
        depth = 0;
    }
    for (const char *part = target; *part;) {
        size_t n = strcspn(part, "/");
        if (n == 2 && part[0] == '.' && part[1] == '.') {
            if (depth-- == 0)
                return true;
        } else if (n > 0 && !(n == 1 && part[0] == '.'))
            depth++;
        part += n + (part[n] == '/');
    }
    return false;
}

/*
 * Links are counted, never followed. openat2(2) with RESOLVE_BENEATH resolves one without opening what it leads to and refuses to leave the tree (EXDEV), also
 * by way of other links. It refuses absolute ones whatever they say; those, and all where there is no openat2 (before 5.6, or not allowed), are
 * judged by their text. So is what would cross into a mount that must not be touched. Links of /proc/PID/fd and the like lead out by no path at all (ELOOP,
 * as they are refused; "pipe:[1]"): what they lead to lies nowhere below.
 */
static void count_link(struct walker *w, int folder, const char *name) {
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (w->untouchable_below ? RESOLVE_NO_XDEV : 0),
    };
    _cleanup_close_ int fd = (int)syscall(SYS_openat2, dirfd(w->levels[0].stream), w->path.data + w->root_length, &how, sizeof(how));
    int code = fd < 0 ? errno : 0;
    bool outside = code == ELOOP && uma_filesystem_magic(folder) == UMA_MAGIC_PROC;
    if (code == EXDEV || code == ENOSYS || code == EPERM || code == EINVAL || code == ENAMETOOLONG || code == EAGAIN) {
        char target[4096 + 1]; /* PATH_MAX: no link is longer */
        ssize_t n = readlinkat(folder, name, target, sizeof(target) - 1);
        if (n < 0) {
            count_failure(w, errno == EINVAL ? ENOENT : errno); /* EINVAL: something that is no link has its name by now */
            return;
        }
        target[n] = '\0';
        outside = text_leaves(w, target, w->depth - 1) || (strstr(target, ":[") && uma_filesystem_magic(folder) == UMA_MAGIC_PROC);
    }
    if (outside)
        w->counts->links_outside++;
    else
        w->counts->links_inside++;
}

/* ---- the walk ------------------------------------------------------------------------------------------------------ */

/* Put an opened folder on top. Takes fd. 0, or -errno; what is passed over is 0 too. */
static int enter(struct walker *w, int opened) {
    _cleanup_close_ int fd = opened;
    struct stat st;
    if (fstat(fd, &st) < 0) {
        count_failure(w, errno);
        return 0;
    }
    const struct level *parent = w->depth ? &w->levels[w->depth - 1] : NULL;
    if (parent && st.st_dev != parent->device) { /* a mount that came after the table was read, or a subvolume */
        const struct uma_mount *mount = w->walk->mounts ? uma_mounts_of_device(w->walk->mounts, st.st_dev) : NULL;
        if ((w->walk->one_filesystem && st.st_dev != w->root_device) || (mount && is_untouchable(w, mount->kind))) {
            w->counts->mounts_skipped++;
            return 0;
        }
    }
    for (size_t i = 0; i < w->depth; i++)
        if (w->levels[i].inode == st.st_ino && w->levels[i].device == st.st_dev) { /* mounted inside itself */
            w->counts->mounts_skipped++;
            return 0;
        }
    DIR *stream = fdopendir(fd);
    if (!stream)
        return -errno;
    TAKE_FD(fd);
    w->counts->folders++;
    w->levels[w->depth++] = (struct level){
        .stream = stream,
        .device = st.st_dev,
        .inode = st.st_ino,
        .path_length = w->path.length,
        .mounts_below = has_mounts_below(w),
    };
    return 0;
}

static int visit_folder(struct walker *w, int parent, const char *name) {
    if (w->depth == UMA_WALK_DEPTH_MAX) {
        w->counts->cut = w->counts->too_deep = true;
        return 0;
    }
    int fd = uma_open_quietly(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        count_failure(w, -fd);
        return 0;
    }
    return enter(w, fd);
}

static int visit(struct walker *w, const struct level *level, const char *name, unsigned char type) {
    int folder = dirfd(level->stream);
    if (level->mounts_below) {
        const struct uma_mount *mount = mount_at(w, w->path.data + w->root_length);
        if (mount && (is_untouchable(w, mount->kind) ||
                      (w->walk->one_filesystem && type != DT_DIR && makedev(mount->major, mount->minor) != w->root_device))) {
            w->counts->mounts_skipped++;
            return 0;
        }
    }
    struct stat st;
    if (type == DT_REG || type == DT_UNKNOWN) {
        if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            count_failure(w, errno);
            return 0;
        }
        type = (unsigned char)IFTODT(st.st_mode);
    }
    if (type == DT_DIR)
        return visit_folder(w, folder, name);
    if (type == DT_LNK)
        count_link(w, folder, name);
    if (type != DT_REG)
        return 0;
    w->counts->files++;
    struct uma_walk_entry entry = { .folder = folder, .name = name, .path = w->path.data, .st = &st };
    return w->walk->each(w->walk->userdata, &entry);
}

static bool is_over(struct walker *w) {
    const struct uma_walk *walk = w->walk;
    bool over = (walk->entries_max && w->entries >= walk->entries_max) || (walk->deadline_ns && uma_monotonic_ns() >= walk->deadline_ns) ||
                (walk->stop && w->entries % STOP_EVERY == 0 && walk->stop(walk->userdata));
    w->counts->cut |= over;
    return over;
}

static int go(struct walker *w) {
    while (w->depth > 0) {
        struct level *level = &w->levels[w->depth - 1];
        w->path.length = level->path_length;
        w->path.data[w->path.length] = '\0';
        errno = 0;
        const struct dirent *e = readdir(level->stream);
        if (!e) {
            if (errno)
                count_failure(w, errno);
            (void)closedir(level->stream);
            w->depth--;
            continue;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (is_over(w))
            return 0;
        w->entries++;
        if (w->path.data[w->path.length - 1] != '/')
            uma_text_char(&w->path, '/');
        uma_text_append(&w->path, e->d_name);
        if (w->path.failed)
            return -ENOMEM;
        int r = visit(w, level, e->d_name, e->d_type);
        if (r != 0)
            return r;
    }
    return 0;
}

/* The real path of an open folder; empty when it has none that can be reached from here. */
static void find_real(struct walker *w, int fd) {
    char link[40], real[4096];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, real, sizeof(real));
    if (n > 0 && (size_t)n < sizeof(real) && real[0] == '/')
        uma_text_append_n(&w->real, real, (size_t)n);
}

static int visit_alone(const struct uma_walk *walk, const char *path, struct uma_walk_counts *counts, struct uma_error *err) {
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return uma_error_set(err, errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return uma_error_text(err, EINVAL, "%s: neither a folder nor a regular file", path);
    counts->files++;
    struct uma_walk_entry entry = { .folder = fd, .name = "", .path = path, .st = &st };
    return walk->each(walk->userdata, &entry);
}

int uma_walk(const struct uma_walk *walk, const char *path, struct uma_walk_counts *counts, struct uma_error *err) {
    int fd = uma_open_quietly(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (fd < 0)
        return fd == -ENOTDIR ? visit_alone(walk, path, counts, err) : uma_error_set(err, -fd, "%s", path);
    _cleanup_walker_ struct walker w = { .walk = walk, .counts = counts };
    struct stat st;
    find_real(&w, fd);
    uma_text_append(&w.path, path);
    w.root_length = w.path.length + (w.path.length > 0 && path[w.path.length - 1] != '/');
    int r = fstat(fd, &st) < 0 ? -errno : 0;
    if (r == 0) {
        w.root_device = st.st_dev;
        r = w.path.failed || w.real.failed ? -ENOMEM : find_mounts(&w);
    }
    if (r == 0)
        r = enter(&w, TAKE_FD(fd));
    uma_cleanup_close(&fd);
    if (r < 0)
        return uma_error_set(err, -r, "%s", path);
    r = go(&w);
    return r == -ENOMEM ? uma_error_set(err, ENOMEM, "%s", path) : r;
}
