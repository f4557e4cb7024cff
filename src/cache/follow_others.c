/* SPDX-License-Identifier: MIT */
#include "cache/follow_others.h"

#include "act/evict_file.h"
#include "base/thread.h"
#include "base/units.h"
#include "observe/files/mounts.h"
#include "observe/files/open_file.h"
#include "observe/files/page_cache.h"
#include "observe/files/stores.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A model that was closed is idle for hours or for good; a list of ten seconds ago is as good as one of now, and costs tenths of a second. */
#define LIST_EVERY_NS (10 * UMA_SECOND_NS)
/* Stores of a thousand models are read in less. What it has found by then is used. */
#define LIST_SECONDS 5.0
/* Files by the hundred thousand, of some 300 bytes each. */
#define ARENA_MAX (256 * UMA_MIB)
/* For a list that is being read, at the end: it looks whether to go on at every file, but a disk may hang. */
#define STOP_NS UMA_SECOND_NS

struct uma_follow_others {
    struct uma_thread thread;
    bool running; /* started and not joined */
    atomic_bool cancel;
    int64_t due_ns;
    struct uma_arena *arena;
    struct uma_page_cache cache;
    struct uma_mounts mounts;
    const struct uma_cached_file **files;
    size_t n, next;
};

/* ---- which ------------------------------------------------------------------------------------------------------- */

bool uma_follow_is_idle_weight(const struct uma_cached_file *file) {
    return file->kind == UMA_CACHED_FILE && !file->deleted && file->n_mapped_by == 0 && file->n_open_by == 0 &&
           uma_usable(file->resident.validity) && file->resident.value > 0 &&
           !(uma_usable(file->dirty.validity) && file->dirty.value > 0) && uma_is_weight_file(file->path);
}

static int oldest_first(const void *a, const void *b) {
    const struct uma_cached_file *x = *(const struct uma_cached_file *const *)a, *y = *(const struct uma_cached_file *const *)b;
    if ((x->used_ns == 0) != (y->used_ns == 0))
        return x->used_ns == 0 ? 1 : -1;
    if (x->used_ns != y->used_ns)
        return x->used_ns < y->used_ns ? -1 : 1;
    return x->resident.value > y->resident.value ? -1 : x->resident.value < y->resident.value;
}

size_t uma_follow_idle_weights(const struct uma_page_cache *cache, const struct uma_cached_file **ret_files) {
    size_t n = 0;
    for (size_t i = 0; i < cache->n_files; i++)
        if (uma_follow_is_idle_weight(&cache->files[i]))
            ret_files[n++] = &cache->files[i];
    qsort((void *)ret_files, n, sizeof(const struct uma_cached_file *), oldest_first);
    return n;
}

/* With its last slash. */
static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

bool uma_follow_is_beside(const struct uma_cached_file *file, const char *path) {
    const char *own = file->shown ? file->shown : file->path;
    size_t n = folder_length(path);
    return n == folder_length(own) && strncmp(own, path, n) == 0;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

struct uma_follow_others *uma_follow_others_new(void) {
    struct uma_follow_others *others = calloc(1, sizeof *others);
    if (!others)
        return NULL;
    others->arena = uma_arena_new(ARENA_MAX);
    if (!others->arena) {
        free(others);
        return NULL;
    }
    return others;
}

static bool goes_on(void *userdata, uint64_t files, uint64_t resident_bytes, const char *at) {
    (void)files, (void)resident_bytes, (void)at;
    return !atomic_load(&((struct uma_follow_others *)userdata)->cancel);
}

static void read_list(void *userdata) {
    struct uma_follow_others *others = userdata;
    _cleanup_root_ struct uma_root *root = NULL;
    struct uma_snapshot empty = { 0 };
    struct uma_page_cache cache;
    struct uma_page_cache_counts counts;
    struct uma_page_cache_request request = {
        .processes = true, .stores = true, .seconds = LIST_SECONDS, .resident_only = true, .progress = goes_on, .userdata = others
    };
    if (uma_root_open(NULL, NULL, &root, NULL) < 0 || uma_snapshot_init(&empty) < 0)
        return;
    if (uma_page_cache_read(root, &request, &empty, others->arena, &cache, &counts, NULL) >= 0) {
        others->cache = cache;
        (void)uma_mounts_read(root, 0, others->arena, &others->mounts, NULL);
    }
    uma_snapshot_done(&empty);
}

static void begin_list(struct uma_follow_others *others, int64_t now_ns) {
    others->due_ns = now_ns + LIST_EVERY_NS;
    free((void *)others->files);
    others->files = NULL;
    others->n = others->next = 0;
    others->cache = (struct uma_page_cache){ 0 };
    others->mounts = (struct uma_mounts){ 0 };
    uma_arena_reset(others->arena);
    others->running = uma_thread_start(&others->thread, read_list, others) == 0;
}

static void use_list(struct uma_follow_others *others) {
    uma_thread_join(&others->thread);
    others->running = false;
    others->files = calloc(others->cache.n_files + 1, sizeof(const struct uma_cached_file *));
    others->n = others->files ? uma_follow_idle_weights(&others->cache, others->files) : 0;
}

struct uma_follow_others *uma_follow_others_free(struct uma_follow_others *others) {
    if (!others)
        return NULL;
    atomic_store(&others->cancel, true);
    if (others->running && !uma_thread_stop(&others->thread, STOP_NS))
        return NULL; /* the thread holds it, and both go when the process does */
    free((void *)others->files);
    others->arena = uma_arena_free(others->arena);
    free(others);
    return NULL;
}

/* ---- evicting ---------------------------------------------------------------------------------------------------- */

static uint64_t evict(const struct uma_follow_others *others, const struct uma_cached_file *file) {
    struct stat st;
    _cleanup_close_ int fd = uma_cached_file_open(file, &st);
    if (fd < 0)
        return 0;
    const struct uma_mount *mount = uma_mounts_of_device(&others->mounts, st.st_dev);
    struct uma_evict_options how = { .dirty = UMA_EVICT_LEAVE_DIRTY };
    struct uma_evict_receipt receipt;
    enum uma_filesystem_kind kind = mount ? mount->kind : UMA_FILESYSTEM_LOCAL;
    int r = uma_evict_file(fd, &st, kind, &how, &receipt, NULL);
    if (r == -EOPNOTSUPP) { /* the kernel does not tell what is dirty; what is, it writes, and keeps until then */
        how.dirty = UMA_EVICT_WRITE_IF_DIRTY;
        r = uma_evict_file(fd, &st, kind, &how, &receipt, NULL);
    }
    if (r < 0)
        return 0;
    return uma_usable(receipt.evicted.validity) ? receipt.evicted.value : 0;
}

uint64_t uma_follow_others_evict(struct uma_follow_others *others, uint64_t wanted, int64_t now_ns,
                                 bool (*spare)(void *userdata, const struct uma_cached_file *file), void *userdata, bool *ret_reading) {
    uint64_t gone = 0;
    if (others->running && uma_thread_ended(&others->thread))
        use_list(others);
    if (!others->running) {
        while (others->next < others->n && gone < wanted) {
            const struct uma_cached_file *file = others->files[others->next++];
            gone += spare(userdata, file) ? 0 : evict(others, file);
        }
        if (gone < wanted && others->next == others->n && now_ns >= others->due_ns)
            begin_list(others, now_ns);
    }
    *ret_reading = others->running;
    return gone;
}
