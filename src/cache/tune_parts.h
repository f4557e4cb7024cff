/* SPDX-License-Identifier: MIT */
/* tune_parts.h - what setting and taking back share: the record under its lock, with signals that wait, and results. */
#pragma once

#include "cache/tune.h"
#include "record/tuning_record.h"

#include <signal.h>

struct uma_tune_run {
    const struct uma_tune_place *place;
    struct uma_arena *arena;
    struct uma_tuning_store store;
    struct uma_tuning_record *record;
    struct uma_tune_results results;
    sigset_t signals; /* as they were */
    bool holds;       /* signals wait */
};
#define UMA_TUNE_RUN(place_, arena_)                                                                                                       \
    (struct uma_tune_run) {                                                                                                                \
        .place = (place_), .arena = (arena_), .store = {.dir_fd = -1, .lock_fd = -1 }                                                      \
    }

/* A setting as the kernel shows it. */
struct uma_tune_reading {
    char own[UMA_TUNABLE_VALUE_MAX], counterpart[UMA_TUNABLE_VALUE_MAX]; /* "": none */
};

/* Open the state folder, take the lock, hold the signals, read the record. 1: there is one of this or another boot, 0: none. */
int uma_tune_begin(struct uma_tune_run *run, bool create, struct uma_error *err);
/* Let the lock go, then the signals that waited. */
void uma_tune_end(struct uma_tune_run *run);
/* Settings of an earlier boot are gone with it. Unknown on either side: taken for this boot, for then undo still looks at each value. */
bool uma_tune_other_boot(const struct uma_tune_run *run);
/* Both faces. */
int uma_tune_read(const struct uma_tune_run *run, const char *path, struct uma_tune_reading *ret_reading, struct uma_error *err);
bool uma_tune_same(const struct uma_tune_reading *a, const struct uma_tune_reading *b);

/* Copies into the arena. */
const char *uma_tune_keep(struct uma_tune_run *run, const char *s);
struct uma_tune_value uma_tune_value(struct uma_tune_run *run, const struct uma_tune_reading *reading);
struct uma_tune_result *uma_tune_result_add(struct uma_tune_run *run, const char *id, const char *path);
void uma_tune_result_fail(struct uma_tune_run *run, struct uma_tune_result *result, const char *why);
bool uma_tune_is_right(int r); /* is it a right that is missing? */
