/* SPDX-License-Identifier: MIT */
/* What tests of the GPU probe share: the fake library, its scenarios, and one reading through them. */
#pragma once

#include "base/units.h"
#include "observe/gpu.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct fixture {
    struct uma_root *root;
    struct uma_snapshot snapshot;
};

static inline int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    assert_int_equal(uma_root_open(NULL, NULL, &f->root, NULL), 0);
    assert_int_equal(uma_snapshot_init(&f->snapshot), 0);
    *state = f;
    return 0;
}

static inline int teardown(void **state) {
    struct fixture *f = *state;
    (void)uma_root_close(f->root);
    uma_snapshot_done(&f->snapshot);
    free(f);
    return 0;
}

static inline void use_scenario(const char *name) {
    char path[PATH_MAX];
    assert_non_null(getenv("UMA_SCENARIOS"));
    (void)snprintf(path, sizeof(path), "%s/%s.scenario", getenv("UMA_SCENARIOS"), name);
    assert_int_equal(setenv("UMA_FAKE_NVML", path, 1), 0);
}

static inline const char *library(const char *folder) {
    static char path[PATH_MAX];
    assert_non_null(getenv("UMA_FAKES"));
    (void)snprintf(path, sizeof(path), "%s/%slibnvidia-ml.so.1", getenv("UMA_FAKES"), folder);
    return path;
}

static inline double seconds_since(int64_t start) {
    return (double)(uma_monotonic_ns() - start) / 1e9;
}

static inline void pause_for(double seconds) {
    struct timespec t = { .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    while (nanosleep(&t, &t) < 0) {
    }
}

/* One reading in a reader of its own. A loaded machine under an emulator gets a generous deadline. */
static inline const struct uma_gpus *read_once(struct fixture *f, const char *nvml, double deadline) {
    const struct uma_observe_options options = { .nvml = nvml, .gpu_deadline = deadline };
    struct uma_gpu_reader *reader = uma_gpu_reader_new(f->root, &options);
    assert_non_null(reader);
    uma_snapshot_reset(&f->snapshot);
    uma_gpu_ask(reader);
    uma_gpu_collect(reader, &f->snapshot);
    (void)uma_gpu_reader_free(reader);
    return &f->snapshot.gpus;
}

static inline const struct uma_gpus *read_scenario(struct fixture *f, const char *name) {
    use_scenario(name);
    return read_once(f, library(""), 30);
}

#define assert_value(field, expected)                                                                                                      \
    do {                                                                                                                                   \
        assert_int_equal((field).validity, UMA_KNOWN);                                                                                     \
        if (!((field).value == (expected)))                                                                                                \
            fail_msg(#field " is %.17g", (double)(field).value);                                                                           \
    } while (0)
#define assert_unknown(field, why)                                                                                                         \
    do {                                                                                                                                   \
        assert_int_equal((field).validity, why);                                                                                           \
        assert_true((field).value == 0);                                                                                                   \
    } while (0)

static char scenario_path[PATH_MAX];

/* By rename, as the README asks: the probe must never read half a file. */
static inline void write_scenario(const char *text) {
    char next[PATH_MAX + 8];
    (void)snprintf(scenario_path, sizeof(scenario_path), "%s/test_gpu.%d.scenario", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
                   (int)getpid());
    (void)snprintf(next, sizeof(next), "%s.new", scenario_path);
    FILE *f = fopen(next, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(next, scenario_path), 0);
    assert_int_equal(setenv("UMA_FAKE_NVML", scenario_path, 1), 0);
}

static inline int remove_scenario(void **state) {
    (void)state;
    if (scenario_path[0])
        (void)unlink(scenario_path);
    return 0;
}
