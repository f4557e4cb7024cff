/* SPDX-License-Identifier: MIT */
#include "job/watch.h"

#include "base/units.h"
#include "job/claim.h"
#include "job/claims.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SAVE_INTERVAL_NS (5 * UMA_SECOND_NS) /* what a killed umactl loses of the record's peaks at most; samples.csv has the rest */

void uma_job_tell(const char *format, ...) {
    char message[2048];
    _cleanup_text_ struct uma_text text = { 0 };
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(message, sizeof(message), format, ap);
    va_end(ap);
    uma_text_append(&text, "umactl run: ");
    (void)uma_text_safe(&text, message, 0);
    uma_text_char(&text, '\n');
    if (!text.failed) {
        (void)!write(STDERR_FILENO, text.data, text.length);
        return;
    }
    char line[sizeof(message) + 16] = "umactl run: ";
    size_t n = strlen(line);
    n += uma_text_copy_plain(line + n, sizeof(line) - n - 1, message);
    line[n++] = '\n';
    (void)!write(STDERR_FILENO, line, n);
}

void uma_watch_event(struct uma_watch *watch, const char *name, const char *detail) {
    struct uma_event event = { .time_ns = uma_now_ns(), .name = name };
    (void)snprintf(event.detail, sizeof(event.detail), "%s", detail ? detail : "");
    uma_run_count(watch->run, name);
    if (watch->row_events.length)
        uma_text_char(&watch->row_events, ' ');
    uma_text_append(&watch->row_events, name);
    int r = uma_run_folder_event(watch->folder, &event);
    if (r < 0)
        watch->run->unwritten |= UMA_RUN_FILE_EVENTS;
    if (r < 0 && !watch->folder_told) {
        watch->folder_told = true;
        uma_job_tell("the run record cannot be written: %s; the job goes on", strerror(-r));
    }
}

static void emit(void *userdata, const char *event, const char *detail) {
    uma_watch_event(userdata, event, detail);
}

static bool in_job(void *userdata, int32_t pid) {
    const struct uma_watch *watch = userdata;
    return uma_tree_contains(watch->tree, pid);
}

static void name_of(void *userdata, int32_t pid, char *buffer, size_t size) {
    char path[64];
    (void)userdata;
    (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buffer, size - 1) : 0;
    if (n > 0 && buffer[n - 1] == '\n')
        n--;
    buffer[MAX_OF(n, 0)] = '\0';
}

int uma_watch_begin(struct uma_watch *watch, struct uma_error *err) {
    watch->detector.emit = emit;
    watch->detector.userdata = watch;
    watch->row_due_ns = uma_monotonic_ns() + (int64_t)(watch->row_seconds * 1e9);
    watch->record_due_ns = uma_monotonic_ns() + SAVE_INTERVAL_NS;
    int r = uma_snapshot_init(&watch->snapshot);
    return r < 0 ? uma_error_set(err, -r, "watching the pool") : 0;
}

static void raise_peak(struct uma_u64 *peak, struct uma_u64 v) {
    if (v.validity == UMA_KNOWN && (peak->validity != UMA_KNOWN || v.value > peak->value))
        *peak = v;
}

static void lower(struct uma_u64 *lowest, struct uma_u64 v) {
    if (v.validity == UMA_KNOWN && (lowest->validity != UMA_KNOWN || v.value < lowest->value))
        *lowest = v;
}

static void sample_tree(struct uma_watch *watch, struct uma_sample *sample) {
    struct uma_tree_reading t;
    struct uma_error err = { 0 };
    if (uma_tree_read(watch->tree, &t, &err) < 0) {
        if (!watch->tree_told)
            uma_job_tell("%s; the job goes on", err.text);
        watch->tree_told = true;
        return;
    }
    watch->last_tree = t;
    uma_sample_set_u64(sample, UMA_COL_JOB_MEMORY, t.memory);
    uma_sample_set_u64(sample, UMA_COL_JOB_MEMORY_MAX,
                       t.memory_peak.validity == UMA_KNOWN && t.memory_peak.value > t.memory.value ? t.memory_peak : t.memory);
    uma_sample_set_u64(sample, UMA_COL_JOB_ANON, t.anon);
    uma_sample_set_u64(sample, UMA_COL_JOB_SHMEM, t.shmem);
    uma_sample_set_u64(sample, UMA_COL_JOB_SWAP, t.swap);
    uma_sample_set_u64(sample, UMA_COL_JOB_RSS, t.rss);
    uma_sample_set_u64(sample, UMA_COL_JOB_CGROUP, t.cgroup);
    uma_sample_set(sample, UMA_COL_JOB_PROCESSES, (double)t.processes);
    /* a process that ended takes its time out of the sum unless its parent waited for it: then the difference is unknown, not negative */
    if (watch->cpu_begun && t.cpu_seconds >= watch->cpu_seconds)
        uma_sample_set(sample, UMA_COL_JOB_CPU, t.cpu_seconds - watch->cpu_seconds);
    watch->cpu_seconds = t.cpu_seconds;
    watch->cpu_begun = true;
    struct uma_run *run = watch->run;
    raise_peak(&run->peak_memory, t.memory_peak);
    raise_peak(&run->peak_memory_most, t.memory_peak_most);
    raise_peak(&run->peak_rss, t.rss_peak);
    raise_peak(&run->peak_cgroup, t.cgroup_peak);
    raise_peak(&run->peak_processes, (struct uma_u64){ t.processes, UMA_KNOWN });
    const struct uma_tree_process *list;
    size_t n = uma_tree_processes(watch->tree, &list);
    for (size_t i = 0; i < n; i++)
        raise_peak(&run->peak_process_rss, list[i].rss_peak);
}

/* What a new job could have is without what all running jobs, this one too, have still to take. */
static uint64_t reserved(const struct uma_watch *watch) {
    struct uma_claims claims = { 0 };
    struct uma_u64 total = watch->snapshot.meminfo.mem_total;
    if (!watch->run->root)
        uma_claims_read(uma_claims_folder(), &claims);
    uint64_t bytes = uma_claims_unspent(&claims, uma_usable(total.validity) ? total.value : UINT64_MAX);
    uma_claims_done(&claims);
    return bytes;
}

static void sample_pool(struct uma_watch *watch, struct uma_sample *sample) {
    struct uma_account account;
    if (!watch->snapshot.arena || uma_observer_read(watch->observer, UMA_READ_MEMORY, &watch->snapshot, NULL) < 0)
        return;
    const struct uma_meminfo *m = &watch->snapshot.meminfo;
    struct uma_run *run = watch->run;
    uma_sample_set_u64(sample, UMA_COL_POOL_FREE, m->mem_free);
    uma_sample_set_u64(sample, UMA_COL_POOL_AVAILABLE, m->mem_available);
    uma_sample_set_u64(sample, UMA_COL_POOL_AVAILABLE_MIN, m->mem_available);
    lower(&run->lowest_available, m->mem_available);
    if (m->mem_available.validity == UMA_KNOWN && m->mem_total.validity == UMA_KNOWN && m->mem_total.value >= m->mem_available.value)
        raise_peak(&run->peak_pool_used, (struct uma_u64){ m->mem_total.value - m->mem_available.value, UMA_KNOWN });
    if (m->swap_total.validity == UMA_KNOWN && m->swap_free.validity == UMA_KNOWN && m->swap_total.value >= m->swap_free.value)
        uma_sample_set(sample, UMA_COL_POOL_SWAP_USED, (double)(m->swap_total.value - m->swap_free.value));
    struct uma_u64 faults = watch->snapshot.vmstat.pgmajfault;
    if (faults.validity == UMA_KNOWN) {
        if (watch->major_faults.validity == UMA_KNOWN && (double)faults.value >= watch->major_faults.value)
            uma_sample_set(sample, UMA_COL_POOL_MAJOR_FAULTS, (double)faults.value - watch->major_faults.value);
        watch->major_faults = (struct uma_f64){ (double)faults.value, UMA_KNOWN };
    }
    if (uma_account_build(&watch->snapshot, reserved(watch), &account, NULL) >= 0) {
        struct uma_u64 budget = account.headroom.budget;
        uma_sample_set_u64(sample, UMA_COL_POOL_BUDGET, budget);
        uma_sample_set_u64(sample, UMA_COL_POOL_BUDGET_MIN, budget);
        lower(&run->lowest_budget, budget);
        uma_account_done(&account);
    }
}

static void sample_gpu(struct uma_watch *watch, struct uma_sample *sample) {
    struct uma_gpu_reading *g = &watch->reading;
    struct uma_run *run = watch->run;
    uma_gpu_watch_latest(watch->gpu, g);
    watch->last_gpu = (struct uma_u64){ 0 };
    uma_sample_set_f64(sample, UMA_COL_BOARD_CELSIUS, g->board_celsius);
    uma_range_add(&run->board_celsius, g->board_celsius);
    uma_sample_set_f64(sample, UMA_COL_GPU_AGE, uma_gpu_reading_age(g, sample->time_ns));
    if (g->validity != UMA_KNOWN)
        return;
    uma_sample_set_f64(sample, UMA_COL_GPU_CELSIUS, g->celsius);
    uma_sample_set_f64(sample, UMA_COL_GPU_CELSIUS_MAX, g->celsius);
    uma_sample_set_f64(sample, UMA_COL_GPU_MARGIN, g->margin);
    uma_sample_set_f64(sample, UMA_COL_GPU_WATTS, g->watts);
    uma_sample_set_f64(sample, UMA_COL_GPU_WATTS_MIN, g->watts);
    uma_sample_set_f64(sample, UMA_COL_GPU_WATTS_MAX, g->watts);
    uma_sample_set_u64(sample, UMA_COL_SM_HERTZ, g->sm_hertz);
    uma_sample_set_f64(sample, UMA_COL_UTILIZATION, g->utilization);
    uma_sample_set_u64(sample, UMA_COL_REASONS, g->reasons);
    if (g->pstate.validity == UMA_KNOWN)
        uma_sample_set(sample, UMA_COL_PSTATE, (double)g->pstate.value);
    uma_range_add(&run->celsius, g->celsius);
    uma_range_add(&run->watts, g->watts);
    if (g->users_validity != UMA_KNOWN)
        return;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < g->n_users; i++) {
        if (!uma_tree_contains(watch->tree, g->users[i].pid))
            continue;
        if (g->users[i].bytes.validity != UMA_KNOWN)
            return; /* the job uses the GPU and nobody can say how much */
        bytes += g->users[i].bytes.value;
    }
    uma_sample_set(sample, UMA_COL_JOB_GPU, (double)bytes);
    watch->last_gpu = (struct uma_u64){ bytes, UMA_KNOWN };
    raise_peak(&run->peak_gpu, (struct uma_u64){ bytes, UMA_KNOWN });
}

static void detect(struct uma_watch *watch, struct uma_sample *sample) {
    const struct uma_snapshot *s = &watch->snapshot;
    struct uma_detect_input input = {
        .monotonic_ns = uma_monotonic_ns(),
        .gpu = &watch->reading,
        .in_job = in_job,
        .name_of = name_of,
        .userdata = watch,
        .oom_kills = s->vmstat.oom_kill,
        .job_oom_kills = watch->last_tree.oom_kill,
        .some_seconds = s->memory_pressure.some.total_seconds,
        .full_seconds = s->memory_pressure.full.total_seconds,
        .available = s->meminfo.mem_available,
        .total = s->meminfo.mem_total,
    };
    uma_detect(&watch->detector, &input, sample);
    for (int t = 0; t < UMA_THROTTLE_MAX; t++) {
        struct uma_f64 delta = sample->value[uma_throttle_columns[t]], *sum = &watch->run->throttle_seconds[t];
        if (delta.validity == UMA_KNOWN)
            *sum = (struct uma_f64){ sum->value + delta.value, UMA_KNOWN };
    }
}

/* Tell of a log that cannot be written once; further rows are tried again each time. */
static int write_row(struct uma_watch *watch, struct uma_csv *csv, bool *told, const char *what) {
    int r = csv ? uma_csv_write(csv, &watch->row, watch->row_events.data) : 0;
    if (r < 0 && !*told) {
        *told = true;
        uma_job_tell("%s cannot be written: %s; rows are lost until it can, the job goes on", what, strerror(-r));
    }
    return r;
}

void uma_watch_flush(struct uma_watch *watch) {
    if (!watch->row_begun)
        return;
    (void)write_row(watch, watch->csv, &watch->csv_told, watch->run->csv ? watch->run->csv : "the CSV");
    if (write_row(watch, watch->samples, &watch->samples_told, "the run record's samples.csv") < 0)
        watch->run->unwritten |= UMA_RUN_FILE_SAMPLES;
    watch->row = (struct uma_sample){ 0 };
    watch->row_begun = false;
    uma_text_reset(&watch->row_events);
}

void uma_watch_save(struct uma_watch *watch, bool durable) {
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_error err = { 0 };
    if (watch->folder->dir_fd < 0)
        return;
    watch->run->updated_ns = uma_now_ns();
    uma_run_format(watch->run, &text);
    int r = text.failed ? uma_error_set(&err, ENOMEM, "the run record")
                        : uma_run_folder_put(watch->folder, "run.json", text.data, text.length, durable, &err);
    /* it is replaced whole: what counts is the last time */
    watch->run->unwritten = r < 0 ? watch->run->unwritten | UMA_RUN_FILE_RUN : watch->run->unwritten & ~(unsigned)UMA_RUN_FILE_RUN;
    if (r < 0 && !watch->folder_told) {
        watch->folder_told = true;
        uma_job_tell("%s; the job goes on", err.text);
    }
}

void uma_watch_sample(struct uma_watch *watch) {
    struct uma_sample sample = { .time_ns = uma_now_ns() };
    sample_tree(watch, &sample);
    sample_pool(watch, &sample);
    sample_gpu(watch, &sample);
    detect(watch, &sample);
    watch->run->samples++;
    uma_row_add(&watch->row, &sample);
    watch->row_begun = true;
    int64_t now = uma_monotonic_ns();
    if (now >= watch->row_due_ns) {
        uma_watch_flush(watch);
        /* the next multiple, so that a stop or a slow disk does not cause a burst of rows */
        int64_t period = (int64_t)(watch->row_seconds * 1e9);
        watch->row_due_ns += period * (1 + (now - watch->row_due_ns) / period);
    }
    if (now >= watch->record_due_ns) {
        uma_watch_save(watch, false);
        watch->record_due_ns = now + SAVE_INTERVAL_NS;
    }
}

void uma_watch_end(struct uma_watch *watch) {
    uma_snapshot_done(&watch->snapshot);
    uma_text_done(&watch->row_events);
}
