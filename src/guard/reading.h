/* SPDX-License-Identifier: MIT */
/*
 * reading.h - what the guard knows at one moment: plain data without a pointer to anywhere, so that it can be kept in a ring, written to a file and replayed through the decision.
 * Every value says whether it is known; nothing is 0 because it could not be read. Sizes are bytes, times nanoseconds of CLOCK_MONOTONIC (`boot`: CLOCK_BOOTTIME where a suspend must
 * be told from time), counters are since boot and only their differences mean something. Not thread-safe: one owner fills it, others read copies.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UMA_GUARD_ORDERS = 11,        /* of the buddy allocator, 4 KiB to 4 MiB with 4 KiB pages (MAX_PAGE_ORDER, include/linux/mmzone.h) */
    UMA_GUARD_PROCESS_MAX = 4096, /* processes that are looked at; the largest are kept when there are more */
    UMA_GUARD_NAME_MAX = 16,      /* TASK_COMM_LEN */
    UMA_GUARD_CANDIDATES = 8,     /* of a decision, told with their numbers */
    UMA_GUARD_ACTIONS = 8,        /* of one decision */
    UMA_GUARD_ENVELOPES = 32,     /* declared jobs that are kept */
};

/* Which values of a reading are known. */
enum uma_guard_known {
    UMA_GUARD_KNOWS_MEMINFO = 1u << 0,  /* free, available, total, swap_*, anon, shmem, cache, dirty */
    UMA_GUARD_KNOWS_VMSTAT = 1u << 1,   /* the stall and swap counters */
    UMA_GUARD_KNOWS_PRESSURE = 1u << 2, /* psi_* */
    UMA_GUARD_KNOWS_BLOCKS = 1u << 3,   /* blocks[] */
    UMA_GUARD_KNOWS_LISTS = 1u << 4,    /* per_cpu */
    UMA_GUARD_KNOWS_REFUSALS = 1u << 5, /* driver_refusals */
    UMA_GUARD_KNOWS_GPU = 1u << 6,      /* gpu_bytes, gpu_age_ns */
};

struct uma_guard_reading {
    int64_t time; /* when /proc/meminfo was read */
    int64_t boot; /* the same moment on CLOCK_BOOTTIME: the difference of the two jumps where the machine slept */
    uint32_t known;
    uint32_t gap; /* 1: the one before is not its neighbour (a suspend, a stop of the guard, a failed read): no rate is taken across it */
    uint64_t total, free,
        available;    /* MemTotal, MemFree, MemAvailable (less CmaFree where that is more than CmaTotal: it is lost, account/ledger.c) */
    uint64_t per_cpu; /* pages in the lists of the processors (sum of `count:` of /proc/zoneinfo), which neither of the two counts */
    uint64_t anon, shmem, cache, dirty; /* AnonPages, Shmem, Buffers + Cached - Shmem, Dirty + Writeback */
    uint64_t swap_total, swap_free;
    uint64_t allocstall, compact_stall, compact_fail; /* vmstat: allocstall_* summed, compact_stall, compact_fail */
    uint64_t pgscan_direct, pgsteal_direct;           /* pages */
    uint64_t pswpin, pswpout, refault_file;           /* pages */
    uint64_t psi_some, psi_full;                      /* /proc/pressure/memory total=, in nanoseconds */
    uint64_t driver_refusals;                         /* NV_ERR_NO_MEMORY lines seen in the kernel's log: evidence, never a verdict */
    uint64_t gpu_bytes;                               /* of all processes, as the driver says */
    int64_t gpu_age_ns;                               /* of that answer */
    uint64_t blocks[UMA_GUARD_ORDERS];                /* free blocks by order, all zones */
};

/* What a process is to the guard. */
enum uma_guard_process_flag {
    UMA_GUARD_PROTECTED =
        1u
        << 0, /* never touched: init, kernel threads, sshd, login, the user's shell, the guard and its parents, protected units and names */
    UMA_GUARD_NO_BRAKE = 1u << 1, /* opted out of SIGSTOP: it must answer a heartbeat */
    UMA_GUARD_AVOID = 1u << 2,    /* a victim only when nobody else is left */
    UMA_GUARD_PREFER = 1u << 3,   /* a victim before others of its size */
    UMA_GUARD_STOPPED = 1u << 4,  /* state T now */
    UMA_GUARD_STOPPED_BY_US = 1u << 5,
    UMA_GUARD_EXITING = 1u << 6,  /* zombie, or killed and not gone */
    UMA_GUARD_DECLARED = 1u << 7, /* of a job that declared an envelope: `envelope` is its index */
    UMA_GUARD_WARNS = 1u << 8,    /* of a job that wants a warning (umactl run --warn) */
    UMA_GUARD_HOLDS_GPU =
        1u
        << 9, /* has a GPU's device open (/dev/nvidiactl, /dev/kfd, /dev/dri/renderD128, /dev/dma_heap/system): may take driver memory before the driver is asked */
};

/* One process. Those whose parent is in the table too form a tree with it. */
struct uma_guard_process {
    int32_t pid, parent; /* parent: the process number; 0: none that may be touched (it is protected, or gone) */
    int32_t tree;        /* index in the table of the topmost process that may be stopped or ended with this one; itself when it is that */
    int32_t envelope;    /* index in uma_guard_view.envelopes, -1: none */
    uint32_t uid, flags;
    uint64_t start; /* clock ticks since boot: with the pid, who it is */
    uint64_t anon, shmem, swap;
    uint64_t gpu;                    /* bytes on the GPU; 0 and not gpu_known: nobody says */
    int64_t grown;                   /* bytes that anon + shmem + swap + gpu grew by over `grown_ns`; negative: shrank */
    int64_t grown_ns;                /* 0: seen for the first time */
    int64_t gpu_grown, gpu_grown_ns; /* the same of gpu alone, between two answers of the driver */
    bool gpu_known;
    char name[UMA_GUARD_NAME_MAX]; /* hostile text */
};

/* What a job said of itself before it began (umactl run --need, or learned from its earlier runs). */
struct uma_guard_envelope {
    uint64_t id;        /* of the claim */
    int32_t pid;        /* of the job's umactl */
    uint32_t reserved_; /* 0 */
    uint64_t need;      /* bytes it said it would take at most */
    uint64_t taken;     /* bytes it has */
};

/* All that a decision looks at. The arrays belong to the caller. */
struct uma_guard_view {
    const struct uma_guard_reading *now;
    const struct uma_guard_process *processes; /* NULL or stale where nothing is urgent: a table is only taken near the floor */
    size_t n_processes;
    int64_t processes_time; /* when the table was taken; 0: there is none */
    const struct uma_guard_envelope *envelopes;
    size_t n_envelopes;
};
