/* SPDX-License-Identifier: MIT */
/*
 * status_cache.h - which models fill the page cache, for a status that is shown again and again. Looking for them opens every file that any process uses and takes up to
 * half a second, so what was found is shown again until it may have become something else. The only thing of a status that is not of its own moment.
 */
#pragma once

#include "base/arena.h"
#include "uma.h"

struct uma_status_cache { /* zeroed: nothing was looked for yet */
    struct uma_arena *arena;
    struct uma_page_cache found; /* in the arena */
    struct uma_u64 page_cache;   /* all of it, then */
    int64_t looked_ns;           /* CLOCK_MONOTONIC */
    bool has;
};
void uma_status_cache_done(struct uma_status_cache *cache);

/*
 * Is it time to look again? After 10 s, in which a person has read what is there; or when the page cache is by more than a twentieth larger or smaller than it was:
 * less is within what a row of GiB shows. Pure.
 */
bool uma_status_cache_is_due(const struct uma_status_cache *cache, int64_t now_ns, struct uma_u64 page_cache);
/* Into snapshot->page_cache what was found, looked for anew where that is due, for at most `seconds`. -ENOMEM, or what uma_observer_read_page_cache() says. */
int uma_status_cache_read(struct uma_status_cache *cache, struct uma_observer *observer, double seconds, int64_t now_ns,
                          struct uma_snapshot *snapshot, struct uma_error *err);
