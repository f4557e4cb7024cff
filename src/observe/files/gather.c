/* SPDX-License-Identifier: MIT */
#include "observe/files/gather.h"

#include "base/units.h"
#include "base/values.h"
#include "observe/files/magic.h"
#include "observe/files/residency.h"
#include "observe/process.h"

#include <string.h>

/* At most ten times a second: what a terminal and an eye follow. */
#define PROGRESS_NS (UMA_SECOND_NS / 10)

void uma_gather_cut(struct uma_gather *gather, const char *reason) {
    if (!gather->stopped && !gather->cut_by)
        gather->cut_by = reason;
    gather->cut = true;
}

static bool is_late(const struct uma_gather *gather, int64_t now) {
    return gather->deadline_ns && now >= gather->deadline_ns;
}

void uma_gather_cut_or_late(struct uma_gather *gather, const char *reason) {
    uma_gather_cut(gather, is_late(gather, uma_monotonic_ns()) ? UMA_PAGE_CACHE_LATE : reason);
}

bool uma_gather_goes_on(struct uma_gather *gather, const char *at) {
    if (gather->stopped)
        return false;
    int64_t now = uma_monotonic_ns();
    if (is_late(gather, now)) {
        uma_gather_cut(gather, UMA_PAGE_CACHE_LATE);
        return false;
    }
    if (gather->request->progress && now >= gather->next_progress_ns) {
        const struct uma_cached_sums *sums = uma_cached_table_sums(gather->table);
        gather->next_progress_ns = now + PROGRESS_NS;
        if (!gather->request->progress(gather->request->userdata, sums->files, sums->resident, at))
            gather->stopped = gather->cut = true;
    }
    return !gather->stopped;
}

const char *uma_gather_container(const struct uma_gather *gather, int32_t pid) {
    const struct uma_snapshot *s = gather->snapshot;
    const struct uma_process *p = s ? uma_processes_find(&s->processes, pid) : NULL;
    if (!p || p->container < 0 || (size_t)p->container >= s->n_containers)
        return NULL;
    const struct uma_container *c = &s->containers[p->container];
    return c->name ? c->name : c->id;
}

static int64_t ns_of(struct timespec t) {
    return t.tv_sec > INT64_MAX / UMA_SECOND_NS || t.tv_sec < 0 ? 0 : t.tv_sec * UMA_SECOND_NS + t.tv_nsec;
}

static enum uma_cached_kind kind_of(const struct uma_gather_way *way, int fd) {
    bool memory = way->kind == UMA_FILESYSTEM_MEMORY;
    if (!memory && !way->mount && fd >= 0) /* a memfd, or a view whose mounts are not known */
        memory = uma_filesystem_is_memory(uma_filesystem_magic(fd));
    return memory ? UMA_CACHED_MEMORY : UMA_CACHED_FILE;
}

/* What may come of opening a regular file whose name is there; static, as strerror(3) is not. */
static const char *open_failure(int code) {
    switch (-code) {
    case EIO:
        return "input/output error";
    case EMFILE:
    case ENFILE:
        return "too many files are open";
    case ENOMEM:
        return "out of memory";
    case EBUSY:
    case ETXTBSY:
    case EWOULDBLOCK:
        return "it is in use by a process that lets nobody else open it";
    default:
        return "it could not be opened";
    }
}

static int measure(struct uma_gather *gather, const struct uma_gather_way *way, int fd, const struct stat *st,
                   const struct uma_cached_users *users) {
    struct uma_cached_file file = {
        .path = way->path,
        .shown = way->shown && strcmp(way->shown, way->path) != 0 ? way->shown : NULL,
        .filesystem = way->mount ? way->mount->type : NULL,
        .container = way->container,
        .kind = kind_of(way, fd),
        .deleted = way->deleted,
        .device = st->st_dev,
        .inode = st->st_ino,
        .size = uma_known_u64((uint64_t)st->st_size),
        .used_ns = MAX_OF(ns_of(st->st_atim), ns_of(st->st_mtim)),
    };
    if (fd >= 0 || st->st_size == 0) {
        struct uma_residency residency;
        uma_residency_read(fd, st, way->kind, 0, 0, &residency); /* of an empty file it asks nothing */
        file.resident = residency.resident;
        file.dirty = residency.dirty;
        file.why = residency.resident.validity == UMA_DENIED ? NULL : residency.why; /* for that there are words */
    } else {
        bool denied = fd == -EACCES || fd == -EPERM;
        file.resident = file.dirty = uma_no_u64(denied ? UMA_DENIED : UMA_FAILED);
        file.why = denied ? NULL : open_failure(fd);
        gather->counts.denied += denied;
    }
    return uma_cached_table_add(gather->table, &file, users);
}

static bool is_gone(int fd) {
    return fd == -ENOENT || fd == -ESTALE || fd == -ESRCH || fd == -ENOTDIR || fd == -ELOOP || fd == -ENXIO || fd == -EISDIR;
}

/* 1: seen before, and told so; 0: new; -ENOMEM. */
static int claim(struct uma_gather *gather, const struct uma_gather_way *way, const struct stat *st, const struct uma_cached_users *users) {
    int r = uma_cached_table_claim(gather->table, st->st_dev, st->st_ino);
    if (r != 0)
        return MIN_OF(r, 0);
    r = uma_cached_table_again(gather->table, st->st_dev, st->st_ino, way->better ? way->path : NULL, way->mount ? way->mount->type : NULL,
                               users);
    return r < 0 ? r : 1;
}

/* The file of the layer instead, where it can be reached. 1: it was; 0: it cannot be. */
static int by_layer(struct uma_gather *gather, const struct uma_gather_way *way, const struct stat *st,
                    const struct uma_cached_users *users) {
    _cleanup_text_ struct uma_text path = { 0 };
    struct stat layer;
    _cleanup_close_ int fd = uma_overlay_layer_open(gather->layers, way->mount, way->in_view, st, &path, &layer);
    if (fd < 0)
        return fd == -ENOMEM ? fd : 0;
    struct uma_gather_way behind = *way;
    behind.mount = uma_mounts_of_path(&gather->mounts, path.data);
    behind.kind = behind.mount ? behind.mount->kind : UMA_FILESYSTEM_LOCAL;
    if (!way->better) { /* a container's: the layer can be opened as long as it is there, the door as long as the process is */
        behind.path = path.data;
        behind.shown = way->shown ? way->shown : way->path;
    }
    int r = claim(gather, &behind, &layer, users);
    if (r == 0)
        r = measure(gather, &behind, fd, &layer, users);
    return r < 0 ? r : 1;
}

int uma_gather_file(struct uma_gather *gather, const struct uma_gather_way *way, int fd, const struct stat *st,
                    const struct uma_gather_opener *opener, const struct uma_cached_users *users) {
    if (way->kind == UMA_FILESYSTEM_OVERLAY && way->mount && way->in_view && !way->deleted) {
        int r = by_layer(gather, way, st, users);
        if (r != 0)
            return MIN_OF(r, 0);
    }
    int r = claim(gather, way, st, users);
    if (r != 0)
        return MIN_OF(r, 0);
    _cleanup_close_ int opened = fd == UMA_GATHER_UNOPENED && st->st_size > 0 ? opener->open(opener->userdata) : -1;
    if (fd == UMA_GATHER_UNOPENED)
        fd = opened; /* of an empty file nothing is asked */
    if (fd < 0 && is_gone(fd)) {
        gather->counts.vanished++;
        return 0;
    }
    return measure(gather, way, fd, st, users);
}
