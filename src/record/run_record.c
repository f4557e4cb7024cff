/* SPDX-License-Identifier: MIT */
#include "record/run_record.h"

#include "base/values.h"
#include "observe/secrets.h"
#include "record/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *state_name(enum uma_run_state state) {
    static const char *const names[] = { "running", "ended", "failed" };
    return names[state];
}

void uma_run_name_clean(const char *s, char ret_name[64]) {
    size_t n = 0;
    for (; *s && n < 40; s++) {
        char c = *s;
        bool fine =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (n > 0 && (c == '.' || c == '-'));
        ret_name[n++] = fine ? c : '_';
    }
    if (n == 0)
        ret_name[n++] = '_';
    ret_name[n] = '\0';
}

void uma_run_id_format(int64_t time_ns, const char *name, pid_t pid, char ret_id[160]) {
    time_t seconds = (time_t)(time_ns / 1000000000);
    struct tm tm = { 0 };
    (void)gmtime_r(&seconds, &tm);
    (void)snprintf(ret_id, 160, "%04d%02d%02dT%02d%02d%02dZ-%.63s-%d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
                   tm.tm_sec, name, (int)pid);
}

void uma_run_count(struct uma_run *run, const char *name) {
    for (unsigned i = 0; i < run->n_events; i++)
        if (strcmp(run->events[i].name, name) == 0) {
            run->events[i].count++;
            return;
        }
    if (run->n_events < UMA_RUN_EVENTS_MAX) {
        run->events[run->n_events].name = name;
        run->events[run->n_events++].count = 1;
    }
}

/* The whole line is masked at once: "--api-key" says what the argument after it is. */
static void command(struct uma_json *json, const struct uma_run *run) {
    _cleanup_text_ struct uma_text line = { 0 };
    _cleanup_text_ struct uma_text masked = { 0 };
    for (int i = 0; i < run->argc && i < UMA_RUN_ARGUMENTS_MAX; i++)
        uma_text_append_n(&line, run->argv[i], strlen(run->argv[i]) + 1);
    if (line.length)
        uma_secrets_mask(line.data, line.length, &masked);
    uma_json_begin_array(json, "command", false);
    for (size_t at = 0; !masked.failed && at < masked.length;) {
        size_t n = strnlen(masked.data + at, masked.length - at);
        uma_json_string_n(json, NULL, masked.data + at, n);
        at += n + 1;
    }
    uma_json_end_array(json);
    uma_json_begin_array(json, "env", false);
    for (char **e = run->env; e && *e; e++)
        if (uma_environment_matters(*e))
            uma_json_string(json, NULL, *e);
    uma_json_end_array(json);
}

static void process(struct uma_json *json, const char *key, pid_t pid, uint64_t start_ticks) {
    uma_json_begin_object(json, key, true);
    if (pid > 0)
        uma_json_signed(json, "pid", pid);
    else
        uma_json_null(json, "pid");
    if (start_ticks)
        uma_json_unsigned(json, "start_ticks", start_ticks);
    else
        uma_json_null(json, "start_ticks");
    uma_json_end_object(json);
}

static void range(struct uma_json *json, const char *key, const struct uma_range *r) {
    uma_json_begin_object(json, key, true);
    uma_json_f64(json, "min", r->min);
    uma_json_f64(json, "max", r->max);
    uma_json_end_object(json);
}

static void measured(struct uma_json *json, const struct uma_run *run) {
    uma_json_begin_object(json, "peak", false);
    uma_json_u64(json, "resident", run->peak_rss);
    uma_json_u64(json, "process_resident", run->peak_process_rss);
    uma_json_u64(json, "anonymous_and_shared", run->peak_memory);
    uma_json_u64(json, "anonymous_and_shared_at_most", run->peak_memory_most);
    uma_json_u64(json, "cgroup", run->peak_cgroup);
    uma_json_u64(json, "gpu", run->peak_gpu);
    uma_json_u64(json, "processes", run->peak_processes);
    uma_json_u64(json, "pool_used", run->peak_pool_used);
    uma_json_end_object(json);
    uma_json_begin_object(json, "lowest", true);
    uma_json_u64(json, "available", run->lowest_available);
    uma_json_u64(json, "budget", run->lowest_budget);
    uma_json_end_object(json);
    range(json, "celsius", &run->celsius);
    range(json, "board_celsius", &run->board_celsius);
    range(json, "watts", &run->watts);
    uma_json_begin_object(json, "throttle_seconds", true);
    for (int i = 0; i < UMA_THROTTLE_MAX; i++)
        uma_json_f64(json, uma_throttle_name((enum uma_throttle)i), run->throttle_seconds[i]);
    uma_json_end_object(json);
    uma_json_unsigned(json, "samples", run->samples);
    uma_json_double(json, "sample_seconds", run->sample_seconds);
    uma_json_begin_object(json, "events", true);
    for (unsigned i = 0; i < run->n_events; i++)
        uma_json_unsigned(json, run->events[i].name, run->events[i].count);
    uma_json_end_object(json);
}

static void bytes_or_null(struct uma_json *json, const char *key, uint64_t bytes) {
    if (bytes)
        uma_json_unsigned(json, key, bytes);
    else
        uma_json_null(json, key);
}

static void load_report(struct uma_json *json, const struct uma_run_load *load) {
    uma_json_string(json, "end", load->end);
    uma_json_double(json, "seconds", load->seconds);
    uma_json_unsigned(json, "files", load->files);
    uma_json_unsigned(json, "file_bytes", load->file_bytes);
    uma_json_unsigned(json, "read_bytes", load->read_bytes);
    uma_json_unsigned(json, "evicted_bytes", load->evicted_bytes);
    uma_json_unsigned(json, "evicted_again_bytes", load->evicted_again_bytes);
    uma_json_unsigned(json, "kept_free_bytes", load->kept_free_bytes);
    uma_json_u64(json, "peak", load->peak);
    uma_json_u64(json, "peak_without", load->peak_without);
    uma_json_u64(json, "cache_peak", load->cache_peak);
    uma_json_u64(json, "lowest_free", load->lowest_free);
    uma_json_begin_array(json, "means", true);
    if (load->by_fadvise)
        uma_json_string(json, NULL, "fadvise");
    if (load->by_process_madvise)
        uma_json_string(json, NULL, "process_madvise");
    if (load->by_helper)
        uma_json_string(json, NULL, "helper");
    uma_json_end_array(json);
    uma_json_string(json, "note", load->note[0] ? load->note : NULL);
}

static void load(struct uma_json *json, const struct uma_run_load *load) {
    if (!load->asked) {
        uma_json_null(json, "load");
        return;
    }
    uma_json_begin_object(json, "load", false);
    bytes_or_null(json, "window", load->window);
    bytes_or_null(json, "keep_free", load->keep_free);
    uma_json_string(json, "helper", load->helper);
    uma_json_string(json, "helper_note", load->helper_note[0] ? load->helper_note : NULL);
    if (load->ended) {
        uma_json_begin_object(json, "report", false);
        load_report(json, load);
        uma_json_end_object(json);
    } else {
        uma_json_null(json, "report");
    }
    uma_json_end_object(json);
}

static void valve(struct uma_json *json, const struct uma_run_valve *valve) {
    if (!valve->used) {
        uma_json_null(json, "valve");
        return;
    }
    uma_json_begin_object(json, "valve", false);
    uma_json_u64(json, "limit", valve->limit);
    bytes_or_null(json, "floor", valve->floor);
    uma_json_unsigned(json, "most", valve->most);
    uma_json_unsigned(json, "refused_limit", valve->refused_limit);
    uma_json_unsigned(json, "refused_floor", valve->refused_floor);
    uma_json_unsigned(json, "retried", valve->retried);
    uma_json_unsigned(json, "evicted", valve->evicted);
    uma_json_end_object(json);
}

static void left_behind(struct uma_json *json, const struct uma_run *run) {
    uma_json_begin_object(json, "left_behind", false);
    uma_json_u64(json, "processes", run->left_unknown ? uma_no_u64(UMA_FAILED) : uma_known_u64(run->n_left_total));
    uma_json_begin_array(json, "process_list", false);
    for (unsigned i = 0; i < run->n_left; i++) {
        uma_json_begin_object(json, NULL, true);
        uma_json_signed(json, "pid", run->left[i].pid);
        uma_json_string(json, "name", run->left[i].name);
        uma_json_u64(json, "bytes", run->left[i].bytes);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
    uma_json_u64(json, "shm_files", run->files_unknown ? uma_no_u64(UMA_FAILED) : uma_known_u64(run->n_files_total));
    uma_json_unsigned(json, "shm_bytes", run->files_bytes);
    uma_json_begin_array(json, "shm_list", false);
    for (unsigned i = 0; i < run->n_files; i++) {
        uma_json_begin_object(json, NULL, true);
        uma_json_string(json, "name", run->files[i].name);
        uma_json_unsigned(json, "bytes", run->files[i].bytes);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
    uma_json_i64(json, "not_returned", run->not_returned);
    uma_json_end_object(json);
}

static void ending(struct uma_json *json, const struct uma_run *run) {
    if (!run->exited) {
        uma_json_null(json, "exit");
        return;
    }
    uma_json_begin_object(json, "exit", false);
    uma_json_signed(json, "status", run->exit_status);
    if (run->signal)
        uma_json_signed(json, "signal", run->signal);
    else
        uma_json_null(json, "signal");
    uma_json_bool(json, "core_dumped", run->core);
    uma_json_string(json, "cause", run->cause[0] ? run->cause : NULL);
    uma_json_double(json, "cpu_seconds", run->cpu_seconds);
    uma_json_end_object(json);
}

void uma_run_format(const struct uma_run *run, struct uma_text *text) {
    struct uma_json json = { .text = text };
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", UMA_RUN_SCHEMA);
    uma_json_string(&json, "id", run->id);
    uma_json_string(&json, "name", run->name);
    uma_json_string(&json, "state", state_name(run->state));
    uma_json_time(&json, "start", run->start_ns);
    uma_json_time(&json, "updated", run->updated_ns);
    uma_json_time(&json, "end", run->end_ns);
    process(&json, "job", run->pid, run->start_ticks);
    process(&json, "umactl", run->umactl_pid, run->umactl_start_ticks);
    uma_json_string(&json, "version", run->version);
    uma_json_string(&json, "root", run->root);
    uma_json_string(&json, "host", run->host);
    uma_json_string(&json, "platform", run->platform);
    uma_json_string(&json, "kernel", run->kernel);
    uma_json_string(&json, "driver", run->driver);
    uma_json_string(&json, "boot_id", run->boot_id);
    uma_json_string(&json, "cwd", run->cwd);
    command(&json, run);
    uma_json_begin_object(&json, "gate", true);
    uma_json_string(&json, "verdict", run->verdict);
    uma_json_u64(&json, "need", run->need);
    uma_json_u64(&json, "budget", run->budget);
    uma_json_double(&json, "waited_seconds", run->waited_seconds);
    uma_json_end_object(&json);
    uma_json_string(&json, "cgroup", run->cgroup);
    uma_json_string(&json, "cgroup_note", run->cgroup_note[0] ? run->cgroup_note : NULL);
    uma_json_string(&json, "csv", run->csv);
    ending(&json, run);
    load(&json, &run->load);
    valve(&json, &run->valve);
    uma_json_u64(&json, "driver_limit", run->driver_limit);
    measured(&json, run);
    left_behind(&json, run);
    uma_json_end_object(&json); /* the writer ends a document with a newline */
}

void uma_event_format(const struct uma_event *event, struct uma_text *text) {
    struct uma_json json = { .text = text, .compact = true };
    uma_json_begin_object(&json, NULL, true);
    uma_json_time(&json, "time", event->time_ns);
    uma_json_string(&json, "event", event->name);
    uma_json_string(&json, "detail", event->detail[0] ? event->detail : NULL);
    uma_json_end_object(&json); /* the writer ends a document with a newline */
}
