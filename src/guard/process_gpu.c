/* SPDX-License-Identifier: MIT */
/* What the driver says of each process, and how fast each one grows. */
#include "guard/processes_private.h"

#include "base/units.h"
#include "guard/scan.h"

/* Growth is taken from a table at least so old, where there is one: less than that, and the batches in which the kernel counts (64 pages of a thread or a processor) are seen for growth. */
#define SPAN_NS (50 * UMA_MILLISECOND_NS)
/* The first tables after a while without any: what one grew by since then tells of then. From the table before it is taken as soon as that is so old; 64 pages in that time are 25 MB/s, a collapse is hundreds. */
#define LONG_NS (4 * SPAN_NS)
#define SHORT_NS (10 * UMA_MILLISECOND_NS)
/* The GPU's growth between two answers tells of now for as long as that: an answer takes a few ms, and where the driver hangs the last one tells of then. */
#define GPU_FRESH_NS (2000 * UMA_MILLISECOND_NS)

static int64_t difference(uint64_t is, uint64_t was) {
    uint64_t by = is > was ? is - was : was - is;
    int64_t bounded = by < (uint64_t)INT64_MAX ? (int64_t)by : INT64_MAX;
    return is >= was ? bounded : -bounded;
}

static int64_t sum(int64_t a, int64_t b) {
    int64_t s;
    return !__builtin_add_overflow(a, b, &s) ? s : a > 0 ? INT64_MAX : -INT64_MAX;
}

/* ---- GPU bytes ----------------------------------------------------------------------------------------------------- */

/* The row that the entry is of. One without a start is of a process that the writer did not see any more: whoever has its number now is another. */
static int32_t row_of(const struct uma_guard_processes *p, const struct uma_guard_gpu_entry *entry) {
    int32_t i = entry->start ? uma_guard_row_find(p, entry->pid) : -1;
    return i >= 0 && p->list[i].start == entry->start ? i : -1;
}

struct answer {
    bool is_new;
    int64_t before, span_ns; /* the one before, 0: none; between the two */
};

/* What it has now; `bytes` of a process that has several entries (several GPUs) come one by one. */
static void set_gpu(struct uma_guard_process *process, struct uma_guard_row *row, uint64_t bytes, const struct answer *answer,
                    bool was_whole) {
    if (row->known & ROW_LISTED) {
        process->gpu = uma_guard_add(process->gpu, bytes);
        if (answer->is_new && process->gpu_grown_ns > 0)
            process->gpu_grown = sum(process->gpu_grown, difference(bytes, 0));
        return;
    }
    row->known |= ROW_LISTED;
    if (answer->is_new) {
        /* one that is new since had nothing in the answer before, or it would have been in the table */
        bool known = process->gpu_known || (row->known & ROW_NEW && answer->before != 0 && was_whole);
        process->gpu_grown = known ? difference(bytes, process->gpu) : 0;
        process->gpu_grown_ns = known ? answer->span_ns : 0;
    }
    process->gpu = bytes;
    process->gpu_known = true;
}

void uma_guard_rows_gpu(struct uma_guard_processes *processes, const struct uma_guard_gpu *gpu, int64_t now) {
    struct uma_guard_processes_before *before = processes->before;
    if (!gpu || !gpu->known) {
        before->gpu_age_ns = INT64_MAX;
        return;
    }
    struct answer answer = { .is_new = gpu->answered != before->gpu_answer, .before = before->gpu_answer };
    answer.span_ns = answer.before != 0 && gpu->answered > answer.before ? gpu->answered - answer.before : 0;
    for (size_t i = 0; i < processes->n; i++)
        before->rows[i].known &= ~(uint32_t)ROW_LISTED;
    for (uint32_t k = 0; k < gpu->n; k++) {
        int32_t i = row_of(processes, &gpu->list[k]);
        if (i >= 0)
            set_gpu(&processes->list[i], &before->rows[i], gpu->list[k].bytes, &answer, before->gpu_whole);
    }
    bool whole = gpu->n < UMA_GUARD_GPU_MAX; /* else who is not in it may have a little */
    for (size_t i = 0; i < processes->n && whole; i++)
        if (!(before->rows[i].known & ROW_LISTED))
            set_gpu(&processes->list[i], &before->rows[i], 0, &answer, before->gpu_whole);
    before->gpu_answer = gpu->answered;
    before->gpu_whole = whole;
    before->gpu_age_ns = now - gpu->answered;
}

/* ---- growth -------------------------------------------------------------------------------------------------------- */

static uint64_t held(const struct uma_guard_process *p) {
    return uma_guard_add(uma_guard_add(p->anon, p->shmem), p->swap);
}

/*
 * Two tables are remembered: the older is what growth is taken from, the newer takes its place when it is old enough. Of the GPU's growth, which is between two answers and not between two tables, as much is
 * added as it comes to in that time, so that the sum is a rate of now.
 */
static void grow(struct uma_guard_process *process, struct uma_guard_row *row, int64_t now, int64_t gpu_age_ns) {
    uint64_t now_held = held(process);
    if (row->known & ROW_NEW) {
        row->base_time[0] = row->base_time[1] = now;
        row->base_held[0] = row->base_held[1] = now_held;
    }
    bool shift = now - row->base_time[1] >= SPAN_NS;
    if (shift) {
        row->base_time[0] = row->base_time[1];
        row->base_held[0] = row->base_held[1];
    }
    int from = now - row->base_time[0] > LONG_NS && now - row->base_time[1] >= SHORT_NS ? 1 : 0;
    process->grown_ns = now > row->base_time[from] ? now - row->base_time[from] : 0;
    process->grown = process->grown_ns > 0 ? difference(now_held, row->base_held[from]) : 0;
    if (process->grown_ns > 0 && process->gpu_grown_ns > 0 && gpu_age_ns <= GPU_FRESH_NS) {
        double share = (double)process->gpu_grown * ((double)process->grown_ns / (double)process->gpu_grown_ns);
        const double most = 4e18; /* of 63 bits; only hostile numbers come near it */
        share = share > most ? most : share < -most ? -most : share;
        process->grown = sum(process->grown, (int64_t)share);
    }
    if (shift) {
        row->base_time[1] = now;
        row->base_held[1] = now_held;
    }
}

void uma_guard_rows_grow(struct uma_guard_processes *processes, int64_t now) {
    struct uma_guard_processes_before *before = processes->before;
    for (size_t i = 0; i < processes->n; i++)
        if (before->rows[i].known & ROW_FRESH)
            grow(&processes->list[i], &before->rows[i], now, before->gpu_age_ns);
}
