/* SPDX-License-Identifier: MIT */
#include "guard/helper/evict.h"

#include "act/evict_file.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "observe/files/magic.h"
#include "observe/files/open_file.h"
#include "observe/files/residency.h"

/* Dropping runs at tens of gigabytes a second, so a piece takes some ten milliseconds at most; and no more than a piece too much goes. */
#define PIECE_BYTES (64 * UMA_MIB)

enum { FILES_MAX = 4096 /* weight files that are put in order: the most resident come first in a listing, and the rest is small */ };

/* In use now: its reader would read it again at once. */
static int uses(const struct uma_cached_file *file) {
    return (file->n_mapped_by > 0 ? 2 : 0) + (file->n_open_by > 0 ? 1 : 0);
}

/* Less used, then longer unused, then larger first. */
static bool goes_before(const struct uma_cached_file *a, const struct uma_cached_file *b) {
    if (uses(a) != uses(b))
        return uses(a) < uses(b);
    if (a->used_ns != b->used_ns)
        return a->used_ns < b->used_ns;
    return a->resident.value > b->resident.value;
}

size_t uma_helper_evict_order(const struct uma_page_cache *cache, size_t *ret_places, size_t max) {
    size_t n = 0;
    for (size_t i = 0; i < cache->n_files && n < max; i++) {
        const struct uma_cached_file *file = &cache->files[i];
        if (file->kind != UMA_CACHED_FILE || !file->model || !file->path || !uma_usable(file->resident.validity) ||
            file->resident.value == 0)
            continue;
        size_t at = n++; /* few thousand at most, and mostly few */
        for (; at > 0 && goes_before(file, &cache->files[ret_places[at - 1]]); at--)
            ret_places[at] = ret_places[at - 1];
        ret_places[at] = i;
    }
    return n;
}

struct piece {
    int fd;
    const struct stat *st;
    enum uma_filesystem_kind kind;
    uint64_t offset, length;
};

/* Bytes that left memory. What is partly dirty is left whole: the kernel would be made to write. */
static uint64_t evict_piece(const struct piece *piece) {
    struct uma_residency before, after;
    uma_residency_read(piece->fd, piece->st, piece->kind, piece->offset, piece->length, &before);
    if (!uma_usable(before.resident.validity) || before.resident.value == 0)
        return 0;
    if (uma_usable(before.dirty.validity) && before.dirty.value > 0)
        return 0;
    if (uma_evict_range(piece->fd, piece->offset, piece->length) < 0)
        return 0;
    uma_residency_read(piece->fd, piece->st, piece->kind, piece->offset, piece->length, &after);
    return uma_usable(after.resident.validity) && after.resident.value < before.resident.value
               ? before.resident.value - after.resident.value
               : 0;
}

struct limits {
    int64_t deadline_ns;
    bool (*stop)(void *userdata);
    void *userdata;
};

static bool over(const struct limits *limits, struct uma_helper_eviction *e) {
    e->late = e->late || uma_monotonic_ns() >= limits->deadline_ns;
    e->stopped = e->stopped || (limits->stop && limits->stop(limits->userdata));
    return e->late || e->stopped || e->evicted >= e->asked;
}

static void evict_file(const struct uma_cached_file *file, const struct limits *limits, struct uma_helper_eviction *e) {
    struct stat st;
    _cleanup_close_ int fd = uma_cached_file_open(file, &st); /* only if it is that very file still */
    uint64_t before = e->evicted;
    if (fd < 0)
        return;
    uint32_t magic = uma_filesystem_magic(fd);
    if (uma_filesystem_is_memory(magic))
        return;
    struct piece piece = { .fd = fd, .st = &st, .kind = magic == UMA_MAGIC_OVERLAY ? UMA_FILESYSTEM_OVERLAY : UMA_FILESYSTEM_LOCAL };
    for (uint64_t size = (uint64_t)MAX_OF(st.st_size, (off_t)0); piece.offset < size && !over(limits, e); piece.offset += PIECE_BYTES) {
        piece.length = MIN_OF(PIECE_BYTES, size - piece.offset);
        e->evicted += evict_piece(&piece);
    }
    e->files += e->evicted > before;
}

void uma_helper_evict(const struct uma_page_cache *cache, uint64_t bytes, int64_t deadline_ns, bool (*stop)(void *userdata), void *userdata,
                      struct uma_helper_eviction *ret_eviction) {
    struct uma_helper_eviction e = { .asked = bytes };
    struct limits limits = { deadline_ns, stop, userdata };
    _cleanup_free_
    size_t *places = calloc(FILES_MAX, sizeof(*places));
    size_t n = places ? uma_helper_evict_order(cache, places, FILES_MAX) : 0;
    e.n_files = n;
    for (size_t i = 0; i < n; i++)
        e.cached += cache->files[places[i]].resident.value;
    for (size_t i = 0; i < n && !over(&limits, &e); i++)
        evict_file(&cache->files[places[i]], &limits, &e);
    *ret_eviction = e;
}
