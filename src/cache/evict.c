/* SPDX-License-Identifier: MIT */
#include "cache/evict.h"

#include "base/arena.h"
#include "base/units.h"
#include "cache/receipts.h"
#include "observe/files/file_ids.h"
#include "observe/files/magic.h"
#include "observe/files/maps.h"
#include "observe/files/open_file.h"
#include "observe/files/stores.h"

#include <limits.h>
#include <string.h>

/* For the names of one file's model; reset at each. */
enum { SCRATCH_MAX = 1024 * 1024 };
/* Between two lines of progress: fast enough to be seen moving. */
#define PROGRESS_NS (UMA_SECOND_NS / 10)
/* What a walk's callback returns to end it. */
enum { STOP = 1 };

int uma_eviction_init(struct uma_eviction *ret_eviction, const struct uma_eviction_options *options, struct uma_error *err) {
    struct uma_eviction e = { .options = *options, .scratch = uma_arena_new(SCRATCH_MAX), .seen = uma_file_ids_new() };
    if (!e.scratch || !e.seen) {
        uma_eviction_done(&e);
        return uma_error_set(err, ENOMEM, "evicting");
    }
    *ret_eviction = e;
    return 0;
}

void uma_eviction_done(struct uma_eviction *e) {
    uma_receipts_free(e);
    e->scratch = uma_arena_free(e->scratch);
    e->seen = uma_file_ids_free(e->seen);
    e->blob_names = uma_blob_names_free(e->blob_names);
    free(e->hub_folder);
    free(e->hub_model);
    e->hub_folder = e->hub_model = NULL;
}

static bool stopped(struct uma_eviction *e) {
    if (!e->interrupted && e->options.stop && e->options.stop(e->options.userdata))
        e->interrupted = true;
    return e->interrupted;
}

static void tell(struct uma_eviction *e, const char *path) {
    if (!e->options.progress)
        return;
    int64_t now = uma_monotonic_ns();
    if (now - e->told_ns < PROGRESS_NS)
        return;
    e->told_ns = now;
    e->options.progress(e->options.userdata, e->n_files, e->options.dry_run ? e->before : e->evicted, path);
}

/* ---- one open file ------------------------------------------------------------------------------------------ */

/* What kind of file system an open file is on, whatever it was reached by; asked once for files of one device that come after one another. */
static enum uma_filesystem_kind kind_of(struct uma_eviction *e, int fd, const struct stat *st) {
    if (e->n_files > 0 && e->kind_device == (uint64_t)st->st_dev)
        return e->kind;
    uint32_t magic = uma_filesystem_magic(fd);
    e->kind_device = (uint64_t)st->st_dev;
    e->kind = uma_filesystem_is_memory(magic) ? UMA_FILESYSTEM_MEMORY
              : magic == UMA_MAGIC_OVERLAY    ? UMA_FILESYSTEM_OVERLAY
                                              : UMA_FILESYSTEM_LOCAL;
    return e->kind;
}

/* What `open` answered for a file that was listed or walked past a moment ago. */
static void count_refused(struct uma_eviction *e, int code) {
    if (code == -EACCES || code == -EPERM)
        e->denied++;
    else
        e->vanished++;
}

static int evict_open(struct uma_eviction *e, int fd, const struct stat *st, const struct uma_receipt_names *called,
                      struct uma_error *err) {
    struct uma_receipt_names names = *called;
    enum uma_filesystem_kind kind = kind_of(e, fd, st);
    if (kind == UMA_FILESYSTEM_MEMORY) {
        e->memory_files++;
        e->memory_bytes += (uint64_t)st->st_blocks * 512; /* stat(2): in units of 512 bytes */
        return 0;
    }
    struct uma_evict_options options = { .dirty = e->options.dirty, .stop = e->options.stop, .userdata = e->options.userdata };
    struct uma_evict_receipt receipt = { 0 };
    struct uma_error inner = { 0 };
    int r = 0;
    if (e->options.dry_run) {
        uma_residency_read(fd, st, kind, 0, 0, &receipt.before);
        receipt.after = receipt.before;
        receipt.evicted = (struct uma_u64){ 0, receipt.before.resident.validity };
    } else
        r = uma_evict_file(fd, st, kind, &options, &receipt, &inner);
    if (receipt.stopped)
        e->interrupted = true;
    struct uma_evicted_file file = { .device = (uint64_t)st->st_dev,
                                     .inode = (uint64_t)st->st_ino,
                                     .size = (uint64_t)st->st_size,
                                     .deleted = st->st_nlink == 0,
                                     .before = receipt.before.resident,
                                     .after = receipt.after.resident,
                                     .evicted = receipt.evicted,
                                     .dirty = receipt.after.dirty,
                                     .written = receipt.written,
                                     .synced = receipt.synced,
                                     .error = r,
                                     .why = receipt.before.why };
    names.error = inner.text;
    r = uma_receipts_add(e, &file, &names, err);
    tell(e, names.shown ? names.shown : names.path);
    return r;
}

/* ---- a tree ------------------------------------------------------------------------------------------------- */

/* Everything that a walk's callback needs; its error is the walk's. */
struct tree {
    struct uma_eviction *eviction;
    struct uma_error *err;
};

/* The name of a file's model goes by the folders that it really is in: the part given may be a link, or relative. */
static const char *model_of(struct uma_eviction *e, const char *path) {
    uma_arena_reset(e->scratch);
    const char *rest = strlen(path) > e->root_length ? path + e->root_length : "";
    const char *real = uma_arena_printf(e->scratch, "%s%s", e->root_real, rest);
    return real ? uma_model_of_path(real, e->blob_names, e->scratch) : NULL;
}

static int evict_entry(void *userdata, const struct uma_walk_entry *entry) {
    struct tree *tree = userdata;
    struct uma_eviction *e = tree->eviction;
    if (stopped(e))
        return STOP;
    if (e->options.larger_than && (uint64_t)MAX_OF(entry->st->st_size, 0) <= e->options.larger_than) {
        e->smaller++;
        return 0;
    }
    int r = uma_file_ids_add(e->seen, (uint64_t)entry->st->st_dev, (uint64_t)entry->st->st_ino, 0);
    if (r < 0)
        return uma_error_set(tree->err, ENOMEM, "evicting %s", entry->path);
    if (r == 0)
        return 0;
    _cleanup_close_ int fd = uma_walk_open(entry);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        count_refused(e, fd < 0 ? fd : -errno);
        return 0;
    }
    struct uma_receipt_names names = { .path = entry->path, .model = model_of(e, entry->path) };
    if (!entry->name[0]) /* the path itself */
        names.shown = e->root_shown;
    r = evict_open(e, fd, &st, &names, tree->err);
    return r < 0 ? r : e->interrupted ? STOP : 0;
}

static bool walk_stop(void *userdata) {
    return stopped(((struct tree *)userdata)->eviction);
}

/* In the folder of an Ollama store, or in its "blobs", files go by the names that manifests give them. */
static void blob_names_find(struct uma_eviction *e, const char *real) {
    _cleanup_text_ struct uma_text store = { 0 };
    e->blob_names = uma_blob_names_free(e->blob_names);
    const char *blobs = strstr(real, "/blobs");
    size_t n = blobs && (blobs[6] == '\0' || blobs[6] == '/') ? (size_t)(blobs - real) : strlen(real);
    uma_text_append_n(&store, real, n);
    size_t length = store.length;
    uma_text_append(&store, "/manifests");
    if (store.failed || access(store.data, R_OK) < 0)
        return;
    store.data[length] = '\0';
    e->blob_names = uma_blob_names_new();
    if (e->blob_names)
        (void)uma_blob_names_add(e->blob_names, store.data, NULL);
}

/*
 * The real path. A link of /proc/PID/fd may lead to a file that has none here, without a name any more or in another mount namespace: what it says then (proc(5)), and
 * that this is not to be opened. malloc'ed.
 */
static int name_path(const char *path, char **ret_real, bool *ret_is_word, struct uma_error *err) {
    char link[PATH_MAX];
    struct stat st;
    char *real = realpath(path, NULL);
    int failure = real ? 0 : errno;
    if (stat(path, &st) < 0)
        failure = errno;
    else if (!real || st.st_nlink == 0) { /* a file that is really called "... (deleted)" is found by that name, too */
        ssize_t n = readlink(path, link, sizeof(link) - 1);
        if (n > 0) {
            link[n] = '\0';
            if (st.st_nlink == 0 && uma_ends_with(link, UMA_DELETED_SUFFIX))
                link[(size_t)n - strlen(UMA_DELETED_SUFFIX)] = '\0';
            free(real);
            real = strdup(link);
            failure = real ? 0 : ENOMEM;
            *ret_is_word = true;
        }
    }
    if (failure || !real) {
        free(real);
        return uma_error_set(err, failure ? failure : ENOENT, "%s", path);
    }
    *ret_real = real;
    return 0;
}

/*
 * Files of a snapshot in a Hugging Face cache are links to the blobs beside it (hub.h). Whoever names the snapshot means them, and is told
 * the folder that holds both.
 */
static void hub_find(struct uma_eviction *e, const char *real) {
    const char *at = strstr(real, "/models--");
    const char *end = at ? strchr(at + 1, '/') : NULL;
    if (!end || e->hub_folder)
        return;
    uma_arena_reset(e->scratch);
    e->hub_folder = strndup(real, (size_t)(end - real));
    const char *inside = e->hub_folder ? uma_arena_printf(e->scratch, "%s/blobs/0", e->hub_folder) : NULL;
    const char *model = inside ? uma_model_of_path(inside, NULL, e->scratch) : NULL;
    e->hub_model = model ? strdup(model) : NULL;
}

int uma_eviction_path(struct uma_eviction *e, const char *path, const struct uma_mounts *mounts, struct uma_error *err) {
    int64_t start = uma_monotonic_ns();
    uint64_t links = e->walk.links_outside;
    bool is_word = false;
    _cleanup_free_
    char *real = NULL;
    int r = name_path(path, &real, &is_word, err);
    if (r < 0 || !real)
        return r;
    struct tree tree = { e, err };
    struct uma_walk walk = { .mounts = mounts, .each = evict_entry, .stop = walk_stop, .userdata = &tree };
    e->root_real = real;
    e->root_shown = is_word ? real : NULL;
    e->root_length = strlen(path);
    while (e->root_length > 1 && path[e->root_length - 1] == '/')
        e->root_length--;
    blob_names_find(e, real);
    r = uma_walk(&walk, path, &e->walk, err);
    if (e->walk.links_outside > links)
        hub_find(e, real);
    e->root_real = e->root_shown = NULL;
    e->seconds += (double)(uma_monotonic_ns() - start) / 1e9;
    return MIN_OF(r, 0);
}

/* ---- a file of a listing ------------------------------------------------------------------------------------ */

int uma_eviction_listed(struct uma_eviction *e, const struct uma_cached_file *file, struct uma_error *err) {
    int64_t start = uma_monotonic_ns();
    struct stat st;
    if (stopped(e) || !file->path)
        return 0;
    int r = uma_file_ids_add(e->seen, file->device, file->inode, 0);
    if (r < 0)
        return uma_error_set(err, ENOMEM, "evicting %s", file->path);
    if (r == 0)
        return 0;
    _cleanup_close_ int fd = uma_cached_file_open(file, &st);
    if (fd < 0)
        count_refused(e, fd); /* vanished, too, where its name is another file's by now */
    else
        r = evict_open(e, fd, &st, &(struct uma_receipt_names){ .path = file->path, .shown = file->shown, .model = file->model }, err);
    e->seconds += (double)(uma_monotonic_ns() - start) / 1e9;
    return MIN_OF(r, 0);
}
