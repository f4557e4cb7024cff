/* SPDX-License-Identifier: MIT */
/* `umactl cache evict --all`: refused while a job trains or loads, then everything is dropped, step by step, and the ledger says what came back. */
#include "cmd/cache_evict.h"

#include "base/units.h"
#include "cmd/layout.h"

#include <stdio.h>
#include <string.h>

static const struct uma_command *const self = &uma_command_cache_evict;

/* Apart: long enough that a load on the slowest storage is seen, and short enough to wait for. */
#define WATCH_SECONDS 1.0
#define JUDGE_READS (UMA_READ_MEMORY | UMA_READ_PROCESSES | UMA_READ_GPU | UMA_READ_PLATFORM)
enum { WATCH_ARENA_MAX = 512 * 1024 * 1024 };

static void tell(void *userdata, enum uma_flush_step step) {
    static const char *const texts[UMA_FLUSH_STEPS] = { "reading the machine", "dropping page cache",
                                                        "dropping slab caches and driver pools", "putting free memory together" };
    (void)userdata;
    uma_cache_progress(texts[step]);
}

/* ---- may it be done? ---------------------------------------------------------------------------------------- */

static void refusal_text(struct uma_text *t, const struct uma_busy_job *job) {
    uma_text_printf(t, "%s (pid %d%s%s) ", job->name ? job->name : "a process", job->pid, job->kind ? ", " : "",
                    job->kind ? job->kind : "");
    if (job->busy == UMA_BUSY_TRAINS)
        uma_text_append(t, "trains, and would read its data again");
    else {
        uma_text_append(t, "loads weights at ");
        uma_text_bytes(t, job->bytes_per_second);
        uma_text_append(t, "/s, and would read them again");
    }
    uma_text_append(t, "; nothing was dropped. Wait for it, evict single models or files, or say --force");
}

/* UMA_EXIT_OK: go on. A machine whose jobs cannot be read is not one that is known to be idle. */
static int judge(struct uma_observer *observer) {
    struct uma_error err = { 0 };
    struct uma_snapshot snapshot;
    struct uma_account account = { 0 };
    _cleanup_root_ struct uma_root *root = NULL;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(WATCH_ARENA_MAX);
    struct uma_weight_reader *readers = NULL;
    size_t n = 0;
    double seconds = 0;
    int r = arena ? uma_snapshot_init(&snapshot) : -ENOMEM;
    if (r < 0) {
        (void)uma_error_set(&err, -r, "reading the machine");
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    }
    uma_cache_progress("looking for jobs that train or load");
    r = uma_observer_read(observer, JUDGE_READS, &snapshot, &err);
    if (r >= 0)
        r = uma_account_build(&snapshot, 0, &account, &err);
    if (r >= 0)
        r = uma_root_open(NULL, NULL, &root, &err);
    if (r >= 0)
        r = uma_weight_readers_watch(root, &snapshot.processes, WATCH_SECONDS, arena, &n, &readers, &seconds, &err);
    struct uma_busy_job job = { 0 };
    if (r >= 0)
        job = uma_busy_judge(account.holders, account.n_holders, readers, n, seconds);
    uma_cache_progress_end();
    int status = UMA_EXIT_OK;
    if (r < 0)
        status = uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    else if (job.busy != UMA_BUSY_NOT) {
        _cleanup_text_ struct uma_text t = { 0 };
        refusal_text(&t, &job);
        (void)uma_error_text(&err, EBUSY, "%s", t.data ? t.data : "a job trains or loads");
        status = uma_command_fail(self->name, UMA_EXIT_NO, &err);
    }
    uma_account_done(&account);
    uma_snapshot_done(&snapshot);
    return status;
}

/* ---- the answer --------------------------------------------------------------------------------------------- */

static const struct uma_flush_reading *last(const struct uma_flush_receipt *receipt) {
    size_t i = UMA_FLUSH_STEPS - 1;
    while (i > 0 && !receipt->steps[i].done)
        i--;
    return &receipt->steps[i];
}

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
    const struct uma_flush_reading *before = &receipt->steps[UMA_FLUSH_BEFORE], *after = last(receipt);
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
    const struct uma_flush_reading *before = &receipt->steps[UMA_FLUSH_BEFORE], *after = last(receipt);
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
    const struct uma_flush_reading *before = &receipt->steps[UMA_FLUSH_BEFORE], *after = last(receipt);
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

/* ---- the command -------------------------------------------------------------------------------------------- */

static int print(const struct uma_cache_evict_options *options, const struct uma_flush_receipt *receipt) {
    _cleanup_text_ struct uma_text text = { 0 };
    if (options->common.json) {
        struct uma_json json = { .text = &text };
        uma_cache_flush_json(&json, receipt);
    } else {
        struct uma_status_style style = uma_status_style_of(STDOUT_FILENO);
        uma_cache_flush_text(&text, receipt, &style);
        if (!style.utf8)
            uma_layout_ascii(&text);
    }
    if (uma_command_print(&text) < 0)
        return UMA_EXIT_UNKNOWN;
    return receipt->interrupted ? 128 + uma_cache_signal() : UMA_EXIT_OK;
}

static int flush(const struct uma_cache_evict_options *options, struct uma_observer *observer) {
    struct uma_error err = { 0 }, told = { 0 };
    struct uma_flush_receipt receipt;
    struct uma_flush_options how = { .prefix = "", .sync = options->sync, .stop = uma_cache_is_stopped, .tell = tell };
    int r = uma_flush(observer, &how, &receipt, &err);
    uma_cache_progress_end();
    if (r == -EACCES || r == -EPERM) {
        (void)uma_error_text(&told, -r, "%s; `umactl cache evict --all-models` needs no such right", err.text);
        return uma_command_fail(self->name, UMA_EXIT_NO, &told);
    }
    return r < 0 ? uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err) : print(options, &receipt);
}

/* What dropping everything would give: the ledger's row of clean cache, and what slab and pools may add. */
static int dry_run(const struct uma_cache_evict_options *options, struct uma_observer *observer) {
    struct uma_error err = { 0 };
    struct uma_flush_receipt receipt;
    struct uma_flush_options how = { .prefix = "", .stop = uma_cache_is_stopped, .dry_run = true };
    int r = uma_flush(observer, &how, &receipt, &err);
    if (r < 0)
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    _cleanup_text_ struct uma_text text = { 0 };
    const struct uma_flush_reading *now = &receipt.steps[UMA_FLUSH_BEFORE];
    struct uma_u64 clean = row_of(now, UMA_LEDGER_CACHE_CLEAN), slab = row_of(now, UMA_LEDGER_SLAB_RECLAIMABLE);
    struct uma_json json = { .text = &text };
    if (options->common.json) {
        uma_json_begin_object(&json, NULL, false);
        uma_json_string(&json, "schema", "umactl.cache/1");
        uma_json_u64(&json, "page_cache", (struct uma_u64){ cache_of(now), clean.validity });
        uma_json_null(&json, "explained");
        uma_json_begin_array(&json, "files", true);
        uma_json_end_array(&json);
        uma_json_u64(&json, "droppable", clean);
        uma_json_u64(&json, "slab_reclaimable", slab);
        uma_json_u64(&json, "driver_pools", now->driver_pools);
        uma_json_bool(&json, "dry_run", true);
        uma_json_end_object(&json);
    } else {
        uma_text_append(&text, "Would drop up to ");
        uma_layout_bytes(&text, clean);
        uma_text_append(&text, " of clean page cache, ");
        uma_layout_bytes(&text, slab);
        uma_text_append(&text, " of slab caches");
        if (uma_usable(now->driver_pools.validity)) {
            uma_text_append(&text, " and ");
            uma_layout_bytes(&text, now->driver_pools);
            uma_text_append(&text, " of driver pools");
        }
        uma_text_char(&text, '\n');
    }
    return uma_command_print(&text) < 0 ? UMA_EXIT_UNKNOWN : UMA_EXIT_OK;
}

int uma_cache_flush(const struct uma_cache_evict_options *options) {
    struct uma_error err = { 0 };
    struct uma_observe_options observe = uma_command_observe_options(&options->common);
    observe.keep_probe = true;
    struct uma_observer *observer = NULL;
    if (uma_observer_open(&observe, &observer, &err) < 0)
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    uma_cache_catch_signals();
    int status = options->force ? UMA_EXIT_OK : judge(observer);
    if (status == UMA_EXIT_OK && uma_cache_signal())
        status = 128 + uma_cache_signal();
    else if (status == UMA_EXIT_OK)
        status = options->dry_run ? dry_run(options, observer) : flush(options, observer);
    (void)uma_observer_close(observer);
    return status;
}
