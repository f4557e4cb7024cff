/* SPDX-License-Identifier: MIT */
/*
 * valve.h - `umactl run --valve`: the account that the job's processes share (src/valve/account.h) is made before the job and held open while it runs; the library and the account's place are put into the job's
 * environment; what the valve did is told as events of the run. This is also the node's helper: when the valve finds free memory short, a thread here evicts model files that nobody uses. Nothing
 * that fails here keeps the job from running.
 */
#pragma once

#include "base/error.h"
#include "job/job_environment.h"
#include "job/watch.h"
#include "valve/account.h"
#include "valve/settings.h"

#include <stdbool.h>
#include <stdint.h>

enum uma_job_valve_when {
    UMA_JOB_VALVE_AUTO, /* where an NVIDIA driver is on this machine: elsewhere there is nothing to stand before */
    UMA_JOB_VALVE_ALWAYS,
    UMA_JOB_VALVE_NEVER,
};

struct uma_job_valve_options {
    enum uma_job_valve_when when;
    uint64_t limit; /* bytes that the job may have; 0: no limit */
    bool has_floor;
    uint64_t floor;     /* bytes of MemAvailable that stay */
    const char *report; /* "auto", "pool", "raw"; NULL: auto */
};

struct uma_job_valve;

/* Does a job on the machine of this reading begin behind the valve? Pure. A machine that is read from a folder is not the one that the job runs on. */
bool uma_job_valve_wanted(const struct uma_job_valve_options *options, const struct uma_snapshot *before, bool from_folder);

/* Before the job and any thread, where it is wanted. NULL: it cannot be had (told). `total`: MemTotal, for the floor when none was named; 0: not known. */
struct uma_job_valve *uma_job_valve_prepare(const struct uma_job_valve_options *options, uint64_t total,
                                            struct uma_job_environment *environment);
/* The job runs. */
void uma_job_valve_start(struct uma_job_valve *valve);
/* At every sample: what the valve did since becomes events, at most one a second after the first few, and is counted in the record; processes that have died give back. */
void uma_job_valve_check(struct uma_job_valve *valve, struct uma_watch *watch);
/* What its processes have been given, without calls that are under way and without managed memory, which leaves the machine only as it is touched. NULL: not known. */
struct uma_u64 uma_job_valve_taken(const struct uma_job_valve *valve);
/* The job has ended (or never began: watch NULL). NULL is fine. */
struct uma_job_valve *uma_job_valve_stop(struct uma_job_valve *valve, struct uma_watch *watch);

/* What no other job has: 64 bits of chance, in hexadecimal digits. */
enum { UMA_JOB_VALVE_TOKEN = 17 };
int uma_job_valve_token(char ret_token[UMA_JOB_VALVE_TOKEN], struct uma_error *err);
/* What the environment variable of the valve says (valve/settings.h). Pure. */
void uma_job_valve_settings(const struct uma_job_valve_options *options, struct uma_text *text);
/* One event in words: "refused 8.0 GiB to pid 12: ...". Pure. */
void uma_job_valve_event_text(const struct uma_valve_event *event, struct uma_text *text);
/* A size that is not 0; -EINVAL. */
int uma_job_valve_limit_parse(const char *s, uint64_t *ret_limit, struct uma_error *err);
/* "auto", "pool", "raw"; -EINVAL. */
int uma_job_valve_report_parse(const char *s, const char **ret_report, struct uma_error *err);
