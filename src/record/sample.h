/* SPDX-License-Identifier: MIT */
/*
 * sample.h - one reading of a job and its machine as a flat row of values, and the row that several of them make. The table below is the
 * one place where a column's name, unit and rule stand; the CSV, the run record and their tests read it. Pure.
 */
#pragma once

#include "base/text.h"
#include "uma.h"

#include <stdint.h>

/* How a value is written. PLAIN is the bare number in base units; the other form follows what nvidia-smi --format=csv prints. */
enum uma_unit {
    UMA_UNIT_CELSIUS, /* "65"                   65 */
    UMA_UNIT_WATTS,   /* "45.12 W"              45.12 */
    UMA_UNIT_HERTZ,   /* "2223 MHz"             2223000000 */
    UMA_UNIT_RATIO,   /* "96 %"                 0.96 */
    UMA_UNIT_PSTATE,  /* "P0"                   0 */
    UMA_UNIT_MASK,    /* "0x0000000000000004"   4 */
    UMA_UNIT_SECONDS, /* "0.250 s"              0.25 */
    UMA_UNIT_BYTES,   /* "1204 MiB"             1262485504 */
    UMA_UNIT_COUNT,   /* "12"                   12 */
};

/* What a row says of the samples that fell into it. */
enum uma_row_rule { UMA_ROW_LAST, UMA_ROW_MIN, UMA_ROW_MAX, UMA_ROW_SUM };

/*
 * X(id, name, unit, rule). The first two after `timestamp` are nvidia-smi's own query names, in the order that temperature logs of this
 * field have them (nvidia-smi --query-gpu=timestamp,temperature.gpu,power.draw); so are the others that nvidia-smi has. `job.*` is the
 * process tree, `pool.*` the machine's memory. New columns are added at the end: existing files keep their meaning.
 */
#define UMA_COLUMNS(X)                                                                                                                     \
    X(GPU_CELSIUS, "temperature.gpu", CELSIUS, LAST)                                                                                       \
    X(GPU_WATTS, "power.draw", WATTS, LAST)                                                                                                \
    X(GPU_CELSIUS_MAX, "temperature.gpu.max", CELSIUS, MAX)                                                                                \
    X(GPU_MARGIN, "temperature.gpu.tlimit", CELSIUS, MIN)                                                                                  \
    X(BOARD_CELSIUS, "temperature.board", CELSIUS, MAX)                                                                                    \
    X(GPU_WATTS_MIN, "power.draw.min", WATTS, MIN)                                                                                         \
    X(GPU_WATTS_MAX, "power.draw.max", WATTS, MAX)                                                                                         \
    X(SM_HERTZ, "clocks.sm", HERTZ, LAST)                                                                                                  \
    X(UTILIZATION, "utilization.gpu", RATIO, LAST)                                                                                         \
    X(PSTATE, "pstate", PSTATE, LAST)                                                                                                      \
    X(REASONS, "clocks_event_reasons.active", MASK, LAST)                                                                                  \
    X(THROTTLE_SW_POWER_CAP, "throttle.sw_power_cap", SECONDS, SUM)                                                                        \
    X(THROTTLE_SYNC_BOOST, "throttle.sync_boost", SECONDS, SUM)                                                                            \
    X(THROTTLE_SW_THERMAL, "throttle.sw_thermal", SECONDS, SUM)                                                                            \
    X(THROTTLE_HW_THERMAL, "throttle.hw_thermal", SECONDS, SUM)                                                                            \
    X(THROTTLE_HW_POWER_BRAKE, "throttle.hw_power_brake", SECONDS, SUM)                                                                    \
    X(GPU_AGE, "gpu.age", SECONDS, LAST)                                                                                                   \
    X(JOB_MEMORY, "job.memory", BYTES, LAST)                                                                                               \
    X(JOB_MEMORY_MAX, "job.memory.max", BYTES, MAX)                                                                                        \
    X(JOB_ANON, "job.anon", BYTES, LAST)                                                                                                   \
    X(JOB_SHMEM, "job.shmem", BYTES, LAST)                                                                                                 \
    X(JOB_SWAP, "job.swap", BYTES, LAST)                                                                                                   \
    X(JOB_RSS, "job.rss", BYTES, LAST)                                                                                                     \
    X(JOB_CGROUP, "job.cgroup", BYTES, LAST)                                                                                               \
    X(JOB_GPU, "job.gpu", BYTES, LAST)                                                                                                     \
    X(JOB_PROCESSES, "job.processes", COUNT, LAST)                                                                                         \
    X(JOB_CPU, "job.cpu", SECONDS, SUM)                                                                                                    \
    X(POOL_FREE, "pool.free", BYTES, LAST)                                                                                                 \
    X(POOL_AVAILABLE, "pool.available", BYTES, LAST)                                                                                       \
    X(POOL_AVAILABLE_MIN, "pool.available.min", BYTES, MIN)                                                                                \
    X(POOL_BUDGET, "pool.budget", BYTES, LAST)                                                                                             \
    X(POOL_BUDGET_MIN, "pool.budget.min", BYTES, MIN)                                                                                      \
    X(POOL_SWAP_USED, "pool.swap_used", BYTES, LAST)                                                                                       \
    X(POOL_MAJOR_FAULTS, "pool.major_faults", COUNT, SUM)                                                                                  \
    X(PRESSURE_SOME, "pressure.memory.some", RATIO, MAX)                                                                                   \
    X(PRESSURE_FULL, "pressure.memory.full", RATIO, MAX)

enum uma_column {
#define UMA_X(id, name, unit, rule) UMA_COL_##id,
    UMA_COLUMNS(UMA_X)
#undef UMA_X
        UMA_COLUMN_COUNT
};

struct uma_column_info {
    const char *name;
    enum uma_unit unit;
    enum uma_row_rule rule;
};
extern const struct uma_column_info uma_columns[UMA_COLUMN_COUNT];
/* The column of each duration counter. */
extern const enum uma_column uma_throttle_columns[UMA_THROTTLE_MAX];

/* One sample, or one row. A value that is not UMA_KNOWN is unknown: what is stale is not this sample's. */
struct uma_sample {
    int64_t time_ns; /* CLOCK_REALTIME */
    struct uma_f64 value[UMA_COLUMN_COUNT];
};

static inline void uma_sample_set(struct uma_sample *sample, enum uma_column column, double value) {
    sample->value[column] = (struct uma_f64){ value, UMA_KNOWN };
}
static inline void uma_sample_set_u64(struct uma_sample *sample, enum uma_column column, struct uma_u64 value) {
    if (value.validity == UMA_KNOWN)
        uma_sample_set(sample, column, (double)value.value);
}
static inline void uma_sample_set_f64(struct uma_sample *sample, enum uma_column column, struct uma_f64 value) {
    if (value.validity == UMA_KNOWN)
        uma_sample_set(sample, column, value.value);
}

/* Fold a sample into a row that was zeroed before its first one. */
void uma_row_add(struct uma_sample *row, const struct uma_sample *sample);

/* Append one value; unknown is "[N/A]", or nothing when plain. Never depends on the locale. */
void uma_column_format(struct uma_text *text, enum uma_column column, struct uma_f64 value, bool plain);
