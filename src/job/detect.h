/* SPDX-License-Identifier: MIT */
/*
 * detect.h - from readings to events, by the vocabulary of docs/csv.md. Pure: state and reading in, events out, so that a recorded history can be replayed.
 */
#pragma once

#include "job/gpu_watch.h"
#include "record/sample.h"
#include "uma.h"

struct uma_detect_input {
    int64_t monotonic_ns;
    const struct uma_gpu_reading *gpu;
    /* is this process of the job? */
    bool (*in_job)(void *userdata, int32_t pid);
    /* its name into buffer, or "" */
    void (*name_of)(void *userdata, int32_t pid, char *buffer, size_t size);
    void *userdata;                            /* of both */
    struct uma_u64 oom_kills, job_oom_kills;   /* of the machine since boot, of the job's group since its start */
    struct uma_f64 some_seconds, full_seconds; /* memory PSI totals */
    struct uma_u64 available, total;
};

struct uma_detector {
    void (*emit)(void *userdata, const char *event, const char *detail);
    void *userdata;

    int64_t last_ns;
    uint64_t answers;
    struct {
        struct uma_f64 last;
        bool open;
        unsigned quiet; /* answers without throttling since */
        double seconds, peak_duty;
        int64_t last_ns;
    } throttle[UMA_THROTTLE_MAX];
    unsigned stuck_for;
    int64_t stuck_since_ns;
    bool stuck;
    int64_t gap_since_ns;
    bool gap;
    bool contention;
    unsigned alone_for;
    struct uma_u64 oom_kills, job_oom_kills;
    struct uma_f64 some_seconds, full_seconds;
    unsigned pressed_for;
    int64_t calm_since_ns;
    bool pressed;
};

/* Also fills the throttle and pressure columns of the sample, which are differences of counters. */
void uma_detect(struct uma_detector *detector, const struct uma_detect_input *input, struct uma_sample *sample);
/* Close what is open at the end of the job. */
void uma_detect_end(struct uma_detector *detector, int64_t monotonic_ns);
