/* SPDX-License-Identifier: MIT */
#include "job/summary.h"

#include "base/units.h"
#include "job/load_text.h"

#include <inttypes.h>
#include <string.h>

static void bytes(struct uma_text *text, struct uma_u64 v) {
    if (uma_usable(v.validity))
        uma_text_bytes(text, v.value);
    else
        uma_text_char(text, '?');
}

/* A figure that is compared with others: two decimals where one would be off by more than half a percent. */
static void precise_bytes(struct uma_text *text, struct uma_u64 v) {
    if (!uma_usable(v.validity) || v.value < UMA_GIB || v.value >= 10 * UMA_GIB) {
        bytes(text, v);
        return;
    }
    uma_text_fixed(text, (double)v.value / (double)UMA_GIB, 2);
    uma_text_append(text, " GiB");
}

static void label(struct uma_text *text, const char *name) {
    uma_text_printf(text, "  %-12s ", name);
}

static void range(struct uma_text *text, const struct uma_range *r, const char *unit) {
    if (r->min.validity != UMA_KNOWN)
        uma_text_char(text, '?');
    else if (r->min.value == r->max.value)
        uma_text_printf(text, "%.0f %s", r->min.value, unit);
    else
        uma_text_printf(text, "%.0f to %.0f %s", r->min.value, r->max.value, unit);
}

/* A figure of which the kernel's marks leave room for more says so: what else was resident may have been mapped files. */
static void anonymous_and_shared(struct uma_text *text, struct uma_u64 least, struct uma_u64 most) {
    bool known = uma_usable(least.validity), open = uma_usable(most.validity) && (!known || most.value > least.value + least.value / 50);
    uma_text_append(text, !open ? "" : known ? "at least " : "at most ");
    precise_bytes(text, known || !open ? least : most);
    uma_text_append(text, " anonymous and shared");
}

static void peaks(struct uma_text *text, const struct uma_run *run) {
    label(text, "peak job");
    precise_bytes(text, run->peak_rss);
    uma_text_append(text, " resident");
    if (uma_usable(run->peak_processes.validity) && run->peak_processes.value > 1) {
        uma_text_printf(text, " (up to %" PRIu64 " processes; the largest ", run->peak_processes.value);
        precise_bytes(text, run->peak_process_rss);
        uma_text_char(text, ')');
    }
    uma_text_append(text, ", ");
    anonymous_and_shared(text, run->peak_memory, run->peak_memory_most);
    if (uma_usable(run->peak_cgroup.validity)) {
        uma_text_append(text, ", ");
        precise_bytes(text, run->peak_cgroup);
        uma_text_append(text, " in its cgroup");
    }
    uma_text_append(text, ", GPU ");
    precise_bytes(text, run->peak_gpu);
    uma_text_char(text, '\n');
    label(text, "peak pool");
    bytes(text, run->peak_pool_used);
    uma_text_append(text, " in use\n");
    label(text, "lowest");
    bytes(text, run->lowest_available);
    uma_text_append(text, " available, headroom ");
    bytes(text, run->lowest_budget);
    uma_text_char(text, '\n');
}

static void times(struct uma_text *text, uint64_t n, const char *what) {
    if (n == 1)
        uma_text_printf(text, ", once %s", what);
    else if (n > 1)
        uma_text_printf(text, ", %" PRIu64 " times %s", n, what);
}

static void valve(struct uma_text *text, const struct uma_run_valve *valve, bool by_driver) {
    label(text, "valve");
    uma_text_bytes(text, valve->most);
    uma_text_append(text, " by CUDA calls at most");
    if (uma_usable(valve->limit.validity)) {
        uma_text_append(text, ", limit ");
        uma_text_bytes(text, valve->limit.value);
    }
    if (by_driver)
        uma_text_append(text, " (the driver's, too)");
    if (valve->floor) {
        uma_text_append(text, ", floor ");
        uma_text_bytes(text, valve->floor);
    }
    times(text, valve->refused_limit, "refused for the limit");
    times(text, valve->refused_floor, "refused for the machine's floor");
    if (valve->evicted) {
        uma_text_append(text, ", ");
        uma_text_bytes(text, valve->evicted);
        uma_text_append(text, " of page cache evicted");
    }
    uma_text_char(text, '\n');
}

static void heat(struct uma_text *text, const struct uma_run *run) {
    static const char *const names[UMA_THROTTLE_MAX] = { "power cap", "sync boost", "thermal (software)", "thermal (hardware)",
                                                         "power brake" };
    bool known = false, any = false;
    label(text, "heat");
    range(text, &run->celsius, "C");
    uma_text_append(text, " GPU, ");
    range(text, &run->watts, "W");
    if (run->board_celsius.max.validity == UMA_KNOWN) {
        uma_text_append(text, ", board ");
        range(text, &run->board_celsius, "C");
    }
    uma_text_char(text, '\n');
    label(text, "throttled");
    for (int t = 0; t < UMA_THROTTLE_MAX; t++) {
        if (run->throttle_seconds[t].validity != UMA_KNOWN)
            continue;
        known = true;
        if (run->throttle_seconds[t].value < 0.0005)
            continue;
        uma_text_printf(text, "%s%.1f s %s", any ? ", " : "", run->throttle_seconds[t].value, names[t]);
        any = true;
    }
    uma_text_append(text, any ? "\n" : known ? "0 s\n" : "?\n");
}

static void events(struct uma_text *text, const struct uma_run *run) {
    bool any = false;
    label(text, "events");
    for (unsigned i = 0; i < run->n_events; i++) {
        if (strcmp(run->events[i].name, "job_start") == 0 || strcmp(run->events[i].name, "job_end") == 0)
            continue;
        uma_text_printf(text, "%s%s", any ? ", " : "", run->events[i].name);
        if (run->events[i].count > 1)
            uma_text_printf(text, " x%" PRIu64, run->events[i].count);
        any = true;
    }
    uma_text_append(text, any ? "\n" : "none\n");
}

/* Below this the difference of two readings of a machine that others use too says nothing; freed pages also wait in per-CPU lists. */
#define MISSING_LEAST ((int64_t)(256 * UMA_MIB))

static void left_processes(struct uma_text *text, const struct uma_run *run, const char **separator) {
    for (unsigned i = 0; i < run->n_left; i++) {
        uma_text_printf(text, "%spid %d ", *separator, (int)run->left[i].pid);
        (void)uma_text_safe(text, run->left[i].name, 24);
        uma_text_append(text, " (running, ");
        bytes(text, run->left[i].bytes);
        uma_text_char(text, ')');
        *separator = ", ";
    }
    if (run->n_left_total > run->n_left)
        uma_text_printf(text, " and %u more processes", run->n_left_total - run->n_left);
}

static void left_files(struct uma_text *text, const struct uma_run *run, const char **separator) {
    for (unsigned i = 0; i < run->n_files && i < 3; i++) {
        uma_text_printf(text, "%s/dev/shm/", *separator);
        (void)uma_text_safe(text, run->files[i].name, 40);
        uma_text_append(text, " (");
        uma_text_bytes(text, run->files[i].bytes);
        uma_text_char(text, ')');
        *separator = ", ";
    }
    if (run->n_files_total > 3)
        uma_text_printf(text, " and %u more in /dev/shm", run->n_files_total - 3);
}

static void left_behind(struct uma_text *text, const struct uma_run *run) {
    bool memory = run->not_returned.validity == UMA_KNOWN, missing = memory && run->not_returned.value > MISSING_LEAST;
    const char *separator = "";
    label(text, "left behind");
    left_processes(text, run, &separator);
    left_files(text, run, &separator);
    if (missing) {
        uma_text_append(text, separator);
        uma_text_bytes(text, (uint64_t)run->not_returned.value);
        uma_text_append(text, " less available than before");
        separator = ", ";
    }
    if (!*separator)
        uma_text_append(text, run->left_unknown ? "processes: ?" : run->files_unknown || !memory ? "no process" : "nothing");
    else if (run->left_unknown)
        uma_text_append(text, "; other processes: ?");
    if (run->files_unknown)
        uma_text_append(text, "; /dev/shm: ?");
    if (!memory)
        uma_text_append(text, "; memory: ?");
    uma_text_char(text, '\n');
}

/* A folder that is named as the record says what of it is not there, or not all of it. */
static void record_line(struct uma_text *text, const struct uma_run *run, const char *record) {
    static const char *const names[] = { "run.json", "before.json", "after.json", "samples.csv", "events.jsonl" };
    bool any = false;
    label(text, "record");
    (void)uma_text_safe(text, record ? record : "none kept", 0);
    for (unsigned i = 0; record && i < ELEMENTS(names); i++) {
        if (!(run->unwritten & 1u << i))
            continue;
        uma_text_printf(text, "%s%s", any ? ", " : " (incomplete, could not be written: ", names[i]);
        any = true;
    }
    uma_text_append(text, any ? ")\n" : "\n");
}

void uma_run_summary(const struct uma_run *run, const char *record, struct uma_text *text) {
    uma_text_append(text, "umactl run: ");
    (void)uma_text_safe(text, run->name, 40);
    uma_text_append(text, ": ");
    (void)uma_text_safe(text, run->cause[0] ? run->cause : "?", 0);
    uma_text_append(text, " after ");
    uma_text_duration(text, run->end_ns > run->start_ns ? (double)(run->end_ns - run->start_ns) / 1e9 : 0);
    uma_text_char(text, '\n');
    peaks(text, run);
    if (run->load.asked && !run->load.told) {
        _cleanup_text_ struct uma_text line = { 0 };
        uma_load_text(&run->load, &line);
        label(text, "load");
        (void)uma_text_safe(text, line.data ? line.data : "?", 0);
        uma_text_char(text, '\n');
    }
    if (run->valve.used)
        valve(text, &run->valve, uma_usable(run->driver_limit.validity));
    else if (uma_usable(run->driver_limit.validity)) {
        label(text, "limit");
        uma_text_bytes(text, run->driver_limit.value);
        uma_text_append(text, ", held by the driver\n");
    }
    heat(text, run);
    events(text, run);
    left_behind(text, run);
    record_line(text, run, record);
}
