/* SPDX-License-Identifier: MIT */
#include "cache/busy.h"

#include "base/units.h"
#include "observe/files/process_files.h"
#include "observe/files/stores.h"
#include "observe/lines.h"
#include "observe/process.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Smaller files of such names are test data, configurations, adapters' states: no load. */
static const uint64_t WEIGHTS_LEAST = 16 * UMA_MIB;
/* Looking into every process. */
enum { USED_SECONDS = 10, IO_MAX = 4096, STATUS_MAX = 16384 };

/* Growth per second, 0 where either is unknown. */
static uint64_t rate(struct uma_u64 before, struct uma_u64 after, double seconds) {
    if (!uma_usable(before.validity) || !uma_usable(after.validity) || after.value <= before.value || !(seconds > 0))
        return 0;
    double bytes = (double)(after.value - before.value) / seconds;
    return bytes < 1e18 ? (uint64_t)bytes : UINT64_C(1000000000000000000);
}

struct uma_busy_job uma_busy_judge(const struct uma_holder *holders, size_t n_holders, const struct uma_weight_reader *readers,
                                   size_t n_readers, double seconds) {
    for (size_t i = 0; i < n_holders; i++)
        if (holders[i].role == UMA_ROLE_TRAIN && !holders[i].exited)
            return (struct uma_busy_job){ UMA_BUSY_TRAINS, holders[i].pid, holders[i].name, holders[i].kind, 0 };
    struct uma_busy_job job = { 0 };
    for (size_t i = 0; i < n_readers; i++) {
        const struct uma_weight_reader *r = &readers[i];
        uint64_t bytes = rate(r->before.read, r->after.read, seconds);
        bytes = MAX_OF(bytes, rate(r->before.storage, r->after.storage, seconds));
        bytes = MAX_OF(bytes, rate(r->before.mapped, r->after.mapped, seconds));
        if (bytes >= UMA_LOADING_BYTES && bytes > job.bytes_per_second)
            job = (struct uma_busy_job){ UMA_BUSY_LOADS, r->pid, r->name, NULL, bytes };
    }
    return job;
}

/* ---- looking ------------------------------------------------------------------------------------------------ */

/* Empty where it cannot be read. */
static void read_file(struct uma_root *root, int32_t pid, const char *file, size_t max, struct uma_text *into) {
    char path[64];
    (void)snprintf(path, sizeof path, "proc/%d/%s", pid, file);
    if (uma_root_read_unrecorded(root, path, max, into, NULL) < 0)
        uma_text_reset(into);
}

static struct uma_u64 number_of(const struct uma_text *text, const char *key) {
    return uma_lines_number(text->data ? text->data : "", text->length, key);
}

static struct uma_weight_progress look(struct uma_root *root, int32_t pid) {
    _cleanup_text_ struct uma_text io = { 0 }, status = { 0 };
    read_file(root, pid, "io", IO_MAX, &io);
    read_file(root, pid, "status", STATUS_MAX, &status);
    struct uma_weight_progress progress = { number_of(&io, "rchar"), number_of(&io, "read_bytes"), number_of(&status, "RssFile") };
    if (__builtin_mul_overflow(progress.mapped.value, UMA_KIB, &progress.mapped.value)) /* fs/proc/task_mmu.c: its kB are 1024 bytes */
        progress.mapped = uma_no_u64(UMA_MALFORMED);
    return progress;
}

enum { READERS_MAX = 4096 }; /* processes with weights open: workers of a big engine are some tens */

static void reader_add(struct uma_weight_reader *readers, size_t *n, int32_t pid, uint64_t size) {
    for (size_t i = 0; i < *n; i++)
        if (readers[i].pid == pid) {
            readers[i].weights += MIN_OF(size, UINT64_MAX - readers[i].weights);
            return;
        }
    if (*n < READERS_MAX)
        readers[(*n)++] = (struct uma_weight_reader){ .pid = pid, .weights = size };
}

static bool is_weights(const struct uma_used_file *file) {
    const char *name = file->shown ? file->shown : file->path;
    return name && uma_is_weight_file(name) && (file->size >= WEIGHTS_LEAST || file->size == 0); /* 0: not known */
}

static void pause_for(double seconds) {
    struct timespec t = { .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    (void)nanosleep(&t, NULL); /* a signal ends it: the shorter time is measured */
}

int uma_weight_readers_watch(struct uma_root *root, const struct uma_processes *processes, double seconds, struct uma_arena *arena,
                             size_t *ret_n, struct uma_weight_reader **ret_readers, double *ret_seconds, struct uma_error *err) {
    struct uma_used_files used = { 0 };
    int r = uma_used_files_read(root, uma_monotonic_ns() + USED_SECONDS * UMA_SECOND_NS, arena, &used, err);
    if (r < 0)
        return r;
    struct uma_weight_reader *readers = uma_arena_array(arena, READERS_MAX, sizeof(*readers));
    if (!readers)
        return uma_error_set(err, ENOMEM, "who reads weights");
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < used.n; i++) {
        const struct uma_used_file *f = &used.list[i];
        if (!is_weights(f))
            continue;
        for (size_t k = 0; k < f->n_mapped_by; k++)
            reader_add(readers, &n, f->mapped_by[k], f->size);
        for (size_t k = 0; k < f->n_open_by; k++)
            reader_add(readers, &n, f->open_by[k], f->size);
    }
    for (size_t i = 0; i < n; i++)
        readers[i].before = look(root, readers[i].pid);
    int64_t start = uma_monotonic_ns();
    if (n > 0)
        pause_for(seconds);
    *ret_seconds = (double)(uma_monotonic_ns() - start) / 1e9;
    for (size_t i = 0; i < n; i++) {
        struct uma_weight_reader *w = &readers[i];
        w->after = look(root, w->pid);
        const struct uma_process *process = uma_processes_find(processes, w->pid);
        w->name = process ? process->name : NULL;
        if (uma_usable(w->after.read.validity) || uma_usable(w->after.mapped.validity))
            readers[kept++] = *w;
    }
    *ret_n = kept;
    *ret_readers = readers;
    return 0;
}
