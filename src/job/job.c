/* SPDX-License-Identifier: MIT */
#include "job/job.h"

#include "base/units.h"
#include "job/claim.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

/* Twice a second: memory has been seen to fall by 21 GiB in 1.5 s (NVIDIA/dgx-spark-playbooks#116), and a tick costs well under a millisecond. */
#define SAMPLE_SECONDS 0.5
#define GPU_SECONDS 1.0 /* NVML's power is a one-second average */

static int open_logs(struct uma_job *job) {
    const struct uma_job_options *o = job->options;
    struct uma_error err = { 0 };
    if (!o->csv)
        return 0;
    if (uma_csv_open(o->csv, o->plain, &job->csv, &err) < 0) {
        uma_job_tell("%s", err.text);
        return UMA_JOB_FAILED;
    }
    job->watch.csv = &job->csv;
    job->run.csv = o->csv;
    if (job->csv.narrowed)
        uma_job_tell("%s has a header with %u columns: rows are appended with these, and only these", o->csv, job->csv.layout.n);
    if (job->csv.restyled)
        uma_job_tell("%s has rows %s: rows are appended in that form", o->csv, o->plain ? "with units" : "of bare numbers");
    return 0;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Does --root name another machine than this? */
static bool is_folder(const char *root) {
    return root && strcmp(root, "/") != 0;
}

static void describe(struct uma_job *job, char *cwd, size_t size) {
    const struct uma_job_options *o = job->options;
    struct uma_run *run = &job->run;
    run->argc = o->argc;
    run->argv = o->argv;
    run->env = environ;
    uma_run_name_clean(o->name ? o->name : base_name(o->argv[0]), run->name);
    run->cwd = getcwd(cwd, size) ? cwd : NULL;
    run->umactl_pid = getpid();
    run->version = UMACTL_VERSION;
    run->sample_seconds = job->sample_seconds;
    run->root = is_folder(o->observe.root) ? o->observe.root : NULL;
}

/* What the snapshot before says of the machine; its strings live as long as job->before. */
static void describe_machine(struct uma_job *job) {
    const struct uma_platform *p = &job->before.platform;
    job->run.host = p->host;
    job->run.platform = p->source.validity == UMA_KNOWN ? uma_platform_text(p->name) : NULL;
    job->run.kernel = p->kernel;
    job->run.driver = p->driver ? p->driver : job->before.gpus.driver;
    job->run.boot_id = p->boot_id;
}

static uint64_t start_ticks_of(pid_t pid) {
    char path[64], text[1024];
    struct uma_tree_process process;
    uint64_t ticks;
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
    return n > 0 && uma_tree_stat_parse(text, (size_t)n, &process, &ticks) == 0 ? process.start_ticks : 0;
}

/* The record's folder with before.json. Without one the job runs all the same. */
static void open_record(struct uma_job *job) {
    struct uma_error err = { 0 };
    struct uma_csv samples;
    _cleanup_free_
    char *text = NULL;
    size_t length;
    char path[4200];
    job->run.state = UMA_RUN_RUNNING;
    job->run.start_ns = uma_now_ns();
    job->run.umactl_start_ticks = start_ticks_of(getpid());
    uma_run_id_format(job->run.start_ns, job->run.name, getpid(), job->run.id);
    int r = uma_run_folder_create(job->run.id, &job->folder, &err);
    if (r < 0) {
        uma_job_tell("%s; the job runs without a record", err.text);
        return;
    }
    uma_watch_save(&job->watch, false); /* before the job: whenever umactl is killed, what it was about to run can be read */
    (void)snprintf(path, sizeof(path), "%s/samples.csv", job->folder.path);
    if (uma_csv_open(path, true, &samples, &err) < 0) {
        uma_job_tell("%s; the job runs without it", err.text);
        job->run.unwritten |= UMA_RUN_FILE_SAMPLES;
    } else {
        job->samples = samples;
        job->watch.samples = &job->samples;
    }
    if (uma_snapshot_format(&job->before, &text, &length, &err) < 0 ||
        uma_run_folder_put(&job->folder, "before.json", text, length, false, &err) < 0) {
        uma_job_tell("%s; the job runs without it", err.text);
        job->run.unwritten |= UMA_RUN_FILE_BEFORE;
    }
}

/* Before the first thread, and before the job's environment is made. */
static void prepare_preloaded(struct uma_job *job) {
    const struct uma_job_options *o = job->options;
    struct uma_load_window_options how = {
        .window = o->load_window, .keep_free = o->keep_free, .helper = o->window_helper, .quiet = o->quiet
    };
    job->load = uma_load_window_prepare(&how, &job->environment, &job->run);
    struct uma_u64 total = job->before.meminfo.mem_total;
    if (uma_job_valve_wanted(&o->valve, &job->before, o->observe.root != NULL))
        job->valve = uma_job_valve_prepare(&o->valve, uma_usable(total.validity) ? total.value : 0, &job->environment);
    uma_job_claim_tell(job);
}

/*
 * The job's group, and beside it the one that the driver holds to the limit, where the driver does. A process is in one group of each hierarchy: where both are of cgroup v2, the limit's is the job's.
 */
static int make_groups(struct uma_job *job) {
    const struct uma_job_options *o = job->options;
    struct uma_job_limit_options how = { .limit = job->run.root ? 0 : o->valve.limit,
                                         .library = o->observe.nvml,
                                         .boot_id = job->run.boot_id };
    char why[320];
    uma_cgroup_scope_create(job->run.name, &job->scope);
    job->limit = uma_job_limit_begin(&how, why, sizeof(why));
    if (why[0])
        uma_job_tell("the driver does not hold the limit this time: %s%s", why, job->valve ? "; the valve does" : "");
    if (o->valve.limit && !job->valve && !job->limit) {
        uma_job_tell("--limit%s: nothing here holds it, the job is not started%s",
                     o->valve.when == UMA_JOB_VALVE_NEVER ? " with --no-valve" : "",
                     why[0] ? "" : " (umactl valve --probe, as root, shows whether the driver can)");
        (void)snprintf(job->run.cause, sizeof(job->run.cause), "not started: nothing holds its limit");
        (void)uma_cgroup_scope_remove(&job->scope);
        return -EOPNOTSUPP;
    }
    if (job->limit && job->scope.version != 1) {
        const struct uma_cgroup_scope *scope = uma_job_limit_scope(job->limit);
        (void)uma_cgroup_scope_remove(&job->scope);
        job->scope = *scope;
        job->scope.dir_fd = fcntl(scope->dir_fd, F_DUPFD_CLOEXEC, 0);
        job->scope.procs_fd = fcntl(scope->procs_fd, F_DUPFD_CLOEXEC, 0);
    }
    (void)snprintf(job->run.cgroup_note, sizeof(job->run.cgroup_note), "%s", job->scope.note);
    return 0;
}

/* The job did not begin. The limit first: where both are one group, removing it would leave nothing to take the limit from. */
static void drop_groups(struct uma_job *job) {
    (void)uma_job_limit_end(TAKE_PTR(job->limit));
    (void)uma_cgroup_scope_remove(&job->scope);
}

/* The process was made, and ended before it was the job's program. The exit status. */
static int tell_not_begun(struct uma_job *job, bool for_its_limit) {
    const char *why = strerror(job->launched.exec_errno);
    if (for_its_limit) {
        uma_job_tell("not started: it could not enter the group that the driver holds to its limit: %s", why);
        (void)snprintf(job->run.cause, sizeof(job->run.cause), "not started: nothing holds its limit");
    } else {
        uma_job_tell("%s: %s", job->options->argv[0], why);
        (void)snprintf(job->run.cause, sizeof(job->run.cause), "not executed: %s", why);
    }
    drop_groups(job);
    return for_its_limit ? UMA_JOB_FAILED : uma_exec_status(job->launched.exec_errno);
}

static int launch(struct uma_job *job) {
    struct uma_error err = { 0 };
    struct uma_launch how = { .argv = job->options->argv,
                              .signals = &job->signals,
                              .terminal = &job->terminal,
                              .scope = &job->scope,
                              .environment = job->environment.list,
                              .die_with_umactl = job->options->die_with_umactl };
    if (make_groups(job) < 0)
        return UMA_JOB_FAILED;
    how.limit_scope = job->limit ? uma_job_limit_scope(job->limit) : NULL;
    how.limit_needed = job->options->valve.limit && !job->valve;
    uma_terminal_open(&job->terminal);
    /* A descendant whose parent ends comes to umactl instead of init, and stays in the tree (prctl(2)). */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        uma_job_tell("no subreaper: processes that leave the job's tree are lost sight of");
    job->run.start_ns = uma_now_ns();
    if (uma_job_launch(&how, &job->launched, &err) < 0) {
        uma_job_tell("%s", err.text);
        (void)snprintf(job->run.cause, sizeof(job->run.cause), "not started: %.100s", err.text);
        drop_groups(job);
        return UMA_JOB_FAILED;
    }
    job->terminal_wanted = job->terminal.eager;
    if (job->launched.exec_errno)
        return tell_not_begun(job, how.limit_needed && job->launched.limit_errno);
    if (job->launched.cgroup_errno) {
        (void)uma_cgroup_scope_remove(&job->scope);
        (void)snprintf(job->run.cgroup_note, sizeof(job->run.cgroup_note), "the job could not enter its group: %s",
                       strerror(job->launched.cgroup_errno));
    }
    if (job->launched.limit_errno) {
        uma_job_tell("the driver's limit does not reach the job, which could not enter its group: %s", strerror(job->launched.limit_errno));
        (void)uma_job_limit_end(TAKE_PTR(job->limit));
    }
    if (job->limit)
        job->run.driver_limit = (struct uma_u64){ job->options->valve.limit, UMA_KNOWN };
    job->run.pid = job->launched.pid;
    job->run.start_ticks = start_ticks_of(job->launched.pid);
    job->run.cgroup = job->scope.dir_fd >= 0 ? job->scope.path : NULL;
    uma_watch_save(&job->watch, false); /* at once: a job whose umactl is killed must be found */
    return 0;
}

static bool has_amd(const struct uma_snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->gpus.n; i++)
        if (snapshot->gpus.list[i].vendor && strcmp(snapshot->gpus.list[i].vendor, "amd") == 0)
            return true;
    return false;
}

/* From here on the job runs: nothing may end umactl before it. */
static void watch_and_finish(struct uma_job *job) {
    struct uma_error err = { 0 };
    char detail[128];
    job->watch.observer = job->observer;
    job->watch.row_seconds = job->options->interval;
    job->watch.tree = uma_tree_new(job->launched.pid, getpid(), &job->scope);
    if (uma_watch_begin(&job->watch, &err) < 0 || !job->watch.tree)
        uma_job_tell("out of memory: the job runs, but not all of it is watched");
    /* after the fork: a thread must not be between it and exec */
    job->watch.gpu = uma_gpu_watch_start(&job->options->observe, MAX_OF(GPU_SECONDS, job->sample_seconds), has_amd(&job->before), &err);
    if (!job->watch.gpu)
        uma_job_tell("%s; the job runs without GPU and heat samples", err.text);
    int logs[] = { job->watch.csv ? job->csv.fd : -1, job->watch.samples ? job->samples.fd : -1, job->folder.events_fd };
    job->sync = uma_log_sync_start(logs, ELEMENTS(logs));
    uma_load_window_start(job->load, job->launched.pid);
    uma_job_valve_start(job->valve);
    uma_job_warn_begin(job);
    (void)snprintf(detail, sizeof(detail), "pid %d", (int)job->launched.pid);
    uma_watch_event(&job->watch, "job_start", detail);
    uma_watch_save(&job->watch, true);
    if (uma_job_supervise(job, &err) < 0)
        uma_job_tell("%s; the job ran without samples", err.text);
    uma_job_warn_end(job);
    job->claim = uma_claim_close(job->claim); /* what it leaves behind it has taken already */
    uma_job_finish(job);
}

static void cleanup(struct uma_job *job) {
    job->load = uma_load_window_stop(job->load, NULL);
    job->valve = uma_job_valve_stop(job->valve, NULL);
    (void)uma_job_limit_end(job->limit);
    uma_job_environment_done(&job->environment);
    (void)uma_gpu_watch_stop(job->watch.gpu);
    (void)uma_log_sync_stop(job->sync);
    (void)uma_tree_free(job->watch.tree);
    uma_watch_end(&job->watch);
    if (job->watch.csv)
        uma_csv_close(job->watch.csv);
    if (job->watch.samples)
        uma_csv_close(job->watch.samples);
    uma_run_folder_close(&job->folder);
    uma_terminal_close(&job->terminal);
    job->claim = uma_claim_close(job->claim);
    uma_job_warn_end(job);
    uma_claims_done(&job->claims);
    uma_account_done(&job->account);
    uma_snapshot_done(&job->before);
    (void)uma_observer_close(job->observer);
    free(job->shm_before.list);
    if (job->signals.fd >= 0)
        (void)close(job->signals.fd);
}

/* A job that could not be started or executed has a record too: what was tried, when, on what machine. */
static void record_failure(struct uma_job *job, int status) {
    job->run.state = UMA_RUN_FAILED;
    job->run.exited = true;
    job->run.exit_status = status;
    job->run.end_ns = uma_now_ns();
    uma_watch_save(&job->watch, false);
}

int uma_job_run(const struct uma_job_options *options) {
    struct uma_error err = { 0 };
    char cwd[4096];
    struct uma_job *job = calloc(1, sizeof(*job));
    if (!job) {
        uma_job_tell("out of memory");
        return UMA_JOB_FAILED;
    }
    job->options = options;
    job->warn_made.fd = job->signals.fd = job->scope.dir_fd = job->scope.procs_fd = job->terminal.fd = -1;
    job->folder.dir_fd = job->folder.events_fd = -1;
    job->sample_seconds = MIN_OF(SAMPLE_SECONDS, options->interval);
    describe(job, cwd, sizeof(cwd));
    job->watch.run = &job->run;
    job->watch.folder = &job->folder;
    int status = UMA_JOB_FAILED;
    if (uma_signals_take(&job->signals, &err) < 0 || uma_job_warn_take(job, &err) < 0 ||
        uma_observer_open(&options->observe, &job->observer, &err) < 0 || uma_snapshot_init(&job->before) < 0) {
        uma_job_tell("%s", err.text[0] ? err.text : "out of memory");
    } else if ((status = open_logs(job)) == 0 && (status = uma_job_gate(job)) == 0) {
        describe_machine(job);
        open_record(job);
        uma_shm_list_read(&job->shm_before);
        prepare_preloaded(job);
        status = launch(job);
        if (status == 0) {
            watch_and_finish(job);
            status = job->run.exit_status;
        } else {
            record_failure(job, status);
        }
    }
    cleanup(job);
    free(job);
    return status;
}
