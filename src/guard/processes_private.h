/* SPDX-License-Identifier: MIT */
/* processes_private.h - what the table of processes keeps beside its rows, shared by processes.c, process_row.c, process_gpu.c and process_trees.c and by nobody else. */
#pragma once

#include "guard/processes.h"

enum {
    UMA_GUARD_SLOTS = 2 * UMA_GUARD_PROCESS_MAX, /* of the index: half empty, so that a search ends soon */
    UMA_GUARD_FIRST = 128,                       /* the largest, that are looked at before all others */
    UMA_GUARD_TEXT = 16384,                      /* status of one that is in a thousand groups */
};

/* What was found out about a process; a row's `known`. */
enum {
    ROW_SEEN = 1u << 0,    /* looked at for this table */
    ROW_NEW = 1u << 1,     /* for the first time */
    ROW_LISTED = 1u << 2,  /* in the GPU's answer */
    ROW_KERNEL = 1u << 3,  /* a kernel thread */
    ROW_SITS = 1u << 4,    /* a shell that somebody sits at */
    ROW_UMACTL = 1u << 5,  /* of that name */
    ROW_MARKED = 1u << 6,  /* and it wants a warning (warn_marker.h) */
    ROW_STATED = 1u << 7,  /* status was understood */
    ROW_KEPT = 1u << 18,   /* its files stay open: the largest, so that reading them takes no memory when there is none */
    ROW_QUIET = 1u << 19,  /* small, and it did not move between the last two looks */
    ROW_GPU = 1u << 20,    /* the driver speaks of it: it keeps its place */
    ROW_DEVICE = 1u << 21, /* it has a GPU's device open, or had */
    ROW_FRESH = 1u << 16,  /* read for this table */
    ROW_AGAIN = 1u << 17,  /* the policy's patterns changed: what is known of its name and units is of others */
    ROW_FLAGS_AT = 8,      /* by its name: PROTECTED, NO_BRAKE, AVOID, PREFER, in the bits that they have there */
    ROW_UNIT_FLAGS_AT = 12 /* the same by its control group */
};
#define ROW_FLAGS ((uint32_t)(UMA_GUARD_PROTECTED | UMA_GUARD_NO_BRAKE | UMA_GUARD_AVOID | UMA_GUARD_PREFER))
_Static_assert((ROW_FLAGS) == 0xf, "four bits of them");

/* 72 bytes, beside the row of the table with the same number. */
struct uma_guard_row {
    int64_t base_time[2];  /* two tables that it was in, the older first: growth is taken from the older */
    uint64_t base_held[2]; /* anon + shmem + swap in them */
    int32_t parent;        /* as stat has it */
    uint32_t resident;     /* pages, now */
    uint32_t stated;       /* pages, when status was read */
    uint32_t checked;      /* seconds: when its control group was looked at, and a kernel thread at all */
    uint32_t read;         /* milliseconds: when stat was */
    uint32_t known;        /* ROW_* */
    uint32_t faults;       /* when status was read; only whether it differs */
    int32_t fd[2];         /* stat and status of one that is kept open, -1 */
    uint32_t devices;      /* milliseconds: when that was looked for; 0: never */
};

struct uma_guard_processes_before {
    int32_t self;
    int folder; /* where the marks of jobs that want a warning are, -1: none */
    uint32_t page_size;
    uint32_t rest;                     /* where the rest was left off when time was over */
    uint32_t n_checks;                 /* control groups that were looked at again for this table */
    bool gpu_whole;                    /* the answer before had room for all */
    int64_t tried;                     /* when opening /proc was last tried */
    int64_t listing;                   /* where the listing was left off */
    int64_t gpu_answer;                /* the last that was seen */
    int64_t gpu_age_ns;                /* of it, at this table */
    uint64_t patterns;                 /* which ones the flags are of */
    uint64_t least;                    /* bytes: a new process below that finds no place in a full table */
    uint16_t index[UMA_GUARD_SLOTS];   /* number of the row + 1, by pid; 0: none */
    int16_t up[UMA_GUARD_PROCESS_MAX]; /* row of the parent, -1: none */
    uint16_t first[UMA_GUARD_FIRST];
    uint32_t n_first;
    struct uma_guard_row rows[UMA_GUARD_PROCESS_MAX];
    char text[UMA_GUARD_TEXT];
    _Alignas(8) char names[4096]; /* of the listing: about 170 processes at a time */
};

/* ---- processes.c: the rows ---- */
int32_t uma_guard_row_find(const struct uma_guard_processes *processes, int32_t pid); /* -1: none */

/* ---- process_row.c: one process ---- */
enum uma_guard_row_result { ROW_READ, ROW_GONE, ROW_FAILED /* it stays as it was */ };
/* Looks at the process of row `i`, which has its pid; a row that has become another process's begins anew. */
enum uma_guard_row_result uma_guard_row_read(struct uma_guard_processes *processes, const struct uma_guard_policy *policy, size_t i,
                                             int64_t now);
/* Closes what is open of it. */
void uma_guard_row_close(struct uma_guard_row *row);
/* Resident bytes of a process that has no row, and whether it is one at all. */
bool uma_guard_row_peek(struct uma_guard_processes *processes, int32_t pid, uint64_t *ret_bytes, int32_t *ret_parent);

/* ---- process_devices.c: UMA_GUARD_HOLDS_GPU ---- */
void uma_guard_rows_devices(struct uma_guard_processes *processes, int64_t now, int64_t deadline);

/* ---- process_gpu.c: what the driver says of each, and growth ---- */
void uma_guard_rows_gpu(struct uma_guard_processes *processes, const struct uma_guard_gpu *gpu, int64_t now);
void uma_guard_rows_grow(struct uma_guard_processes *processes, int64_t now);

/* ---- process_trees.c: protection and trees ---- */
void uma_guard_rows_flags(struct uma_guard_processes *processes);
void uma_guard_rows_trees(struct uma_guard_processes *processes);
