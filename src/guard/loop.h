/* SPDX-License-Identifier: MIT */
/*
 * loop.h - the process around the decision: it looks, decides, writes down what it decided, does it, writes down what came of it, tells the helper, and sleeps for as long as the decision says. One thread; two others only wait on a disk
 * and on process_mrelease(2) for it. Nothing is allocated, no program started and no file opened that is not needed for the one act, once it has started.
 */
#pragma once

#include "guard/act.h"
#include "guard/control.h"
#include "guard/decide.h"
#include "guard/declared.h"
#include "guard/dry_run.h"
#include "guard/gpu_file.h"
#include "guard/journal.h"
#include "guard/last_resort.h"
#include "guard/link.h"
#include "guard/marks.h"
#include "guard/manager.h"
#include "guard/observe.h"
#include "guard/options.h"
#include "guard/policy.h"
#include "guard/recording.h"
#include "guard/say.h"
#include "guard/state_file.h"
#include "guard/trail.h"
#include "guard/watch.h"

/* What came of the victim, until its memory is back. */
struct uma_guard_release {
    int32_t pid; /* 0: nobody */
    bool gone;
    int64_t since, gone_at;
    uint64_t bytes, headroom; /* what it held; headroom when it was told to end */
    char name[UMA_GUARD_NAME_MAX];
};

struct uma_guard_counts {
    uint64_t looks, tables, actions, failed_looks, late;
};

struct uma_guard_loop {
    struct uma_guard_options options;
    struct uma_guard_policy policy, fresh; /* fresh: where a policy is read into */
    struct uma_guard_observer observer;
    struct uma_guard_reading reading;
    struct uma_guard_history history;
    struct uma_guard_processes processes;
    struct uma_guard_declared declared;
    struct uma_guard_gpu_reader gpu_reader;
    struct uma_guard_gpu gpu;
    char gpu_path[512];
    struct uma_guard_state state;
    struct uma_guard_state_file state_file;
    struct uma_guard_decision decision;
    struct uma_guard_dry_run would;
    struct uma_guard_actor actor;
    struct uma_guard_marks marks;
    struct uma_guard_trail *trail;
    struct uma_guard_trail_record record;
    struct uma_guard_recording *recording;
    struct uma_guard_link link;
    int journal; /* -1: there is none */
    struct uma_guard_manager manager;
    struct uma_guard_watch watch;
    struct uma_guard_last_resort resort;
    struct uma_guard_release release;
    struct uma_guard_counts counts;
    int64_t room_told; /* when a request for room was written down last; 0: never */
    int room_result;   /* what came of it */
    int64_t started, due, looked, checked_stopped, hinted, status_at, late_said;
    bool dry_run, ending, policy_broken, gpu_old;
    bool policy_missing;   /* broken at the start, and none was read since: the defaults hold, and nobody is ended */
    uint64_t within_start; /* of the process that --within names; 0: there was none, and nobody may be touched */
    int64_t failing_since; /* /proc/meminfo cannot be read; 0: it can */
};

/* Opens everything. 0; -errno, said. */
int uma_guard_loop_open(struct uma_guard_loop *loop, const struct uma_guard_options *options);
/* One look, and all that follows from it. When to look again, CLOCK_MONOTONIC. */
int64_t uma_guard_loop_look(struct uma_guard_loop *loop);
/* Until a signal ends it. The exit status. */
int uma_guard_loop_run(struct uma_guard_loop *loop);
void uma_guard_loop_close(struct uma_guard_loop *loop);

/* Reads the policy anew; a broken one leaves all as it was. -errno, said. */
int uma_guard_loop_reload(struct uma_guard_loop *loop);
/* Words to the trail and the log. */
void uma_guard_loop_note(struct uma_guard_loop *loop, enum uma_guard_level level, const char *text, int code);
void uma_guard_loop_keep_state(struct uma_guard_loop *loop);
/* A table for this moment, with the guard's own marks. -errno. */
int uma_guard_loop_take_table(struct uma_guard_loop *loop, int64_t now);
