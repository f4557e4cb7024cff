/* SPDX-License-Identifier: MIT */
#include "cache/flush.h"

#include "act/drop_caches.h"
#include "base/units.h"

#include <stdio.h>

#define FLUSH_READS (UMA_READ_MEMORY | UMA_READ_PROCESSES | UMA_READ_GPU | UMA_READ_PLATFORM)

const char *uma_flush_step_name(enum uma_flush_step step) {
    static const char *const names[UMA_FLUSH_STEPS] = { "before", "page_cache", "slab", "compact" };
    return (unsigned)step < UMA_FLUSH_STEPS ? names[step] : NULL;
}

struct uma_u64 uma_free_in_blocks(const struct uma_headroom *headroom, struct uma_u64 page_size, uint64_t size) {
    if (headroom->n_orders == 0 || !uma_usable(page_size.validity) || page_size.value == 0)
        return (struct uma_u64){ 0, UMA_UNKNOWN };
    uint64_t bytes = 0;
    for (uint32_t order = 0; order < headroom->n_orders && order < UMA_ORDERS_MAX; order++)
        if (page_size.value << order >= size)
            bytes += headroom->free_by_order[order];
    return (struct uma_u64){ bytes, UMA_KNOWN };
}

static int reading_take(struct uma_observer *observer, struct uma_flush_reading *reading, struct uma_error *err) {
    struct uma_snapshot snapshot;
    struct uma_account account = { 0 };
    int r = uma_snapshot_init(&snapshot);
    if (r < 0)
        return uma_error_set(err, -r, "reading the machine");
    r = uma_observer_read(observer, FLUSH_READS, &snapshot, err);
    if (r >= 0)
        r = uma_account_build(&snapshot, 0, &account, err);
    if (r >= 0) {
        reading->done = true;
        reading->ledger = account.ledger;
        reading->free = snapshot.meminfo.mem_free;
        reading->available = snapshot.meminfo.mem_available;
        reading->driver_pools = account.headroom.driver_pools;
        reading->largest_free_block = account.headroom.largest_free_block;
        reading->large_free = uma_free_in_blocks(&account.headroom, snapshot.zones.page_size, UMA_LARGE_BLOCK);
    }
    uma_account_done(&account);
    uma_snapshot_done(&snapshot);
    return MIN_OF(r, 0);
}

static double since(int64_t start) {
    return (double)(uma_monotonic_ns() - start) / 1e9;
}

static int step_take(const struct uma_flush_options *options, enum uma_flush_step step, struct uma_flush_receipt *receipt,
                     struct uma_error *err) {
    struct uma_error inner = { 0 };
    switch (step) {
    case UMA_FLUSH_PAGE_CACHE:
        return uma_drop_caches(options->prefix, UMA_DROP_PAGE_CACHE, err);
    case UMA_FLUSH_SLAB:
        return uma_drop_caches(options->prefix, UMA_DROP_SLAB, err);
    case UMA_FLUSH_COMPACT:
        /* not every kernel has it, and what came back is back without it */
        if (uma_compact_memory(options->prefix, &inner) < 0)
            (void)snprintf(receipt->compact_failed, sizeof receipt->compact_failed, "%.255s", inner.text);
        return 0;
    default:
        return 0;
    }
}

int uma_flush(struct uma_observer *observer, const struct uma_flush_options *options, struct uma_flush_receipt *ret_receipt,
              struct uma_error *err) {
    *ret_receipt = (struct uma_flush_receipt){ 0 };
    enum uma_flush_step end = options->dry_run ? UMA_FLUSH_PAGE_CACHE : UMA_FLUSH_STEPS;
    for (enum uma_flush_step step = UMA_FLUSH_BEFORE; step < end; step++) {
        struct uma_flush_reading *reading = &ret_receipt->steps[step];
        if (step > UMA_FLUSH_BEFORE && options->stop && options->stop(options->userdata)) {
            ret_receipt->interrupted = true;
            return 0;
        }
        if (options->tell)
            options->tell(options->userdata, step);
        if (step == UMA_FLUSH_PAGE_CACHE && options->sync) {
            int64_t start = uma_monotonic_ns();
            uma_write_out_all();
            ret_receipt->synced = true;
            ret_receipt->sync_seconds = since(start);
        }
        int64_t start = uma_monotonic_ns();
        int r = step_take(options, step, ret_receipt, err);
        reading->seconds = since(start);
        if (r >= 0)
            r = reading_take(observer, reading, err);
        if (r < 0)
            return r;
    }
    return 0;
}

const struct uma_flush_reading *uma_flush_last(const struct uma_flush_receipt *receipt) {
    size_t i = UMA_FLUSH_STEPS - 1;
    while (i > 0 && !receipt->steps[i].done)
        i--;
    return &receipt->steps[i];
}
