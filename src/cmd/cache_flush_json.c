/* SPDX-License-Identifier: MIT */
/* The document of `umactl cache evict --all`: schema umactl.cache/1 without files, with a reading after each step. */
#include "cmd/cache_evict.h"

#include "base/units.h"

static void step_json(struct uma_json *json, const struct uma_flush_reading *reading, enum uma_flush_step step) {
    uma_json_begin_object(json, NULL, false);
    uma_json_string(json, "step", uma_flush_step_name(step));
    uma_json_double(json, "seconds", reading->seconds);
    uma_json_u64(json, "free", reading->free);
    uma_json_u64(json, "available", reading->available);
    uma_json_u64(json, "driver_pools", reading->driver_pools);
    uma_json_u64(json, "largest_free_block", reading->largest_free_block);
    uma_json_u64(json, "free_in_large_blocks", reading->large_free);
    if (!reading->ledger.known)
        uma_json_null(json, "ledger");
    else {
        uma_json_begin_array(json, "ledger", false);
        for (int kind = 0; kind < UMA_LEDGER_KINDS; kind++) {
            uma_json_begin_object(json, NULL, true);
            uma_json_string(json, "kind", uma_ledger_kind_name((enum uma_ledger_kind)kind));
            uma_json_unsigned(json, "bytes", reading->ledger.bytes[kind]);
            uma_json_end_object(json);
        }
        uma_json_end_array(json);
    }
    uma_json_end_object(json);
}

static uint64_t cache_of(const struct uma_flush_reading *reading) {
    const uint64_t *bytes = reading->ledger.bytes;
    return bytes[UMA_LEDGER_CACHE_CLEAN] + bytes[UMA_LEDGER_CACHE_DIRTY] + bytes[UMA_LEDGER_CACHE_MAPPED];
}

void uma_cache_flush_json(struct uma_json *json, const struct uma_flush_receipt *receipt) {
    const struct uma_flush_reading *before = &receipt->steps[UMA_FLUSH_BEFORE], *after = uma_flush_last(receipt);
    enum uma_validity known = before->ledger.known && after->ledger.known ? UMA_KNOWN : UMA_UNKNOWN;
    uint64_t was = cache_of(before), is = cache_of(after);
    double seconds = receipt->sync_seconds;
    for (size_t i = 0; i < UMA_FLUSH_STEPS; i++)
        seconds += receipt->steps[i].seconds;
    uma_json_begin_object(json, NULL, false);
    uma_json_string(json, "schema", "umactl.cache/1");
    uma_json_u64(json, "page_cache", (struct uma_u64){ is, known });
    uma_json_null(json, "explained");
    uma_json_begin_array(json, "files", true);
    uma_json_end_array(json);
    uma_json_u64(json, "before", (struct uma_u64){ was, known });
    uma_json_u64(json, "evicted", (struct uma_u64){ was - MIN_OF(was, is), known });
    uma_json_u64(json, "kept", (struct uma_u64){ is, known });
    uma_json_unsigned(json, "unknown", 0);
    uma_json_double(json, "seconds", seconds);
    uma_json_begin_object(json, "memory", false);
    uma_json_u64(json, "free_before", before->free);
    uma_json_u64(json, "free_after", after->free);
    uma_json_u64(json, "available_before", before->available);
    uma_json_u64(json, "available_after", after->available);
    uma_json_end_object(json);
    uma_json_begin_array(json, "steps", false);
    for (size_t i = 0; i < UMA_FLUSH_STEPS; i++)
        if (receipt->steps[i].done)
            step_json(json, &receipt->steps[i], (enum uma_flush_step)i);
    uma_json_end_array(json);
    uma_json_bool(json, "synced", receipt->synced);
    uma_json_string(json, "compact_failed", receipt->compact_failed[0] ? receipt->compact_failed : NULL);
    uma_json_bool(json, "dry_run", false);
    uma_json_bool(json, "interrupted", receipt->interrupted);
    uma_json_end_object(json);
}

void uma_cache_flush_dry_json(struct uma_json *json, const struct uma_flush_receipt *receipt) {
    const struct uma_flush_reading *now = &receipt->steps[UMA_FLUSH_BEFORE];
    enum uma_validity known = now->ledger.known ? UMA_KNOWN : UMA_UNKNOWN;
    uma_json_begin_object(json, NULL, false);
    uma_json_string(json, "schema", "umactl.cache/1");
    uma_json_u64(json, "page_cache", (struct uma_u64){ cache_of(now), known });
    uma_json_null(json, "explained");
    uma_json_begin_array(json, "files", true);
    uma_json_end_array(json);
    uma_json_u64(json, "droppable", (struct uma_u64){ now->ledger.bytes[UMA_LEDGER_CACHE_CLEAN], known });
    uma_json_u64(json, "slab_reclaimable", (struct uma_u64){ now->ledger.bytes[UMA_LEDGER_SLAB_RECLAIMABLE], known });
    uma_json_u64(json, "driver_pools", now->driver_pools);
    uma_json_bool(json, "dry_run", true);
    uma_json_end_object(json);
}
