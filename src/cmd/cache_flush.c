/* SPDX-License-Identifier: MIT */
/* `umactl cache evict --all`: refused while a job trains or loads, then everything is dropped, step by step, and the ledger says what came back. */
#include "cmd/cache_evict.h"

#include "base/units.h"
#include "cmd/layout.h"

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

/* ---- the command -------------------------------------------------------------------------------------------- */

static int print(const struct uma_cache_evict_options *options, const struct uma_flush_receipt *receipt) {
    _cleanup_text_ struct uma_text text = { 0 };
    if (options->common.json) {
        struct uma_json json = { .text = &text };
        (options->dry_run ? uma_cache_flush_dry_json : uma_cache_flush_json)(&json, receipt);
    } else {
        struct uma_status_style style = uma_status_style_of(STDOUT_FILENO);
        (options->dry_run ? uma_cache_flush_dry_text : uma_cache_flush_text)(&text, receipt, &style);
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
    struct uma_flush_options how = {
        .prefix = "", .sync = options->sync, .stop = uma_cache_is_stopped, .tell = tell, .dry_run = options->dry_run
    };
    int r = uma_flush(observer, &how, &receipt, &err);
    uma_cache_progress_end();
    if (r == -EACCES || r == -EPERM) {
        (void)uma_error_text(&told, -r, "%s; `umactl cache evict --all-models` needs no such right", err.text);
        return uma_command_fail(self->name, UMA_EXIT_NO, &told);
    }
    return r < 0 ? uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err) : print(options, &receipt);
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
        status = flush(options, observer);
    (void)uma_observer_close(observer);
    return status;
}
