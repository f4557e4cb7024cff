/* SPDX-License-Identifier: MIT */
/*
 * gpu_probe_protocol.h - what umactl-probe and its client say to each other over a socketpair (SOCK_STREAM). Both are built together and
 * run on one machine, so numbers are in its byte order; the version guards against a stray older program. The client asks with one header;
 * the probe answers with a header, a struct probe_answer, then n_gpus struct probe_gpu, then the processes of all GPUs in that order. Every
 * field has a fixed place and size and there is no padding, so that an answer can be checked by arithmetic alone before any of it is
 * believed. Numbers travel in NVML's own units; the client converts and refuses what physics does not allow.
 */
#pragma once

#include "uma.h"

#define PROBE_MAGIC 0x41504d55u /* "UMPA" */
enum { PROBE_VERSION = 1 };
enum { PROBE_ASK = 1, PROBE_ANSWER = 2, PROBE_LIMITS_ASK = 3, PROBE_LIMITS_ANSWER = 4 };
/* The descriptor on which the probe finds its end of the socketpair. */
enum { PROBE_FD = 3 };

struct probe_header {
    uint32_t magic;
    uint16_t version, type;
    uint32_t sequence; /* of the question; the answer repeats it */
    uint32_t length;   /* bytes that follow */
};

/* How far the probe came. */
enum { PROBE_READ = 0, PROBE_NO_LIBRARY, PROBE_NOT_NVML, PROBE_INIT_FAILED, PROBE_COUNT_FAILED, PROBE_NO_SYMBOLS };

struct probe_answer {
    uint32_t state;
    int32_t code;     /* NVML's status of what failed */
    char detail[256]; /* what went wrong, NUL-terminated */
    char driver[80];
    uint32_t n_gpus, n_processes; /* n_processes: of all GPUs together */
    int64_t finished_ns;          /* CLOCK_MONOTONIC when the reading was over: the answer may then wait long for the client */
};

struct probe_value {
    uint64_t bits;     /* unsigned, or signed in two's complement */
    uint32_t validity; /* enum uma_validity */
    uint32_t zero;
};

/* The numbers of one GPU, in NVML's units. */
enum probe_number {
    PROBE_MEMORY_TOTAL, /* bytes */
    PROBE_MEMORY_USED,
    PROBE_MEMORY_FREE,
    PROBE_CONTAINER_USED,
    PROBE_CONTAINER_LIMIT,
    PROBE_CELSIUS,      /* signed */
    PROBE_LIMIT_MARGIN, /* signed degrees */
    PROBE_POWER,        /* milliwatts, one second's average */
    PROBE_POWER_INSTANT,
    PROBE_POWER_LIMIT,
    PROBE_ENERGY,   /* millijoules */
    PROBE_SM_CLOCK, /* megahertz */
    PROBE_SM_CLOCK_MAX,
    PROBE_MEMORY_CLOCK,
    PROBE_UTILIZATION, /* percent */
    PROBE_MEMORY_UTILIZATION,
    PROBE_PSTATE,
    PROBE_REASONS,
    PROBE_THROTTLE,                    /* nanoseconds; UMA_THROTTLE_MAX of them, in that order */
    PROBE_NUMBERS = PROBE_THROTTLE + 5 /* UMA_THROTTLE_MAX */
};

struct probe_gpu {
    char name[96], uuid[96], pci[32];
    int32_t numa_node; /* -1: none */
    uint32_t unified;  /* enum uma_truth */
    struct probe_value numbers[PROBE_NUMBERS];
    uint32_t processes_validity, n_processes;
};

struct probe_process {
    int32_t pid;
    uint32_t compute; /* 0: graphics only */
    struct probe_value bytes;
};

/*
 * The other question, PROBE_LIMITS_ASK: what the driver holds a cgroup v2 folder to, or shall. The header is followed by one of these; the answer is a struct
 * probe_answer (n_processes 0) and n_gpus of struct probe_limits.
 */
enum { PROBE_LIMITS_GET = 0, PROBE_LIMITS_SET };
struct probe_limits_ask {
    uint32_t action, zero;
    uint64_t soft_most, hard; /* SET: a soft limit that is there is kept as far as this */
    char cgroup[4096];        /* full path of the folder, NUL-terminated */
};
struct probe_limits {
    int32_t status; /* NVML's, of the call that was asked for */
    uint32_t zero;
    uint64_t soft, hard, used; /* GET: as read; SET: as it was before (soft 0 and hard at most where that could not be read) */
};

_Static_assert(sizeof(struct probe_limits_ask) == 8 + 16 + 4096, "no padding");
_Static_assert(sizeof(struct probe_limits) == 32, "no padding");
_Static_assert(PROBE_NUMBERS == (int)PROBE_THROTTLE + (int)UMA_THROTTLE_MAX, "one number for each duration counter");
_Static_assert(sizeof(struct probe_header) == 16, "no padding");
_Static_assert(sizeof(struct probe_answer) == 8 + 256 + 80 + 8 + 8, "no padding");
_Static_assert(sizeof(struct probe_gpu) == 96 + 96 + 32 + 8 + PROBE_NUMBERS * 16 + 8, "no padding");
_Static_assert(sizeof(struct probe_process) == 24, "no padding");

/* The longest answer that is believed: about 6 MiB. */
#define PROBE_LENGTH_MAX                                                                                                                   \
    (sizeof(struct probe_answer) + UMA_GPUS_MAX * (sizeof(struct probe_gpu) + UMA_GPU_PROCESSES_MAX * sizeof(struct probe_process)))
