/* SPDX-License-Identifier: MIT */
/*
 * The order in which files are looked for: those in use first, because what keeps cache in place matters most when the time runs out; then what was asked for by
 * path, the stores, devices, and at last everything. A file is measured when it is first met.
 */
#include "observe/files/page_cache.h"

#include "base/text.h"
#include "base/units.h"
#include "base/values.h"
#include "observe/files/cached_devices.h"
#include "observe/files/gather.h"
#include "observe/files/residency.h"
#include "observe/files/stores.h"
#include "observe/files/walk.h"
#include "observe/memory.h"
#include "observe/source.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

/* What a reading needs besides the table: mounts, and files in use with their paths and processes (UMA_USED_FILES_MAX of them). */
#define SCRATCH_MAX ((size_t)512 << 20)
/* /proc/meminfo is some 2 KiB. */
enum { MEMINFO_MAX = 64 << 10 };
/* Ollama stores of one reading that are asked for names. */
enum { BLOB_STORES_MAX = 64 };

/* ---- trees ------------------------------------------------------------------------------------------------------ */

struct tree {
    struct uma_gather *gather;
    const struct uma_mounts *mounts; /* of the view that the tree is in */
    const char *door;                /* "" or "/proc/77/root" */
    const char *given;
    char real[PATH_MAX]; /* of `given` in that view; "" not known */
    const char *container;
    dev_t device; /* of the last file, and the mount that it was on */
    const struct uma_mount *mount;
    bool has_mount;
};

static const struct uma_mount *mount_of(struct tree *tree, dev_t device) {
    if (!tree->has_mount || tree->device != device) {
        tree->mount = uma_mounts_of_device(tree->mounts, device);
        if (!tree->mount && tree->real[0]) /* a subvolume, whose files have a device of their own */
            tree->mount = uma_mounts_of_path(tree->mounts, tree->real);
        tree->device = device;
        tree->has_mount = true;
    }
    return tree->mount;
}

/* The path in the tree's view, without links: for finding the layer of an overlay's file. */
static const char *real_path(const struct tree *tree, const char *path, struct uma_text *into) {
    if (!tree->real[0])
        return NULL;
    const char *rest = path + strlen(tree->given);
    while (*rest == '/')
        rest++;
    uma_text_append(into, strcmp(tree->real, "/") == 0 ? "" : tree->real);
    if (*rest)
        uma_text_printf(into, "/%s", rest);
    return into->failed ? NULL : into->data;
}

static int open_entry(const void *userdata) {
    return uma_walk_open(userdata);
}

static int each(void *userdata, const struct uma_walk_entry *entry) {
    struct tree *tree = userdata;
    if (!uma_gather_goes_on(tree->gather, entry->path))
        return 1;
    _cleanup_text_ struct uma_text real = { 0 };
    bool door = tree->door[0] != '\0';
    struct uma_gather_way way = { .path = entry->path, .mount = mount_of(tree, entry->st->st_dev), .better = !door };
    way.kind = way.mount ? way.mount->kind : UMA_FILESYSTEM_LOCAL;
    if (way.kind == UMA_FILESYSTEM_OVERLAY) {
        way.in_view = real_path(tree, entry->path, &real);
        if (way.in_view) /* several overlays may have one device where one is mounted twice */
            way.mount = uma_mounts_of_path(tree->mounts, way.in_view);
    }
    if (door) {
        way.shown = entry->path + strlen(tree->door);
        way.container = tree->container;
    }
    struct uma_gather_opener opener = { open_entry, entry };
    return uma_gather_file(tree->gather, &way, UMA_GATHER_UNOPENED, entry->st, &opener, NULL);
}

static bool stop(void *userdata) {
    struct tree *tree = userdata;
    return !uma_gather_goes_on(tree->gather, tree->given);
}

#define TOO_MANY_OPEN "no more files may be open at a time (ulimit -n)"
#define TOO_DEEP "folders lie too deep"

static int walk(struct uma_gather *gather, struct tree *tree, const char *path, bool one_filesystem, struct uma_error *err) {
    struct uma_walk_counts counts = { 0 };
    const struct uma_walk how = { .mounts = tree->mounts->n ? tree->mounts : NULL,
                                  .one_filesystem = one_filesystem,
                                  .deadline_ns = gather->deadline_ns,
                                  .each = each,
                                  .stop = stop,
                                  .userdata = tree };
    tree->gather = gather;
    tree->given = path;
    int r = uma_walk(&how, path, &counts, err);
    gather->counts.folders += counts.folders;
    gather->counts.links_outside += counts.links_outside;
    gather->counts.vanished += counts.vanished;
    gather->counts.denied += counts.denied;
    gather->counts.mounts_skipped += counts.mounts_skipped;
    if (counts.cut)
        uma_gather_cut_or_late(gather, counts.too_many_open ? TOO_MANY_OPEN : TOO_DEEP);
    if (r == -ENOMEM)
        return uma_error_set(err, ENOMEM, "%s", path);
    if (r == -EMFILE || r == -ENFILE)
        uma_gather_cut(gather, TOO_MANY_OPEN);
    else if (r == -EACCES || r == -EPERM)
        gather->counts.denied++;
    else if (r < 0)
        gather->counts.vanished++;
    return 0;
}

static int walk_here(struct uma_gather *gather, const char *path, bool one_filesystem, struct uma_error *err) {
    struct tree tree = { .mounts = &gather->mounts, .door = "" };
    if (!realpath(path, tree.real))
        tree.real[0] = '\0';
    return walk(gather, &tree, path, one_filesystem, err);
}

/* ---- paths ------------------------------------------------------------------------------------------------------ */

/* Before anything else is done: whoever mistyped a path is told so at once. */
static int check_paths(const struct uma_page_cache_request *request, struct uma_error *err) {
    for (size_t i = 0; i < request->n_paths; i++) {
        const char *path = request->paths[i];
        struct stat st;
        _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
            return uma_error_set(err, errno, "%s", path);
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
            return uma_error_text(err, EINVAL, "%s: neither a folder nor a regular file", path);
        if (S_ISDIR(st.st_mode) && faccessat(AT_FDCWD, path, R_OK | X_OK, AT_EACCESS) < 0)
            return uma_error_set(err, errno, "%s", path);
    }
    return 0;
}

static int walk_paths(struct uma_gather *gather, struct uma_error *err) {
    int r = 0;
    for (size_t i = 0; i < gather->request->n_paths && r == 0; i++)
        if (uma_gather_goes_on(gather, gather->request->paths[i]))
            r = walk_here(gather, gather->request->paths[i], false, err);
    return r;
}

/* ---- stores ----------------------------------------------------------------------------------------------------- */

/* Does a walk of another one come by here? Not when it has to leave its file system for that. */
static bool is_walked(const struct uma_store *stores, size_t n, size_t i) {
    struct stat st, other;
    for (size_t k = 0; k < n; k++)
        if (k != i && uma_path_is_below(stores[i].path, stores[k].path))
            return stat(stores[i].path, &st) == 0 && stat(stores[k].path, &other) == 0 && st.st_dev == other.st_dev;
    return false;
}

/* "/proc/77/root/models": a store of another view. */
static int32_t door_of(const char *path, size_t *ret_length) {
    uint64_t pid;
    if (strncmp(path, "/proc/", 6) != 0)
        return 0;
    const char *at = uma_parse_u64(path + 6, path + strlen(path), &pid);
    if (!at || strncmp(at, "/root/", 6) != 0 || pid == 0 || pid > INT32_MAX)
        return 0;
    *ret_length = (size_t)(at + 5 - path);
    return (int32_t)pid;
}

static int walk_store(struct uma_gather *gather, const char *path, struct uma_error *err) {
    size_t length = 0;
    int32_t pid = door_of(path, &length);
    if (!pid)
        return walk_here(gather, path, false, err);
    char door[48];
    struct uma_mounts mounts;
    (void)snprintf(door, sizeof(door), "%.*s", (int)length, path);
    if (uma_mounts_read(gather->root, pid, gather->scratch, &mounts, NULL) < 0) {
        gather->counts.vanished++;
        return 0;
    }
    struct tree tree = { .mounts = &mounts, .door = door, .container = uma_gather_container(gather, pid) };
    (void)snprintf(tree.real, sizeof(tree.real), "%s", path + length); /* stores have no links */
    return walk(gather, &tree, path, false, err);
}

static int walk_stores(struct uma_gather *gather, struct uma_error *err) {
    struct uma_store *stores = NULL;
    size_t n = 0;
    int r = uma_stores_find(gather->root, gather->snapshot ? &gather->snapshot->processes : NULL, gather->scratch, &n, &stores, err);
    for (size_t i = 0; i < n && r == 0; i++)
        if (!is_walked(stores, n, i) && uma_gather_goes_on(gather, stores[i].path))
            r = walk_store(gather, stores[i].path, err);
    return r;
}

/* ---- everything ------------------------------------------------------------------------------------------------- */

/* A bind mount shows a part of what another mount shows whole. */
static bool is_shown_by_another(const struct uma_mounts *mounts, size_t i) {
    const struct uma_mount *m = &mounts->list[i];
    for (size_t k = 0; k < mounts->n; k++) {
        const struct uma_mount *other = &mounts->list[k];
        if (k == i || other->major != m->major || other->minor != m->minor)
            continue;
        if (strcmp(other->root, m->root) == 0 ? k < i : strcmp(other->root, "/") == 0 || uma_path_is_below(m->root, other->root))
            return true;
    }
    return false;
}

static int walk_everything(struct uma_gather *gather, struct uma_error *err) {
    int r = 0;
    for (size_t i = 0; i < gather->mounts.n && r == 0; i++) {
        const struct uma_mount *m = &gather->mounts.list[i];
        bool wanted = m->kind == UMA_FILESYSTEM_LOCAL ||
                      (m->kind == UMA_FILESYSTEM_OVERLAY && strcmp(m->point, "/") == 0); /* in a container that is all there is */
        /* a mount that another one hides leads to that one: /proc on top of something, or the same twice */
        if (!wanted || is_shown_by_another(&gather->mounts, i) || uma_mounts_of_path(&gather->mounts, m->point) != m)
            continue;
        if (uma_gather_goes_on(gather, m->point))
            r = walk_here(gather, m->point, true, err);
    }
    return r;
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

static int device(void *userdata, const char *path, int fd, const struct stat *st, uint64_t size) {
    struct uma_gather *gather = userdata;
    if (!uma_gather_goes_on(gather, path))
        return 1;
    if (fd < 0) {
        gather->devices_denied += fd == -EACCES || fd == -EPERM;
        return 0;
    }
    struct uma_residency residency;
    int r = uma_cached_table_claim(gather->table, st->st_dev, st->st_ino);
    if (r <= 0)
        return r;
    uma_residency_read(fd, st, UMA_FILESYSTEM_LOCAL, 0, 0, &residency);
    return uma_cached_table_add(gather->table,
                                &(struct uma_cached_file){ .path = path,
                                                           .kind = UMA_CACHED_BLOCK_DEVICE,
                                                           .device = st->st_dev,
                                                           .inode = st->st_ino,
                                                           .size = size ? uma_known_u64(size) : uma_no_u64(UMA_UNKNOWN),
                                                           .resident = residency.resident,
                                                           .dirty = residency.dirty },
                                NULL);
}

static int look_at_devices(struct uma_gather *gather, struct uma_error *err) {
    int r = uma_cached_devices_each(&gather->mounts, device, gather);
    return r < 0 ? uma_error_set(err, -r, "the block devices") : 0;
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

struct names {
    struct uma_blob_names *blobs;
    char *stores[BLOB_STORES_MAX];
    size_t n;
};

static void names_done(struct names *names) {
    (void)uma_blob_names_free(names->blobs);
    for (size_t i = 0; i < names->n; i++)
        free(names->stores[i]);
}
#define _cleanup_names_ _cleanup_(names_done)

/* The store of a blob, wherever it was found: in a store of the list, in a tree given, or in the hands of a process. */
static int add_blob_store(void *userdata, const struct uma_cached_file *file) {
    struct names *names = userdata;
    const char *blobs = NULL;
    for (const char *at = file->path; (at = strstr(at, "/blobs/sha256-")); at++)
        blobs = at;
    if (!blobs || names->n == BLOB_STORES_MAX || file->resident.validity == UMA_UNKNOWN) /* never looked at: it may not answer */
        return 0;
    size_t n = (size_t)(blobs - file->path);
    for (size_t i = 0; i < names->n; i++)
        if (strlen(names->stores[i]) == n && memcmp(names->stores[i], file->path, n) == 0)
            return 0;
    char *store = strndup(file->path, n);
    if (!store)
        return -ENOMEM;
    names->stores[names->n++] = store;
    int r = uma_blob_names_add(names->blobs, store[0] ? store : "/", NULL);
    return r == -ENOMEM ? r : 0; /* a store without manifests has no names */
}

static const char *name_model(void *userdata, const struct uma_cached_file *file, struct uma_arena *scratch) {
    const struct names *names = userdata;
    if (file->kind == UMA_CACHED_BLOCK_DEVICE)
        return NULL;
    return uma_model_of_path(file->shown ? file->shown : file->path, names->blobs, scratch);
}

/* ---- the end of it ---------------------------------------------------------------------------------------------- */

/* Of now, or of the snapshot. */
static struct uma_u64 total_of(struct uma_gather *gather) {
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_meminfo now = { 0 };
    const struct uma_meminfo *m = &now;
    if (uma_root_read_unrecorded(gather->root, "proc/meminfo", MEMINFO_MAX, &text, NULL) < 0 ||
        uma_meminfo_parse(text.data ? text.data : "", text.length, "proc/meminfo", gather->scratch, &now, NULL) < 0)
        m = gather->snapshot ? &gather->snapshot->meminfo : &now;
    return uma_meminfo_page_cache(m);
}

static void say(struct uma_text *text, uint64_t n, const char *one, const char *many) {
    if (n == 0)
        return;
    uma_text_append(text, text->length ? "; " : "");
    if (n == 1)
        uma_text_append(text, one);
    else
        uma_text_printf(text, "%llu %s", (unsigned long long)n, many);
}

/* What was left out and why; NULL: nothing. */
static const char *detail(const struct uma_gather *gather, struct uma_arena *arena) {
    _cleanup_text_ struct uma_text text = { 0 };
    say(&text, gather->stopped, "stopped before the end", "");
    say(&text, gather->cut_by && !gather->stopped, gather->cut_by, "");
    say(&text, gather->counts.processes_denied, "the files of one process may not be seen by this user",
        "processes whose files may not be seen by this user");
    if (geteuid() != 0)
        say(&text, gather->devices_denied, "the cache of one block device is for root to see",
            "block devices whose cache is for root to see");
    else /* a container's root may be kept from devices */
        say(&text, gather->devices_denied, "one block device may not be opened here, and its cache is unknown",
            "block devices may not be opened here, and their cache is unknown");
    say(&text, gather->untouched, "one file in use lies where nobody may answer (network, FUSE), and was not touched",
        "files in use lie where nobody may answer (network, FUSE), and were not touched");
    say(&text, gather->counts.denied, "one file or folder may not be read by this user",
        "files and folders that may not be read by this user");
    return text.length && !text.failed ? uma_arena_utf8(arena, text.data, text.length) : NULL;
}

static int finish(struct uma_gather *gather, struct uma_arena *arena, struct uma_page_cache *ret_cache, struct uma_error *err) {
    struct uma_page_cache cache = { 0 };
    const struct uma_cached_sums *sums = uma_cached_table_sums(gather->table);
    _cleanup_names_ struct names names = { .blobs = uma_blob_names_new() };
    int r = names.blobs ? uma_cached_table_each(gather->table, add_blob_store, &names) : -ENOMEM;
    if (r == 0)
        r = uma_cached_table_finish(gather->table, name_model, &names, arena, &cache.n_files, &cache.files);
    if (r < 0)
        return uma_error_set(err, -r, "the files of the page cache");
    uma_source_ok(&cache.source, "proc");
    cache.source.detail = detail(gather, arena);
    cache.total = total_of(gather);
    /* of nothing that was looked at it is known: that is not 0 */
    bool none_told = sums->unreadable > 0 && sums->unreadable == sums->files;
    cache.explained = none_told ? uma_no_u64(UMA_DENIED) : uma_known_u64(sums->resident);
    cache.unreadable = uma_known_u64(sums->unreadable);
    if (sums->left_out > 0)
        cache.left_out = uma_known_u64(sums->left_out);
    cache.complete = !gather->cut;
    gather->counts.files_seen = sums->files;
    *ret_cache = cache;
    return 0;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static int gather_all(struct uma_gather *gather, struct uma_error *err) {
    const struct uma_page_cache_request *request = gather->request;
    int r = request->processes ? uma_gather_used(gather, err) : 0;
    if (r == 0)
        r = walk_paths(gather, err);
    if (r == 0 && request->stores)
        r = walk_stores(gather, err);
    if (r == 0 && request->devices)
        r = look_at_devices(gather, err);
    if (r == 0 && request->everywhere)
        r = walk_everything(gather, err);
    return r;
}

static void gather_done(struct uma_gather *gather) {
    (void)uma_cached_table_free(gather->table);
    (void)uma_overlay_layers_free(gather->layers);
    (void)uma_arena_free(gather->scratch);
}
#define _cleanup_gather_ _cleanup_(gather_done)

int uma_page_cache_read(struct uma_root *root, const struct uma_page_cache_request *request, const struct uma_snapshot *snapshot,
                        struct uma_arena *arena, struct uma_page_cache *ret_cache, struct uma_page_cache_counts *ret_counts,
                        struct uma_error *err) {
    if (!uma_root_is_live(root)) {
        uma_page_cache_recorded(root, arena, ret_cache);
        *ret_counts = (struct uma_page_cache_counts){ 0 };
        return 0;
    }
    int r = check_paths(request, err);
    if (r < 0)
        return r;
    _cleanup_gather_ struct uma_gather gather = { .root = root, .request = request, .snapshot = snapshot };
    if (request->seconds > 0)
        gather.deadline_ns = uma_monotonic_ns() + (int64_t)(MIN_OF(request->seconds, 1e8) * (double)UMA_SECOND_NS);
    gather.scratch = uma_arena_new(SCRATCH_MAX);
    gather.table = uma_cached_table_new(request->files_max ? request->files_max : UMA_CACHED_FILES_MAX, request->resident_only);
    gather.layers = uma_overlay_layers_new(&gather.mounts);
    if (!gather.scratch || !gather.table || !gather.layers)
        return uma_error_set(err, ENOMEM, "the files of the page cache");
    r = uma_mounts_read(root, 0, gather.scratch, &gather.mounts, err);
    if (r == -ENOMEM)
        return r;
    /* without its own mounts it is not known what may hang: then only what was asked for by path is looked at, as local */
    struct uma_page_cache_request only_paths = {
        .paths = request->paths, .n_paths = request->n_paths, .progress = request->progress, .userdata = request->userdata
    };
    if (r < 0) {
        gather.request = &only_paths;
        uma_gather_cut(&gather, "it cannot be read what is mounted, so that only paths that were named were looked at");
    }
    r = gather_all(&gather, err);
    if (r == 0)
        r = finish(&gather, arena, ret_cache, err);
    if (r < 0)
        return r;
    *ret_counts = gather.counts;
    return 0;
}
