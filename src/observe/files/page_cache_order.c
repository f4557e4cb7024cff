/* SPDX-License-Identifier: MIT */
#include "observe/files/page_cache_order.h"

#include <string.h>

int uma_larger_first(struct uma_u64 a, struct uma_u64 b) {
    bool x = uma_usable(a.validity), y = uma_usable(b.validity);
    if (x != y)
        return x ? -1 : 1;
    return x ? (a.value < b.value) - (a.value > b.value) : 0;
}

int uma_cached_file_compare(const struct uma_cached_file *a, const struct uma_cached_file *b) {
    int c = uma_larger_first(a->resident, b->resident);
    if (c == 0)
        c = uma_larger_first(a->size, b->size);
    return c ? c : strcmp(a->path ? a->path : "", b->path ? b->path : "");
}

static int compare(const void *a, const void *b) {
    return uma_cached_file_compare(a, b);
}

void uma_cached_files_sort(struct uma_cached_file *files, size_t n) {
    size_t i = 1;
    while (i < n && compare(&files[i - 1], &files[i]) <= 0)
        i++;
    if (i < n) /* glibc's is stable as long as it finds memory; whoever is in order is not touched */
        qsort(files, n, sizeof(*files), compare);
}

static bool copy_string(struct uma_arena *arena, const char **s) {
    if (*s)
        *s = uma_arena_strndup(arena, *s, strlen(*s));
    return *s != NULL;
}

static bool copy_pids(struct uma_arena *arena, size_t *n, struct uma_pid **list) {
    *n = MIN_OF(*n, (size_t)UMA_SNAPSHOT_CACHED_PIDS);
    if (*n == 0) {
        *list = NULL;
        return true;
    }
    struct uma_pid *copy = uma_arena_array(arena, *n, sizeof(*copy));
    if (copy)
        (void)memcpy(copy, *list, *n * sizeof(*copy));
    *list = copy;
    return copy != NULL;
}

static bool copy_file(struct uma_arena *arena, struct uma_cached_file *file) {
    /* as it was for opening, it becomes one for documents */
    if (file->path && !(file->path = uma_arena_utf8(arena, file->path, strlen(file->path))))
        return false;
    const char **const strings[] = { &file->shown, &file->model, &file->filesystem, &file->container };
    for (size_t i = 0; i < ELEMENTS(strings); i++)
        if (*strings[i] && !copy_string(arena, strings[i]))
            return false;
    return copy_pids(arena, &file->n_mapped_by, &file->mapped_by) && copy_pids(arena, &file->n_open_by, &file->open_by);
}

int uma_page_cache_keep(const struct uma_page_cache *cache, struct uma_arena *arena, struct uma_page_cache *ret_cache,
                        struct uma_error *err) {
    struct uma_page_cache kept = *cache;
    kept.n_files = MIN_OF(cache->n_files, (size_t)UMA_SNAPSHOT_CACHED_FILES);
    kept.files = kept.n_files > 0 ? uma_arena_array(arena, kept.n_files, sizeof(*kept.files)) : NULL;
    bool whole = kept.n_files == 0 || kept.files;
    for (size_t i = 0; whole && i < kept.n_files; i++) {
        kept.files[i] = cache->files[i];
        whole = copy_file(arena, &kept.files[i]);
    }
    if (kept.source.path)
        whole = whole && copy_string(arena, &kept.source.path);
    if (kept.source.detail)
        whole = whole && copy_string(arena, &kept.source.detail);
    if (!whole)
        return uma_error_set(err, ENOMEM, "the page cache's files");
    uma_cached_files_sort(kept.files, kept.n_files); /* a path may have become another text */
    uint64_t without = 0;
    for (size_t i = kept.n_files; i < cache->n_files; i++)
        without += uma_usable(cache->files[i].resident.validity) && cache->files[i].resident.value > 0;
    if (uma_usable(cache->left_out.validity))
        without += cache->left_out.value;
    kept.left_out = (struct uma_u64){ without, UMA_KNOWN };
    *ret_cache = kept;
    return 0;
}
