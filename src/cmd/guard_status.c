/* SPDX-License-Identifier: MIT */
#include "cmd/guard.h"

#include "base/units.h"
#include "guard/gpu_file.h"

#include <limits.h>
#include <string.h>

static const char usage[] =
    "usage: umactl guard status [OPTION...]\n"
    "\n"
    "Does the guard run, how far is the floor, whom does it hold stopped, and what did it do last. The guard speaks to root and to the user\n"
    "that it runs as.\n"
    "\n"
    "      --json           print JSON\n"
    "      --run-folder FOLDER\n"
    "                       where the guard listens (default: " UMA_GUARD_RUN_FOLDER ")\n"
    "      --state-folder FOLDER\n"
    "                       where it writes down what it does (default: " UMA_GUARD_STATE_FOLDER ")\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Exit status: 0 it runs, 1 it does not, 2 usage, 3 it does not answer, or not to this user.\n";

static const struct uma_command *const self = &uma_command_guard_status;

enum { LAST = 10, STOPPED_MOST = 64 }; /* records of the trail that are shown; trees, twice what the guard keeps */

struct stopped {
    int32_t pid;
    uint64_t seconds;
};

struct status {
    enum uma_truth running;
    struct uma_guard_told told;
    struct uma_error why; /* not running, or not known */
    struct stopped stopped[STOPPED_MOST];
    size_t n_stopped;
    struct uma_guard_records records;
    bool has_records;
};

/* ---- what it says ------------------------------------------------------------------------------------------- */

static struct uma_u64 number(const struct status *status, const char *key) {
    char value[32];
    uint64_t n;
    if (!uma_guard_told_value(&status->told, key, 0, value, sizeof(value)) || uma_parse_u64_all(value, &n) < 0)
        return (struct uma_u64){ 0, UMA_UNKNOWN };
    return (struct uma_u64){ n, UMA_KNOWN };
}

static struct uma_i64 signed_number(const struct status *status, const char *key) {
    char value[32];
    int64_t n;
    if (!uma_guard_told_value(&status->told, key, 0, value, sizeof(value)) || uma_parse_i64_all(value, &n) < 0)
        return (struct uma_i64){ 0, UMA_UNKNOWN };
    return (struct uma_i64){ n, UMA_KNOWN };
}

static bool is(const struct status *status, const char *key, const char *word) {
    char value[64];
    return uma_guard_told_value(&status->told, key, 0, value, sizeof(value)) && strcmp(value, word) == 0;
}

/* "braked=PID,START,SECONDS" */
static void read_stopped(struct status *status) {
    char line[96];
    for (unsigned i = 0; i < STOPPED_MOST && uma_guard_told_value(&status->told, "braked", i, line, sizeof(line)); i++) {
        const char *end = line + strlen(line);
        uint64_t pid, start, seconds;
        const char *p = uma_parse_u64(line, end, &pid);
        p = p && *p == ',' ? uma_parse_u64(p + 1, end, &start) : NULL;
        p = p && *p == ',' ? uma_parse_u64(p + 1, end, &seconds) : NULL;
        if (p && pid > 0 && pid <= INT32_MAX)
            status->stopped[status->n_stopped++] = (struct stopped){ (int32_t)pid, seconds };
    }
}

static void take(const struct uma_guard_places *places, struct status *status) {
    struct uma_error ignored = { 0 };
    int r = uma_guard_ask_it(places->run_folder, "status", &status->told, &status->why);
    status->running = r >= 0 ? UMA_YES : r == -ENOENT || r == -ECONNREFUSED ? UMA_NO : UMA_MAYBE;
    if (r >= 0)
        read_stopped(status);
    status->has_records = uma_guard_records_read(places->state_folder, 0, LAST, &status->records, &ignored) >= 0;
}

/* ---- text --------------------------------------------------------------------------------------------------- */

static void size_text(struct uma_text *text, struct uma_u64 value) {
    if (uma_usable(value.validity))
        uma_text_bytes(text, value.value);
    else
        uma_text_char(text, '?');
}

/* What the trail last said of this process, for a name beside a number. */
static const struct uma_guard_candidate *known_of(const struct status *status, int32_t pid) {
    for (size_t i = status->has_records ? status->records.n : 0; i > 0; i--) {
        const struct uma_guard_decision *decision = &status->records.list[i - 1].decision;
        for (uint32_t k = 0; k < decision->n_candidates && k < UMA_GUARD_CANDIDATES; k++)
            if (decision->candidates[k].pid == pid)
                return &decision->candidates[k];
    }
    return NULL;
}

static void process_text(struct uma_text *text, const struct status *status, int32_t pid) {
    const struct uma_guard_candidate *known = known_of(status, pid);
    if (known) {
        (void)uma_text_safe(text, known->name, UMA_GUARD_NAME_MAX);
        uma_text_printf(text, " (pid %d)", (int)pid);
    } else
        uma_text_printf(text, "pid %d", (int)pid);
}

static void headroom_text(struct uma_text *text, const struct status *status) {
    struct uma_i64 rate = signed_number(status, "rate");
    uma_text_append(text, "  headroom   ");
    size_text(text, number(status, "headroom"));
    if (uma_usable(rate.validity) && rate.value < 0) {
        uma_text_append(text, ", falling by ");
        uma_text_bytes(text, (uint64_t)0 - (uint64_t)rate.value);
        uma_text_append(text, "/s");
    }
    uma_text_append(text, "\n  floor      ");
    size_text(text, number(status, "floor"));
    uma_text_append(text, ", the hard floor ");
    size_text(text, number(status, "hard_floor"));
    struct uma_u64 steady = number(status, "steady");
    if (uma_usable(steady.validity) && steady.value) {
        uma_text_append(text, "; the machine stands at ");
        uma_text_bytes(text, steady.value);
    }
    uma_text_char(text, '\n');
}

static void under_way_text(struct uma_text *text, const struct status *status) {
    uma_text_append(text, "  stopped    ");
    for (size_t i = 0; i < status->n_stopped; i++) {
        uma_text_append(text, i ? "\n             " : "");
        process_text(text, status, status->stopped[i].pid);
        uma_text_append(text, " for ");
        uma_text_duration(text, (double)status->stopped[i].seconds);
    }
    uma_text_append(text, status->n_stopped ? "\n" : "nobody\n");
    struct uma_u64 victim = number(status, "victim");
    if (uma_usable(victim.validity) && victim.value > 0 && victim.value <= INT32_MAX) {
        uma_text_append(text, "  victim     ");
        process_text(text, status, (int32_t)victim.value);
        uma_text_append(text, ", and its memory is not back yet\n");
    }
}

static void gpu_text(struct uma_text *text, const struct status *status) {
    struct uma_u64 gpu = number(status, "gpu_bytes"), age = number(status, "gpu_age_ns"), asked = number(status, "gpu_asked_ns");
    uma_text_append(text, "  GPU        ");
    size_text(text, gpu);
    if (uma_usable(gpu.validity) && uma_usable(age.validity)) {
        uma_text_append(text, " by processes, as the driver said ");
        uma_text_duration(text, (double)age.value / 1e9);
        uma_text_append(text, " ago");
        if (age.value > UMA_GUARD_GPU_OLD_NS && uma_usable(asked.validity))
            uma_text_append(text,
                            asked.value > UMA_GUARD_GPU_OLD_NS ? ", and nobody has asked it since" : ", and it has not answered since");
    }
    uma_text_char(text, '\n');
}

static void helper_text(struct uma_text *text, const struct status *status) {
    struct uma_u64 lost = number(status, "helper_lost");
    if (is(status, "helper", "no"))
        uma_text_append(text, "  helper     none: nobody asks the driver, makes room, warns jobs, or tells of what is done\n");
    else if (uma_usable(lost.validity) && lost.value)
        uma_text_printf(text, "  helper     %llu messages did not reach it\n", (unsigned long long)lost.value);
}

/* What is written down, where something of it is missing. */
static void kept_text(struct uma_text *text, const struct status *status) {
    struct uma_u64 lost = number(status, "trail_lost");
    if (is(status, "trail", "none"))
        uma_text_append(text, "  trail      none: what it does is not written down\n");
    else if (uma_usable(lost.validity) && lost.value)
        uma_text_printf(text, "  trail      %llu records could not be written\n", (unsigned long long)lost.value);
    lost = number(status, "recording_lost");
    if (is(status, "recording", "none"))
        uma_text_append(text, "  recording  none: what it reads is not kept, and cannot be replayed\n");
    else if (uma_usable(lost.validity) && lost.value)
        uma_text_printf(text, "  recording  %llu times it could not be written\n", (unsigned long long)lost.value);
}

static void trail_text(struct uma_text *text, const struct status *status) {
    if (!status->has_records)
        return;
    uma_text_append(text, status->records.n ? "\nLAST\n" : "\nIt has done nothing yet.\n");
    for (size_t i = 0; i < status->records.n; i++)
        uma_guard_record_text(text, &status->records.list[i], false);
}

static void write_text(struct uma_text *text, const struct status *status) {
    if (status->running != UMA_YES) {
        uma_text_append(text, status->running == UMA_NO ? "The guard does not run: " : "Whether the guard runs is not known: ");
        (void)uma_text_safe(text, status->why.text, 0);
        uma_text_append(text, ".\n");
        trail_text(text, status);
        return;
    }
    struct uma_u64 pid = number(status, "pid"), up = number(status, "up_seconds");
    uma_text_printf(text, "The guard runs (pid %llu, for ", (unsigned long long)pid.value);
    uma_text_duration(text, (double)up.value);
    uma_text_append(text, is(status, "dry_run", "yes") ? "), as a dry run: it decides and does nothing.\n" : ").\n");
    if (is(status, "policy", "broken"))
        uma_text_append(
            text,
            is(status, "policy_holds", "defaults")
                ? "Its policy's file had a mistake when it started: the defaults hold, and nobody is ended: see umactl guard policy --check.\n"
                : "Its policy's file has a mistake, and the policy before holds: see umactl guard policy --check.\n");
    headroom_text(text, status);
    under_way_text(text, status);
    gpu_text(text, status);
    helper_text(text, status);
    kept_text(text, status);
    trail_text(text, status);
}

/* ---- JSON --------------------------------------------------------------------------------------------------- */

static void write_word(struct uma_json *json, const struct status *status, const char *key) {
    char value[64];
    uma_json_string(json, key, uma_guard_told_value(&status->told, key, 0, value, sizeof(value)) ? value : NULL);
}

static void write_switch(struct uma_json *json, const struct status *status, const char *name, const char *key, const char *yes) {
    char value[64];
    bool there = uma_guard_told_value(&status->told, key, 0, value, sizeof(value));
    uma_json_truth(json, name, !there ? UMA_MAYBE : strcmp(value, yes) == 0 ? UMA_YES : UMA_NO);
}

static void write_json(struct uma_text *text, const struct status *status) {
    static const char *const numbers[] = { "headroom", "floor", "hard_floor" };
    struct uma_json json = { .text = text };
    struct uma_u64 age = number(status, "gpu_age_ns"), asked = number(status, "gpu_asked_ns"), steady = number(status, "steady");
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", "umactl.guard-status/1");
    uma_json_truth(&json, "running", status->running);
    uma_json_string(&json, "why", status->running == UMA_YES ? NULL : status->why.text);
    write_word(&json, status, "version");
    uma_json_u64(&json, "pid", number(status, "pid"));
    uma_json_u64(&json, "up_seconds", number(status, "up_seconds"));
    write_switch(&json, status, "dry_run", "dry_run", "yes");
    write_switch(&json, status, "policy_fine", "policy", "fine");
    for (size_t i = 0; i < ELEMENTS(numbers); i++)
        uma_json_u64(&json, numbers[i], number(status, numbers[i]));
    uma_json_i64(&json, "rate", signed_number(status, "rate"));
    uma_json_u64(&json, "steady", steady.value ? steady : (struct uma_u64){ 0, UMA_UNKNOWN });
    uma_json_u64(&json, "gpu_bytes", number(status, "gpu_bytes"));
    uma_json_f64(&json, "gpu_age_seconds", (struct uma_f64){ (double)age.value / 1e9, age.validity });
    uma_json_f64(&json, "gpu_asked_seconds", (struct uma_f64){ (double)asked.value / 1e9, asked.validity });
    write_switch(&json, status, "helper", "helper", "yes");
    uma_json_u64(&json, "helper_lost", number(status, "helper_lost"));
    uma_json_begin_array(&json, "stopped", false);
    for (size_t i = 0; i < status->n_stopped; i++) {
        uma_json_begin_object(&json, NULL, true);
        uma_json_signed(&json, "pid", status->stopped[i].pid);
        uma_json_unsigned(&json, "seconds", status->stopped[i].seconds);
        uma_json_end_object(&json);
    }
    uma_json_end_array(&json);
    uma_json_u64(&json, "victim", number(status, "victim"));
    uma_json_u64(&json, "actions", number(status, "actions"));
    write_switch(&json, status, "trail_kept", "trail", "open");
    uma_json_u64(&json, "trail_lost", number(status, "trail_lost"));
    write_switch(&json, status, "recording_kept", "recording", "open");
    uma_json_u64(&json, "recording_lost", number(status, "recording_lost"));
    if (status->has_records) {
        uma_json_begin_array(&json, "last", false);
        for (size_t i = 0; i < status->records.n; i++)
            uma_guard_record_json(&json, &status->records.list[i]);
        uma_json_end_array(&json);
    } else
        uma_json_null(&json, "last");
    uma_json_end_object(&json);
}

static int run(int argc, char **argv) {
    static const struct option table[] = { { "run-folder", required_argument, NULL, UMA_GUARD_OPTION_RUN_FOLDER },
                                           { "state-folder", required_argument, NULL, UMA_GUARD_OPTION_STATE_FOLDER },
                                           { "json", no_argument, NULL, UMA_OPTION_JSON },
                                           { "version", no_argument, NULL, UMA_OPTION_VERSION },
                                           { "help", no_argument, NULL, 'h' },
                                           { 0 } };
    struct uma_common_options common = { 0 };
    struct uma_guard_places places = { 0 };
    struct status status = { 0 };
    struct uma_option_reader reader = { self, table, ":h", &common, false, 0 };
    int stop = uma_guard_places_read(&reader, argc, argv, &places);
    if (stop >= 0)
        return stop;
    (void)uma_guard_places_finish(&places, NULL, NULL);
    take(&places, &status);
    _cleanup_text_ struct uma_text text = { 0 };
    if (common.json)
        write_json(&text, &status);
    else
        write_text(&text, &status);
    uma_guard_records_done(&status.records);
    if (uma_command_print(&text) < 0)
        return UMA_EXIT_UNKNOWN;
    return status.running == UMA_YES ? UMA_EXIT_OK : status.running == UMA_NO ? UMA_EXIT_NO : UMA_EXIT_UNKNOWN;
}

const struct uma_command uma_command_guard_status = { "guard status", "is it running, how far is the floor, what did it do last", usage,
                                                      run };
