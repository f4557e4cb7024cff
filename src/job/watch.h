/* SPDX-License-Identifier: MIT */
/*
 * watch.h - one job being sampled: tree, pool, pressure, GPU and heat into samples, rows, events, peaks and the run record. Reads only; a source or a
 * file that fails is told once and the rest goes on.
 */
#pragma once

#include "job/detect.h"
#include "job/gpu_watch.h"
#include "job/tree.h"
#include "record/csv.h"
#include "record/run_record.h"

#include <stdbool.h>

struct uma_watch {
    struct uma_run *run;
    struct uma_run_folder *folder;
    struct uma_csv *csv;     /* the user's, NULL: none */
    struct uma_csv *samples; /* the record's, NULL: none */
    struct uma_observer *observer;
    struct uma_snapshot snapshot; /* memory only, read again and again */
    struct uma_gpu_watch *gpu;    /* NULL: none */
    struct uma_tree *tree;
    struct uma_detector detector;
    struct uma_gpu_reading reading;
    struct uma_tree_reading last_tree;
    struct uma_u64 last_gpu; /* bytes of the job, as the driver's list of processes says */

    double row_seconds;
    struct uma_sample row;
    bool row_begun;
    int64_t row_due_ns;
    struct uma_text row_events;
    struct uma_f64 major_faults; /* counter at the last sample */
    double cpu_seconds;
    bool cpu_begun;
    bool csv_told, samples_told, folder_told, tree_told;
    int64_t record_due_ns;
};

/* run, folder, csv, samples, observer, gpu, tree and row_seconds are set by the caller. What fails here is the pool's part of the samples
 * only: the rest can be used. */
int uma_watch_begin(struct uma_watch *watch, struct uma_error *err);
/* One sample now; rows and the record when they are due. */
void uma_watch_sample(struct uma_watch *watch);
/* Write the row that is begun. */
void uma_watch_flush(struct uma_watch *watch);
void uma_watch_event(struct uma_watch *watch, const char *name, const char *detail);
/* Write run.json. */
void uma_watch_save(struct uma_watch *watch, bool durable);
void uma_watch_end(struct uma_watch *watch);

/* "umactl run: ..." on stderr, escaped; nothing when stderr is gone. */
void uma_job_tell(const char *format, ...) UMA_PRINTF(1, 2);
