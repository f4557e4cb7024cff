/* SPDX-License-Identifier: MIT */
/* What `umactl cache evict --all` answers for people: memory before and after, and the rows of the ledger that moved, step by step. */
#include "cmd/cache_evict.h"

#include "base/units.h"
#include "cmd/layout.h"

static void change_line(struct uma_text *text, const struct uma_flush_receipt *receipt, const char *name,
                        struct uma_u64 (*of)(const struct uma_flush_reading *, int), int which) {
    uma_text_printf(text, "  %-24s", name);
    for (size_t i = 0; i < UMA_FLUSH_STEPS; i++)
        uma_layout_gib_column(text, receipt->steps[i].done ? of(&receipt->steps[i], which) : (struct uma_u64){ 0, UMA_ABSENT }, 12);
    uma_text_char(text, '\n');
}

static struct uma_u64 row_of(const struct uma_flush_reading *reading, int kind) {
    return (struct uma_u64){ reading->ledger.bytes[kind], reading->ledger.known ? UMA_KNOWN : UMA_UNKNOWN };
}

enum { FIGURE_FREE, FIGURE_AVAILABLE, FIGURE_POOLS, FIGURE_BLOCK, FIGURE_LARGE };

static struct uma_u64 figure_of(const struct uma_flush_reading *reading, int which) {
    const struct uma_u64 figures[] = { reading->free, reading->available, reading->driver_pools, reading->largest_free_block,
                                       reading->large_free };
    return figures[which];
}

/* Rows that moved by less say nothing in tenths of a GiB; the pools are told apart whatever they did. */
static bool moved(const struct uma_flush_receipt *receipt, int kind) {
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < UMA_FLUSH_STEPS; i++)
        if (receipt->steps[i].done && receipt->steps[i].ledger.known) {
            least = MIN_OF(least, receipt->steps[i].ledger.bytes[kind]);
            most = MAX_OF(most, receipt->steps[i].ledger.bytes[kind]);
        }
    return most > least && most - least >= UMA_GIB / 20;
}

static void block_line(struct uma_text *text, const struct uma_status_style *style, const struct uma_flush_receipt *receipt) {
    const struct uma_flush_reading *before = &receipt->steps[UMA_FLUSH_BEFORE], *after = uma_flush_last(receipt);
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_append(&t, "largest free block ");
    uma_layout_bytes(&t, before->largest_free_block);
    uma_text_append(&t, " -> ");
    uma_layout_bytes(&t, after->largest_free_block);
    uma_text_append(&t, "; free in blocks of 2 MiB and more ");
    uma_layout_bytes(&t, before->large_free);
    uma_text_append(&t, " -> ");
    uma_layout_bytes(&t, after->large_free);
    uma_text_append(text, "  ");
    uma_layout_wrap(text, style, t.data ? t.data : "?", 2, 0);
}

void uma_cache_flush_text(struct uma_text *text, const struct uma_flush_receipt *receipt, const struct uma_status_style *style) {
    const struct uma_flush_reading *before = &receipt->steps[UMA_FLUSH_BEFORE], *after = uma_flush_last(receipt);
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_append(&t, receipt->interrupted ? "Stopped by a signal. MemFree " : "MemFree ");
    uma_layout_bytes(&t, before->free);
    uma_text_append(&t, " -> ");
    uma_layout_bytes(&t, after->free);
    uma_text_append(&t, ", available ");
    uma_layout_bytes(&t, before->available);
    uma_text_append(&t, " -> ");
    uma_layout_bytes(&t, after->available);
    uma_layout_ink(text, style, UMA_INK_BOLD);
    uma_layout_wrap(text, style, t.data ? t.data : "?", 0, 0);
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    if (receipt->synced) {
        uma_text_reset(&t);
        uma_text_append(&t, "  dirty data was written out first, in ");
        uma_text_duration(&t, receipt->sync_seconds);
        uma_text_printf(text, "%s\n", t.data ? t.data : "");
    }
    uma_layout_ink(text, style, UMA_INK_BOLD);
    uma_text_printf(text, "\n%-26s%12s%12s%12s%12s", "WHAT CAME BACK       GiB:", "before", "page cache", "slab, pools", "compacted");
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    uma_text_char(text, '\n');
    for (int kind = 0; kind < UMA_LEDGER_KINDS; kind++)
        if (moved(receipt, kind) && kind != UMA_LEDGER_DRIVER_POOLS)
            change_line(text, receipt, uma_ledger_kind_name((enum uma_ledger_kind)kind), row_of, kind);
    change_line(text, receipt, "driver pools", figure_of, FIGURE_POOLS);
    change_line(text, receipt, "in blocks >= 2 MiB", figure_of, FIGURE_LARGE);
    block_line(text, style, receipt);
    if (receipt->compact_failed[0]) {
        uma_text_reset(&t);
        uma_text_printf(&t, "free memory was not put together: %s", receipt->compact_failed);
        uma_text_append(text, "  ");
        uma_layout_wrap(text, style, t.data ? t.data : "?", 2, 0);
    }
    uma_layout_clip(text, style->columns);
}

void uma_cache_flush_dry_text(struct uma_text *text, const struct uma_flush_receipt *receipt, const struct uma_status_style *style) {
    const struct uma_flush_reading *now = &receipt->steps[UMA_FLUSH_BEFORE];
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_append(&t, "Would drop up to ");
    uma_layout_bytes(&t, row_of(now, UMA_LEDGER_CACHE_CLEAN));
    uma_text_append(&t, " of clean page cache, ");
    uma_layout_bytes(&t, row_of(now, UMA_LEDGER_SLAB_RECLAIMABLE));
    uma_text_append(&t, " of slab caches");
    if (uma_usable(now->driver_pools.validity)) {
        uma_text_append(&t, " and ");
        uma_layout_bytes(&t, now->driver_pools);
        uma_text_append(&t, " of driver pools");
    }
    uma_layout_wrap(text, style, t.data ? t.data : "?", 0, 0);
}
