/* SPDX-License-Identifier: MIT */
#include "job/detect.h"

#include "base/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    QUIET_ANSWERS = 3, /* a throttle that pauses for less than this is one event: counters are updated in steps */
    STUCK_SECONDS = 5, /* a clock that is low for a moment after an idle phase is no fault */
    PRESSED_SAMPLES = 2,
    CALM_SECONDS = 10,
};

/*
 * Power stuck low (a USB-PD fault) shows no throttle reason: P0, 94-96 % utilisation, 480-890 MHz, 5-30 W, mask clear, on several GB10
 * (hasso5703/dgx-spark-qwen38#8 and others). An SM clock alone proves nothing: it must be low *under load*.
 */
#define STUCK_UTILIZATION 0.90
#define STUCK_HERTZ 1000e6
#define STUCK_WATTS 35.0
#define STUCK_EXPLAINED                                                                                                                    \
    (UMA_REASON_SW_POWER_CAP | UMA_REASON_HW_SLOWDOWN | UMA_REASON_SW_THERMAL | UMA_REASON_HW_THERMAL | UMA_REASON_HW_POWER_BRAKE)

/* Share of the time that some (all) tasks waited for memory. A working machine without memory shortage has 0. */
#define PRESSURE_SOME 0.10
#define PRESSURE_FULL 0.05

/* GPU memory of another process that is worth the word contention: a CUDA context alone takes 0.1-0.25 GiB. */
#define CONTENTION_BYTES (512 * UMA_MIB)

static void emit(struct uma_detector *d, const char *event, const char *detail) {
    d->emit(d->userdata, event, detail);
}

static void throttle_close(struct uma_detector *d, enum uma_throttle t) {
    char detail[128];
    (void)snprintf(detail, sizeof(detail), "%s: %.3f s, at most %.0f %% of the time", uma_throttle_name(t), d->throttle[t].seconds,
                   100 * d->throttle[t].peak_duty);
    emit(d, "throttle_end", detail);
    d->throttle[t].open = false;
}

/* One counter of one new answer. It counts since the driver was loaded; a fall is a reload and says nothing about this interval. */
static void throttle_one(struct uma_detector *d, const struct uma_detect_input *in, enum uma_throttle t, struct uma_sample *sample) {
    struct uma_f64 now = in->gpu->throttle_seconds[t], last = d->throttle[t].last;
    char detail[128];
    if (now.validity != UMA_KNOWN)
        return;
    int64_t since = d->throttle[t].last_ns;
    d->throttle[t].last = now;
    d->throttle[t].last_ns = in->gpu->time_ns;
    if (last.validity != UMA_KNOWN)
        return;
    if (now.value < last.value) {
        (void)snprintf(detail, sizeof(detail), "%s fell from %.3f s to %.3f s", uma_throttle_name(t), last.value, now.value);
        emit(d, "counter_reset", detail);
        return;
    }
    double delta = now.value - last.value, seconds = (double)(in->gpu->time_ns - since) / 1e9;
    uma_sample_set(sample, uma_throttle_columns[t], delta);
    if (delta > 0) {
        double duty = seconds > 0 ? fmin(1, delta / seconds) : 1;
        if (!d->throttle[t].open) {
            d->throttle[t].open = true;
            d->throttle[t].seconds = d->throttle[t].peak_duty = 0;
            (void)snprintf(detail, sizeof(detail), "%s: %.0f %% of the last %.1f s", uma_throttle_name(t), 100 * duty, seconds);
            emit(d, "throttle_begin", detail);
        }
        d->throttle[t].seconds += delta;
        d->throttle[t].peak_duty = fmax(d->throttle[t].peak_duty, duty);
        d->throttle[t].quiet = 0;
    } else if (d->throttle[t].open && ++d->throttle[t].quiet >= QUIET_ANSWERS) {
        throttle_close(d, t);
    }
}

static void power_stuck(struct uma_detector *d, const struct uma_detect_input *in) {
    const struct uma_gpu_reading *g = in->gpu;
    bool known = g->utilization.validity == UMA_KNOWN && g->sm_hertz.validity == UMA_KNOWN && g->watts.validity == UMA_KNOWN;
    bool low =
        known && g->utilization.value >= STUCK_UTILIZATION && (double)g->sm_hertz.value < STUCK_HERTZ && g->watts.value < STUCK_WATTS;
    if (low && g->reasons.validity == UMA_KNOWN && (g->reasons.value & STUCK_EXPLAINED))
        low = false;
    if (!low) {
        d->stuck_for = 0;
        d->stuck = false;
        return;
    }
    if (d->stuck_for++ == 0)
        d->stuck_since_ns = in->monotonic_ns;
    if (!d->stuck && in->monotonic_ns - d->stuck_since_ns >= STUCK_SECONDS * UMA_SECOND_NS) {
        char detail[160];
        (void)snprintf(detail, sizeof(detail), "%.0f %% busy at %" PRIu64 " MHz and %.1f W with no throttle reason",
                       100 * g->utilization.value, g->sm_hertz.value / 1000000, g->watts.value);
        emit(d, "power_stuck", detail);
        d->stuck = true;
    }
}

static void contention(struct uma_detector *d, const struct uma_detect_input *in) {
    char detail[256];
    size_t length = 0;
    unsigned others = 0;
    if (!uma_usable(in->gpu->users_validity))
        return;
    for (unsigned i = 0; i < in->gpu->n_users; i++) {
        const struct uma_gpu_user *user = &in->gpu->users[i];
        if (!user->compute || user->bytes.validity != UMA_KNOWN || user->bytes.value < CONTENTION_BYTES ||
            in->in_job(in->userdata, user->pid))
            continue;
        if (others++ < 3) {
            char name[64] = "";
            in->name_of(in->userdata, user->pid, name, sizeof(name));
            int n = snprintf(detail + length, sizeof(detail) - length, "%spid %d %s %.1f GiB", others > 1 ? ", " : "", (int)user->pid, name,
                             (double)user->bytes.value / (double)UMA_GIB);
            length = MIN_OF(length + (size_t)MAX_OF(n, 0), sizeof(detail) - 1);
        }
    }
    if (others) {
        d->alone_for = 0;
        if (!d->contention)
            emit(d, "contention_begin", detail);
        d->contention = true;
    } else if (d->contention && ++d->alone_for >= QUIET_ANSWERS) {
        emit(d, "contention_end", "no other process holds GPU memory worth mentioning");
        d->contention = false;
    }
}

static void probe_gap(struct uma_detector *d, const struct uma_detect_input *in) {
    const struct uma_gpu_reading *g = in->gpu;
    bool silent = g->hung || g->validity == UMA_STALE || g->validity == UMA_FAILED;
    char detail[256];
    if (silent && !d->gap) {
        d->gap = true;
        d->gap_since_ns = in->monotonic_ns;
        (void)snprintf(detail, sizeof(detail), "begin: %s", g->detail[0] ? g->detail : "no answer");
        emit(d, "gpu_probe_gap", detail);
    } else if (d->gap && g->validity == UMA_KNOWN) {
        d->gap = false;
        (void)snprintf(detail, sizeof(detail), "end: after %.1f s", (double)(in->monotonic_ns - d->gap_since_ns) / 1e9);
        emit(d, "gpu_probe_gap", detail);
    }
}

static void killed(struct uma_detector *d, struct uma_u64 now, struct uma_u64 *last, const char *whose) {
    char detail[128];
    if (now.validity != UMA_KNOWN)
        return;
    if (last->validity == UMA_KNOWN && now.value > last->value) {
        (void)snprintf(detail, sizeof(detail), "%" PRIu64 " killed by the kernel for lack of memory %s", now.value - last->value, whose);
        emit(d, "oom_kill", detail);
    }
    *last = now;
}

static double stalled(struct uma_f64 now, struct uma_f64 *last, double seconds) {
    double share = NAN;
    if (now.validity == UMA_KNOWN && last->validity == UMA_KNOWN && now.value >= last->value && seconds > 0)
        share = fmin(1, (now.value - last->value) / seconds);
    *last = now;
    return share;
}

static void pressure(struct uma_detector *d, const struct uma_detect_input *in, struct uma_sample *sample) {
    double seconds = d->last_ns ? (double)(in->monotonic_ns - d->last_ns) / 1e9 : 0;
    double some = stalled(in->some_seconds, &d->some_seconds, seconds), full = stalled(in->full_seconds, &d->full_seconds, seconds);
    if (!isnan(some))
        uma_sample_set(sample, UMA_COL_PRESSURE_SOME, some);
    if (!isnan(full))
        uma_sample_set(sample, UMA_COL_PRESSURE_FULL, full);
    if (isnan(some))
        return;
    if (some < PRESSURE_SOME && !(full >= PRESSURE_FULL)) {
        d->pressed_for = 0;
        if (d->pressed && in->monotonic_ns - d->calm_since_ns >= CALM_SECONDS * UMA_SECOND_NS)
            d->pressed = false;
        return;
    }
    d->calm_since_ns = in->monotonic_ns;
    if (++d->pressed_for >= PRESSED_SAMPLES && !d->pressed) {
        char detail[160];
        d->pressed = true;
        int n = snprintf(detail, sizeof(detail), "waiting for memory %.0f %% of the time (all tasks: %.0f %%)", 100 * some,
                         isnan(full) ? 0 : 100 * full);
        if (in->available.validity == UMA_KNOWN && n > 0 && (size_t)n < sizeof(detail))
            (void)snprintf(detail + n, sizeof(detail) - (size_t)n, ", %.1f GiB available", (double)in->available.value / (double)UMA_GIB);
        emit(d, "pressure", detail);
    }
}

void uma_detect(struct uma_detector *d, const struct uma_detect_input *in, struct uma_sample *sample) {
    /* Kernel counters are differences per sample; the GPU's are differences per answer: an answer seen twice must not look like a quiet interval. */
    pressure(d, in, sample);
    killed(d, in->job_oom_kills, &d->job_oom_kills, "in the job's own group");
    killed(d, in->oom_kills, &d->oom_kills, "on this machine");
    probe_gap(d, in);
    if (in->gpu->answers != d->answers) {
        for (int t = 0; t < UMA_THROTTLE_MAX; t++)
            throttle_one(d, in, (enum uma_throttle)t, sample);
        power_stuck(d, in);
        contention(d, in);
        d->answers = in->gpu->answers;
    }
    d->last_ns = in->monotonic_ns;
}

void uma_detect_end(struct uma_detector *d, int64_t monotonic_ns) {
    char detail[64];
    for (int t = 0; t < UMA_THROTTLE_MAX; t++)
        if (d->throttle[t].open)
            throttle_close(d, (enum uma_throttle)t);
    if (d->contention)
        emit(d, "contention_end", "the job ended");
    if (d->gap) {
        (void)snprintf(detail, sizeof(detail), "end: the job ended after %.1f s without an answer",
                       (double)(monotonic_ns - d->gap_since_ns) / 1e9);
        emit(d, "gpu_probe_gap", detail);
    }
}
