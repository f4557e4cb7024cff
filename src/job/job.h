/* SPDX-License-Identifier: MIT */
/*
 * job.h - one job from gate to record: gate -> launch -> supervise -> finish. umactl never decides when the job ends; it forwards, watches and writes down.
 */
#pragma once

#include "job/claims.h"
#include "job/job_environment.h"
#include "job/job_limit.h"
#include "job/launch.h"
#include "job/load_window.h"
#include "job/valve.h"
#include "job/warn.h"
#include "job/watch.h"
#include "record/log_sync.h"

#include <stdbool.h>
#include <sys/resource.h>

enum {
    UMA_JOB_FAILED = 125, /* umactl itself failed (env(1), timeout(1)) */
    UMA_JOB_REFUSED = 75, /* EX_TEMPFAIL of sysexits.h: not now */
};

struct uma_job_options {
    char **argv; /* the job's, NULL-terminated */
    int argc;
    struct uma_u64 need;
    const char *name; /* NULL: from the command */
    bool has_wait;
    double wait; /* seconds */
    const char *csv;
    double interval;
    bool plain, quiet, die_with_umactl, end_left_behind;
    uint64_t load_window, keep_free; /* bytes, 0: not asked for */
    enum uma_window_helper_when window_helper;
    struct uma_job_valve_options valve;
    struct uma_job_warn_options warn;
    struct uma_observe_options observe;
};

/* A file of /dev/shm, for what a run leaves there. */
struct uma_shm_list {
    size_t n;
    bool cut; /* these are not all, or it could not be read */
    struct uma_shm_file {
        char name[256];
        uint64_t inode, bytes;
    } * list;
};

struct uma_job {
    const struct uma_job_options *options;
    struct uma_signals signals;
    struct uma_terminal terminal;
    struct uma_cgroup_scope scope;
    struct uma_launched launched;
    struct uma_run run;
    struct uma_run_folder folder;
    struct uma_csv csv, samples;
    struct uma_watch watch;
    struct uma_observer *observer;
    struct uma_snapshot before;
    struct uma_account account;
    struct uma_shm_list shm_before;
    double sample_seconds;
    struct uma_log_sync *sync;
    struct uma_load_window *load;
    struct uma_job_valve *valve;
    struct uma_job_limit *limit;
    struct uma_job_environment environment;
    struct uma_claims claims; /* of the running jobs, as they were before the machine was read */
    struct uma_claim *claim;  /* this job's; NULL: none */
    bool passed_over_told;
    struct uma_guard_warn_made warn_made;
    /* how the job ended */
    bool ended;
    int wait_status;
    struct rusage usage;
    unsigned forwarded_mask_low; /* signals 1..31 that umactl passed on */
    bool terminal_wanted;        /* the job had it once: it gets it back after a stop */
};

/* Runs everything; the exit status of umactl. */
int uma_job_run(const struct uma_job_options *options);

/* gate_wait.c: 0 when the job may start, else the exit status. Messages are on stderr. Fills job->before and job->account. */
int uma_job_gate(struct uma_job *job);
struct uma_gate;
/* gate_claim.c: what running jobs have reserved, read before the machine; what of it others have still to take; the account with so much reserved. */
void uma_job_claims_read(struct uma_job *job);
uint64_t uma_job_reserved_by_others(const struct uma_job *job);
int uma_job_account_build(struct uma_job *job, uint64_t reserved, struct uma_error *err);
/* May it start? If so, what it needs is claimed for it in the same step, or it was told why that cannot be. */
void uma_job_gate_decide(struct uma_job *job, struct uma_gate *ret_gate);
/* The claim's number into the job's environment; what the job has taken of it into the register. */
void uma_job_claim_tell(struct uma_job *job);
void uma_job_claim_update(struct uma_job *job);
/* supervise.c: until the job has ended. */
int uma_job_supervise(struct uma_job *job, struct uma_error *err);
/* Reap what came to the subreaper, but never the GPU probe, which is its observer's. */
void uma_job_reap_orphans(const struct uma_job *job);
/* finish.c */
void uma_job_finish(struct uma_job *job);
void uma_shm_list_read(struct uma_shm_list *ret_list);
/* umactl's exit status for a wait(2) status: the job's own, or 128+n. */
int uma_job_exit_status(int wait_status);
/* Why it ended, with the evidence there is and no more. Pure. */
void uma_job_cause(int wait_status, bool sent_by_umactl, struct uma_u64 group_oom_kills, uint64_t machine_oom_kills, char *ret_cause,
                   size_t size);
