/* SPDX-License-Identifier: MIT */
/*
 * run_record.h - what is kept of one run: a folder with run.json (schema umactl.run/1), before.json and after.json (snapshots), samples.csv
 * (plain) and events.jsonl. run.json is replaced whole (temporary file, rename) at the start, every few seconds and at the end, so it is
 * readable at any moment, also after umactl itself was killed. A record that cannot be written never stops the job. docs/run-records.md is
 * the contract.
 */
#pragma once

#include "base/error.h"
#include "base/json_write.h"
#include "record/sample.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define UMA_RUN_SCHEMA "umactl.run/1"

enum {
    UMA_RUN_EVENTS_MAX = 32, /* kinds of events that are counted; the vocabulary has 20 */
    UMA_RUN_LEFT_MAX = 16,   /* processes and files that are listed by name; the rest is counted */
    UMA_RUN_ARGUMENTS_MAX = 4096,
};

/* The files of the record's folder, for what of it is not there or not whole. */
enum uma_run_file {
    UMA_RUN_FILE_RUN = 1,
    UMA_RUN_FILE_BEFORE = 2,
    UMA_RUN_FILE_AFTER = 4,
    UMA_RUN_FILE_SAMPLES = 8,
    UMA_RUN_FILE_EVENTS = 16,
};

enum uma_run_state { UMA_RUN_RUNNING, UMA_RUN_ENDED, UMA_RUN_FAILED };

struct uma_event {
    int64_t time_ns;
    const char *name; /* static: the vocabulary of docs/csv.md */
    char detail[320]; /* hostile bytes possible (names of processes) */
};

struct uma_range {
    struct uma_f64 min, max;
};
static inline void uma_range_add(struct uma_range *range, struct uma_f64 v) {
    if (v.validity != UMA_KNOWN)
        return;
    if (range->min.validity != UMA_KNOWN || v.value < range->min.value)
        range->min = v;
    if (range->max.validity != UMA_KNOWN || v.value > range->max.value)
        range->max = v;
}

struct uma_left_process {
    pid_t pid;
    char name[64];
    struct uma_u64 bytes;
};
struct uma_left_file {
    char name[256];
    uint64_t bytes;
};

/* What came of following the job's load (--load-window, --keep-free). */
enum { UMA_RUN_LOAD_NOTE = 512 };

struct uma_run_load {
    bool asked;
    bool told;                  /* to a person, in a line of its own */
    uint64_t window, keep_free; /* bytes, 0: not asked for */
    const char *helper;         /* static: "preloaded", "not needed", "never", "unavailable"; NULL unknown */
    char helper_note[UMA_RUN_LOAD_NOTE];
    /* when it has come to its end */
    bool ended, loaded, in_place;
    const char *end; /* static: "loaded" ... */
    double seconds;
    uint64_t files, file_bytes, read_bytes, evicted_bytes, evicted_again_bytes, kept_free_bytes;
    struct uma_u64 peak, peak_without, cache_peak, lowest_free;
    bool by_fadvise, by_process_madvise, by_helper;
    char note[256];
};

/* What the valve did (--valve). */
struct uma_run_valve {
    bool used;
    struct uma_u64 limit;                           /* UMA_UNLIMITED without --limit */
    uint64_t floor;                                 /* bytes, 0: none */
    uint64_t most;                                  /* bytes that the job had at once by calls of CUDA, contexts left out */
    uint64_t refused_limit, refused_floor, retried; /* calls */
    uint64_t evicted;                               /* bytes of page cache */
};

struct uma_run {
    char id[160]; /* the folder's name */
    char name[64];
    int argc;
    char **argv;      /* borrowed; masked when written */
    char **env;       /* borrowed; only what matters is written */
    const char *root; /* the folder that stands for the machine (--root), NULL: this machine */
    const char *cwd, *host, *platform, *kernel, *driver, *boot_id, *version;
    enum uma_run_state state;
    int64_t start_ns, updated_ns, end_ns;
    pid_t pid, umactl_pid;
    uint64_t start_ticks, umactl_start_ticks; /* /proc/PID/stat field 22: with the pid it names one process */
    double sample_seconds;

    /* gate */
    struct uma_u64 need, budget;
    const char *verdict; /* static: "fits", "no need given", "refused", "unknown" */
    double waited_seconds;

    const char *cgroup; /* path, or NULL */
    char cgroup_note[200];

    /* how it ended */
    bool exited;
    int exit_status; /* umactl's: 0..255 */
    int signal;      /* that ended the job, 0 none */
    bool core;
    char cause[320];
    double cpu_seconds;

    struct uma_run_load load;
    struct uma_run_valve valve;
    struct uma_u64 driver_limit; /* bytes that the driver itself held the job to; unknown: it did not */

    /* peaks: see docs/run-records.md for what each is */
    struct uma_u64 peak_memory, peak_memory_most, peak_rss, peak_process_rss, peak_cgroup, peak_gpu, peak_processes, peak_pool_used;
    struct uma_u64 lowest_available, lowest_budget;
    struct uma_range celsius, watts, board_celsius;
    struct uma_f64 throttle_seconds[UMA_THROTTLE_MAX];
    uint64_t samples;

    unsigned n_events;
    struct {
        const char *name;
        uint64_t count;
    } events[UMA_RUN_EVENTS_MAX];

    /* what it left behind */
    unsigned n_left, n_left_total, n_files, n_files_total;
    struct uma_left_process left[UMA_RUN_LEFT_MAX];
    struct uma_left_file files[UMA_RUN_LEFT_MAX];
    uint64_t files_bytes;
    bool left_unknown, files_unknown; /* the processes, /dev/shm could not be listed: what was found is not all */
    struct uma_i64 not_returned;      /* available before less available after, less what left processes hold */

    const char *csv;    /* path as given, or NULL */
    unsigned unwritten; /* uma_run_file: of these something could not be written; told to a person, not part of run.json */
};

/* "train.sh" -> a name that is safe in a path: at most 40 of [A-Za-z0-9._-], never empty, never beginning with '.' or '-'. */
void uma_run_name_clean(const char *s, char ret_name[64]);
/* 20260302T101112Z-name-pid. */
void uma_run_id_format(int64_t time_ns, const char *name, pid_t pid, char ret_id[160]);
/* run.json. */
void uma_run_format(const struct uma_run *run, struct uma_text *text);
/* One line of events.jsonl. */
void uma_event_format(const struct uma_event *event, struct uma_text *text);
/* Count an event in the run. */
void uma_run_count(struct uma_run *run, const char *name);

/* The folder of one run. dir_fd -1: nothing is kept. */
struct uma_run_folder {
    int dir_fd, events_fd;
    char path[4096];
};

/* $UMACTL_STATE, else $XDG_STATE_HOME/umactl, else ~/.local/state/umactl. -ENOENT when none of them is set. */
int uma_state_path(char *ret_path, size_t size, struct uma_error *err);
/* Make runs/<id> (mode 0700). */
int uma_run_folder_create(const char *id, struct uma_run_folder *ret_folder, struct uma_error *err);
/* Replace a file of the folder whole. `durable`: on the disk before the rename. */
int uma_run_folder_put(struct uma_run_folder *folder, const char *file, const char *text, size_t length, bool durable,
                       struct uma_error *err);
int uma_run_folder_event(struct uma_run_folder *folder, const struct uma_event *event);
void uma_run_folder_close(struct uma_run_folder *folder);
