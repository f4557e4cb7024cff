/* SPDX-License-Identifier: MIT */
#include "cmd/status_cache.h"

#include "base/units.h"
#include "observe/files/page_cache_order.h"
#include "observe/memory.h"

#define LOOK_AGAIN_NS (10 * UMA_SECOND_NS)
enum { CHANGE_PART = 20 };
/* UMA_SNAPSHOT_CACHED_FILES with long paths and all their processes are some 100 KiB. */
enum { ARENA_MAX = 16 * 1024 * 1024 };

void uma_status_cache_done(struct uma_status_cache *cache) {
    cache->arena = uma_arena_free(cache->arena);
    *cache = (struct uma_status_cache){ 0 };
}

bool uma_status_cache_is_due(const struct uma_status_cache *cache, int64_t now_ns, struct uma_u64 page_cache) {
    if (!cache->has || now_ns - cache->looked_ns >= LOOK_AGAIN_NS)
        return true;
    if (!uma_usable(page_cache.validity) || !uma_usable(cache->page_cache.validity))
        return uma_usable(page_cache.validity) != uma_usable(cache->page_cache.validity);
    uint64_t was = cache->page_cache.value, is = page_cache.value;
    return (is > was ? is - was : was - is) > was / CHANGE_PART;
}

/* What was found must outlive the snapshot, whose memory the next reading takes. */
static int keep(struct uma_status_cache *cache, int64_t now_ns, struct uma_u64 page_cache, const struct uma_page_cache *found,
                struct uma_error *err) {
    cache->has = false;
    if (cache->arena)
        uma_arena_reset(cache->arena);
    else
        cache->arena = uma_arena_new(ARENA_MAX);
    if (!cache->arena)
        return uma_error_set(err, ENOMEM, "the page cache's files");
    int r = uma_page_cache_keep(found, cache->arena, &cache->found, err);
    if (r < 0)
        return r;
    cache->page_cache = page_cache;
    cache->looked_ns = now_ns;
    cache->has = true;
    return 0;
}

int uma_status_cache_read(struct uma_status_cache *cache, struct uma_observer *observer, double seconds, int64_t now_ns,
                          struct uma_snapshot *snapshot, struct uma_error *err) {
    struct uma_u64 page_cache = uma_meminfo_page_cache(&snapshot->meminfo);
    if (!uma_status_cache_is_due(cache, now_ns, page_cache))
        return uma_page_cache_keep(&cache->found, snapshot->arena, &snapshot->page_cache, err);
    int r = uma_observer_read_page_cache(observer, seconds, snapshot, err);
    return r < 0 ? r : keep(cache, now_ns, page_cache, &snapshot->page_cache, err);
}
