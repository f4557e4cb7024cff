/* SPDX-License-Identifier: MIT */
/* `umactl cache follow`: keep the page cache of a job's weight files below a window while it loads. */
#include "base/units.h"
#include "base/values.h"
#include "cache/follow.h"
#include "cmd/cache.h"
#include "cmd/layout.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: umactl cache follow PID [--window N] [--keep-free N] [OPTION...]\n"
    "\n"
    "While process PID and its descendants load a model, evict what they have already copied of its weight files, so that the page cache does\n"
    "not hold the model a second time. Ends by itself when loading is over, and says what it did. The job is not changed or stopped.\n"
    "Until the job opens a file of weights it is waited for; after two seconds that is said once.\n"
    "\n"
    "      --window N       bytes of copied weights that may stay in the page cache (default 256M; with --keep-free alone: all)\n"
    "      --keep-free N    when free memory (MemFree) is below N, evict the least valuable weights first: files that nobody has open,\n"
    "                       then what was copied, and only at last what is still to be read\n"
    "      --path P         only weight files at P or below it; may be given again\n"
    "      --json           one JSON document\n"
    "  -q, --quiet          no answer, only what cannot be done\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Mapped weights of another process are paged out with CAP_SYS_NICE only; `umactl run --load-window` does it from inside the job.\n"
    "\n"
    "Exit status: 0 it followed, 1 there is no such process, 2 usage, or a process that loads nothing (umactl itself, a thread of\n"
    "the kernel), 3 it could not follow, 130 ended by Ctrl-C (the report is printed).\n";

#define WINDOW_DEFAULT (256 * UMA_MIB)

enum { OPTION_WINDOW = UMA_OPTION_OWN, OPTION_KEEP_FREE, OPTION_PATH };
enum { PATHS_MAX = 64 };

struct options {
    struct uma_common_options common;
    struct uma_follow_options follow;
    const char *paths[PATHS_MAX];
    bool quiet;
};

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static const char *const ends[UMA_FOLLOW_ENDS] = {
    [UMA_FOLLOW_LOADED] = "loading is over",
    [UMA_FOLLOW_IDLE] = "nothing was read for 30 s, and not all was read",
    [UMA_FOLLOW_IN_PLACE] = "the job uses its weights where they lie: they were left alone",
    [UMA_FOLLOW_EXITED] = "the job ended",
    [UMA_FOLLOW_STOPPED] = "stopped",
    [UMA_FOLLOW_NOTHING] = "the job ended and never opened a file of weights",
};

static void line(struct uma_text *text, const char *label, struct uma_u64 value, const char *note) {
    uma_text_printf(text, "  %-22s ", label);
    _cleanup_text_ struct uma_text number = { 0 };
    uma_layout_bytes(&number, value);
    uma_text_pad(text, number.length < 10 ? 10 - number.length : 0);
    uma_text_append(text, number.data ? number.data : "");
    if (*note)
        uma_text_printf(text, "  %s", note);
    uma_text_char(text, '\n');
}

/* By the bits of enum uma_follow_means. */
static const char *const means_names[] = { "fadvise", "process_madvise", "helper" };

static void means_text(struct uma_text *text, unsigned means) {
    const char *separator = "by ";
    for (unsigned i = 0; i < ELEMENTS(means_names); i++)
        if (means & 1u << i) {
            uma_text_printf(text, "%s%s", separator, means_names[i]);
            separator = ", ";
        }
}

static void answer_text(struct uma_text *text, const struct uma_follow_report *report) {
    _cleanup_text_ struct uma_text note = { 0 };
    uma_text_printf(text, "%s after ", ends[report->end]);
    uma_text_duration(text, report->seconds);
    uma_text_printf(text, "; %llu weight file%s of ", (unsigned long long)report->files, report->files == 1 ? "" : "s");
    uma_text_bytes(text, report->file_bytes);
    uma_text_char(text, '\n');
    if (report->files) {
        line(text, "read", uma_known_u64(report->read_bytes), "");
        means_text(&note, report->means);
        line(text, "evicted", uma_known_u64(report->evicted_bytes), note.data ? note.data : "");
        if (report->evicted_again_bytes)
            line(text, "read again after", uma_known_u64(report->evicted_again_bytes), "");
        line(text, "peak", report->peak_with, "job's memory and its weights' page cache");
        line(text, "peak without", report->peak_without, "had everything that was read stayed");
        line(text, "peak of the cache", report->cache_peak, "");
    }
    line(text, "lowest free memory", report->lowest_free, "");
    if (report->kept_free_bytes)
        line(text, "evicted of others", uma_known_u64(report->kept_free_bytes), "to keep memory free");
}

static void answer_json(struct uma_text *text, const struct options *options, const struct uma_follow_report *report) {
    struct uma_json json = { .text = text };
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", "umactl.cache-follow/1");
    uma_json_signed(&json, "pid", options->follow.pid);
    if (options->follow.window)
        uma_json_unsigned(&json, "window", options->follow.window);
    else
        uma_json_null(&json, "window");
    if (options->follow.keep_free)
        uma_json_unsigned(&json, "keep_free", options->follow.keep_free);
    else
        uma_json_null(&json, "keep_free");
    uma_follow_report_json(&json, report);
    uma_json_end_object(&json);
}

void uma_follow_report_json(struct uma_json *json, const struct uma_follow_report *report) {
    uma_json_string(json, "end", uma_follow_end_name(report->end));
    uma_json_double(json, "seconds", report->seconds);
    uma_json_unsigned(json, "files", report->files);
    uma_json_unsigned(json, "file_bytes", report->file_bytes);
    uma_json_unsigned(json, "read", report->read_bytes);
    uma_json_unsigned(json, "evicted", report->evicted_bytes);
    uma_json_unsigned(json, "evicted_again", report->evicted_again_bytes);
    uma_json_u64(json, "peak_with", report->peak_with);
    uma_json_u64(json, "peak_without", report->peak_without);
    uma_json_u64(json, "cache_peak", report->cache_peak);
    uma_json_u64(json, "lowest_free", report->lowest_free);
    uma_json_unsigned(json, "kept_free", report->kept_free_bytes);
    uma_json_begin_array(json, "means", true);
    for (unsigned i = 0; i < ELEMENTS(means_names); i++)
        if (report->means & 1u << i)
            uma_json_string(json, NULL, means_names[i]);
    uma_json_end_array(json);
    uma_json_string(json, "note", report->note[0] ? report->note : NULL);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static void tell(void *userdata, const char *text) {
    (void)userdata;
    struct uma_error err = { 0 };
    (void)snprintf(err.text, sizeof err.text, "%s", text);
    (void)uma_command_fail(uma_command_cache_follow.name, 0, &err);
}

/* "waiting for pid 5 (python3) to open a weight file; Ctrl-C ends". The name is the process's own choice; printing escapes it. */
static void tell_waiting(void *userdata) {
    const struct options *options = userdata;
    char path[48], name[64];
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)options->follow.pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
    name[n > 0 ? n - (name[n - 1] == '\n') : 0] = '\0';
    struct uma_error err = { 0 };
    (void)snprintf(err.text, sizeof err.text, "waiting for pid %d%s%s%s to open a weight file; Ctrl-C ends", (int)options->follow.pid,
                   *name ? " (" : "", name, *name ? ")" : "");
    (void)uma_command_fail(uma_command_cache_follow.name, 0, &err);
}

static int size_of(const char *value, uint64_t *ret_bytes) {
    struct uma_error err = { 0 };
    return uma_follow_size_parse(value, ret_bytes, &err) < 0 ? uma_command_usage_error(&uma_command_cache_follow, "%s", err.text) : 0;
}

/* 0, or the exit status. */
static int take_option(struct options *options, int option) {
    switch (option) {
    case OPTION_WINDOW:
        return size_of(optarg, &options->follow.window);
    case OPTION_KEEP_FREE:
        return size_of(optarg, &options->follow.keep_free);
    case OPTION_PATH:
        if (options->follow.n_paths == PATHS_MAX)
            return uma_command_usage_error(&uma_command_cache_follow, "more than %d times --path", PATHS_MAX);
        if (access(optarg, F_OK) < 0)
            return uma_command_usage_error(&uma_command_cache_follow, "--path %.200s: %s", optarg, strerror(errno));
        options->paths[options->follow.n_paths++] = optarg;
        return 0;
    default: /* q */
        options->quiet = true;
        return 0;
    }
}

/* 0, or the exit status. `*ret_done`: leave with it. */
static int read_options(struct options *options, int argc, char **argv, bool *ret_done) {
    static const struct option table[] = {
        { "window", required_argument, NULL, OPTION_WINDOW },
        { "keep-free", required_argument, NULL, OPTION_KEEP_FREE },
        { "path", required_argument, NULL, OPTION_PATH },
        { "quiet", no_argument, NULL, 'q' },
        { "json", no_argument, NULL, UMA_OPTION_JSON },
        { "version", no_argument, NULL, UMA_OPTION_VERSION },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    struct uma_option_reader reader = {
        .command = &uma_command_cache_follow, .options = table, .letters = ":hq", .common = &options->common, .takes_arguments = true
    };
    *ret_done = true;
    for (int c; (c = uma_option_next(&reader, argc, argv)) != -1;) {
        if (c == UMA_OPTION_STOP)
            return reader.status;
        int status = take_option(options, c);
        if (status)
            return status;
    }
    uint64_t pid;
    if (optind == argc)
        return uma_command_usage_error(&uma_command_cache_follow, "say which process: its number");
    if (uma_parse_u64_all(argv[optind], &pid) < 0 || pid == 0 || pid > INT32_MAX)
        return uma_command_usage_error(&uma_command_cache_follow, "\"%.64s\" is not the number of a process", argv[optind]);
    if (optind + 1 < argc)
        return uma_command_usage_error(&uma_command_cache_follow, "unexpected argument \"%.64s\"", argv[optind + 1]);
    if (options->common.root)
        return uma_command_usage_error(&uma_command_cache_follow,
                                       "UMACTL_ROOT names another machine than this one, which is the one that would be changed");
    options->follow.pid = (pid_t)pid;
    options->follow.userdata = options;
    options->follow.waiting = options->quiet ? NULL : tell_waiting;
    if (!options->follow.window && !options->follow.keep_free)
        options->follow.window = WINDOW_DEFAULT;
    *ret_done = false;
    return 0;
}

static int run(int argc, char **argv) {
    struct options options = { .follow = { .stop = uma_cache_is_stopped, .tell = tell } };
    options.follow.paths = options.paths;
    bool done;
    int status = read_options(&options, argc, argv, &done);
    if (done)
        return status;
    uma_cache_catch_signals();
    struct uma_follow_report report = { 0 };
    struct uma_error err = { 0 };
    int r = uma_follow(&options.follow, &report, &err);
    if (r == -ESRCH && access("/proc/self", F_OK) < 0)
        r = uma_error_text(&err, ENOENT, "/proc is not mounted here, and without it no process can be looked at");
    if (r < 0)
        return uma_command_fail(uma_command_cache_follow.name,
                                r == -ESRCH    ? UMA_EXIT_NO
                                : r == -EINVAL ? UMA_EXIT_USAGE
                                               : UMA_EXIT_UNKNOWN,
                                &err);
    _cleanup_text_ struct uma_text text = { 0 };
    if (options.common.json)
        answer_json(&text, &options, &report);
    else if (!options.quiet)
        answer_text(&text, &report);
    if (uma_command_print(&text) < 0)
        return UMA_EXIT_UNKNOWN;
    return uma_cache_signal() ? 128 + uma_cache_signal() : UMA_EXIT_OK;
}

const struct uma_command uma_command_cache_follow = { "cache follow", "while a job loads, evict what it has copied", usage, run };
