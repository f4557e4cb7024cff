/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "cache/follow.h"
#include "cmd/command.h"
#include "job/job.h"

#include <getopt.h>
#include <string.h>

static const char usage[] =
    "usage: umactl run [OPTION...] [--] JOB [ARGUMENT...]\n"
    "\n"
    "Start a job when its memory is there, watch it, and keep a record of it. Its input, output and signals are its own.\n"
    "\n"
    "      --need N             refuse to start (status 75) unless a new job can have N bytes: 60G and 60GiB are binary, 60GB is decimal;\n"
    "                           they are reserved for it while it runs, against other launches and running jobs behind a valve\n"
    "      --wait TIME          with --need: wait for it so long before refusing (default: not at all); 90, 90s, 500ms, 5m, 2h, 1d\n"
    "      --name S             name of the run (default: the program's)\n"
    "      --csv FILE           append samples to FILE: timestamp, temperature.gpu, power.draw and more (docs/csv.md)\n"
    "      --interval TIME      a row every so often (default 1 s, 0.05 s to a day); sampled twice a second, oftener when rows are\n"
    "      --plain              rows of bare numbers in base units, nothing where unknown\n"
    "  -q, --quiet              no summary and no warnings\n"
    "      --kill-with-umactl   send the job SIGTERM when umactl itself is killed (default: it goes on)\n"
    "      --load-window N      while the job loads its weights keep what it has already copied of their files below N in the page cache\n"
    "                           (default: no window, all of it stays there; 256M suits most jobs, 4M is the least)\n"
    "      --keep-free N        while it loads evict weight files, the least valuable first, when less than N is free (MemFree)\n"
    "      --window-helper WHEN how mapped files leave memory: by a library preloaded into the job when umactl itself may not (auto),\n"
    "                           always, or never\n"
    "      --valve, --no-valve  stand between the job and the CUDA driver, or not (default: where an NVIDIA driver is): a call that would take\n"
    "                           the machine below its floor, or the job over its limit, is answered with CUDA's own out of memory; clean\n"
    "                           page cache makes room first\n"
    "      --limit N            what the job may take by CUDA calls, all its processes together (default: no limit). The valve holds it, and the\n"
    "                           driver too where umactl valve --probe has shown that it does; with --no-valve the driver alone, or the job\n"
    "                           is not started\n"
    "      --floor N            what stays available to the machine (implies --valve; default: a thirty-second of it, 0.5 to 4 GiB)\n"
    "      --report HOW         what cuMemGetInfo and NVML say to the job: what it may still take (pool), what the driver says (raw), or pool\n"
    "                           where the GPU's memory is the machine's (auto, the default)\n"
    "      --warn WHAT          before a guard (uma-guard) ends the job, tell it: a signal that it catches (USR1), or a file (./save-now) that is\n"
    "                           created or written; may be given twice, one of each\n"
    "      --end-left-behind    end processes that the job leaves behind: SIGTERM, 5 s later SIGKILL\n"
    "      --root DIR           read the machine from a folder (also UMACTL_ROOT); the job is real, and so are its own figures\n"
    "      --version            print the version\n"
    "  -h, --help               print this\n"
    "\n"
    "There is no --json, because standard output is the job's (the document is run.json of the record), and no --from: a job starts now.\n"
    "\n"
    "Exit status: the job's own; 128+n when signal n ended it; 75 refused by the gate; 125 umactl failed; 126 the job cannot be executed;\n"
    "127 not found.\n";

enum {
    OPTION_NEED = UMA_OPTION_OWN,
    OPTION_WAIT,
    OPTION_NAME,
    OPTION_CSV,
    OPTION_INTERVAL,
    OPTION_PLAIN,
    OPTION_KILL,
    OPTION_END,
    OPTION_LOAD_WINDOW,
    OPTION_KEEP_FREE,
    OPTION_WINDOW_HELPER,
    OPTION_VALVE,
    OPTION_NO_VALVE,
    OPTION_LIMIT,
    OPTION_FLOOR,
    OPTION_REPORT,
    OPTION_WARN,
    OPTION_JSON,
    OPTION_FROM
};

#define INTERVAL_LEAST 0.05 /* below this the sampling itself would be the load */
#define INTERVAL_MOST 86400.0

static int run(int argc, char **argv);

const struct uma_command uma_command_run = {
    .name = "run",
    .summary = "gate, launch, watch and record one job",
    .usage = usage,
    .run = run,
};

/* A mistake on the command line is umactl's failure, not the job's status: 125 as env(1) has it. */
static int mistake(const char *text, const char *value) {
    (void)uma_command_usage_error(&uma_command_run, "%s%s", text, value);
    return UMA_JOB_FAILED;
}

static int print(const char *s) {
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_append(&t, s);
    return uma_command_print(&t) < 0 ? UMA_JOB_FAILED : 0;
}

static int read_value(int option, struct uma_job_options *o, struct uma_error *err) {
    uint64_t bytes;
    double seconds;
    int r = 0;
    switch (option) {
    case OPTION_NEED:
        r = uma_parse_size(optarg, &bytes, err);
        if (r >= 0)
            o->need = (struct uma_u64){ bytes, UMA_KNOWN };
        return r;
    case OPTION_WAIT:
        r = uma_parse_duration(optarg, &seconds, err);
        if (r >= 0) {
            o->wait = seconds;
            o->has_wait = true;
        }
        return r;
    case OPTION_INTERVAL:
        r = uma_parse_duration(optarg, &seconds, err);
        if (r >= 0 && !(seconds >= INTERVAL_LEAST && seconds <= INTERVAL_MOST))
            return uma_error_text(err, EINVAL, "\"%.64s\" is out of range, expected 0.05 s to 1 d", optarg);
        if (r >= 0)
            o->interval = seconds;
        return r;
    case OPTION_LOAD_WINDOW:
    case OPTION_KEEP_FREE:
        return uma_follow_size_parse(optarg, option == OPTION_KEEP_FREE ? &o->keep_free : &o->load_window, err);
    case OPTION_WINDOW_HELPER:
        return uma_window_helper_parse(optarg, &o->window_helper, err);
    case OPTION_LIMIT:
        return uma_job_valve_limit_parse(optarg, &o->valve.limit, err);
    case OPTION_FLOOR:
        o->valve.has_floor = true;
        return uma_parse_size(optarg, &o->valve.floor, err);
    case OPTION_REPORT:
        return uma_job_valve_report_parse(optarg, &o->valve.report, err);
    case OPTION_WARN:
        return uma_job_warn_parse(optarg, &o->warn, err);
    default:
        return 0;
    }
}

/* ---- the command line ------------------------------------------------------------------------------------------- */

static const struct option options[] = {
    { "need", required_argument, NULL, OPTION_NEED },
    { "wait", required_argument, NULL, OPTION_WAIT },
    { "name", required_argument, NULL, OPTION_NAME },
    { "csv", required_argument, NULL, OPTION_CSV },
    { "interval", required_argument, NULL, OPTION_INTERVAL },
    { "plain", no_argument, NULL, OPTION_PLAIN },
    { "quiet", no_argument, NULL, 'q' },
    { "kill-with-umactl", no_argument, NULL, OPTION_KILL },
    { "end-left-behind", no_argument, NULL, OPTION_END },
    { "load-window", required_argument, NULL, OPTION_LOAD_WINDOW },
    { "keep-free", required_argument, NULL, OPTION_KEEP_FREE },
    { "window-helper", required_argument, NULL, OPTION_WINDOW_HELPER },
    { "valve", no_argument, NULL, OPTION_VALVE },
    { "no-valve", no_argument, NULL, OPTION_NO_VALVE },
    { "limit", required_argument, NULL, OPTION_LIMIT },
    { "floor", required_argument, NULL, OPTION_FLOOR },
    { "report", required_argument, NULL, OPTION_REPORT },
    { "warn", required_argument, NULL, OPTION_WARN },
    { "root", required_argument, NULL, UMA_OPTION_ROOT },
    { "json", no_argument, NULL, OPTION_JSON },
    { "from", required_argument, NULL, OPTION_FROM },
    { "version", no_argument, NULL, UMA_OPTION_VERSION },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

struct command_line {
    struct uma_job_options job;
    struct uma_common_options common;
    bool helper_asked;
};

enum { GO_ON = -1 }; /* no exit status */

/* Names that are empty would be files and records of no name. */
static bool empty(int option) {
    return (option == OPTION_NAME || option == OPTION_CSV || option == OPTION_WARN) && !optarg[0];
}

static int wrong_value(int option, const char *why) {
    const struct option *o = options;
    while (o->name && o->val != option)
        o++;
    (void)uma_command_usage_error(&uma_command_run, "--%s: %s", o->name ? o->name : "?", why);
    return UMA_JOB_FAILED;
}

/* What ends umactl here: an answer, or a mistake. `word`: the argument that getopt stopped at. */
static int leave(int option, const char *word) {
    switch (option) {
    case OPTION_JSON:
        return mistake("--json: standard output is the job's; run.json of its record is the document", "");
    case OPTION_FROM:
        return mistake("--from: a job starts now, not at a saved reading; umactl require --from asks one what fits", "");
    case UMA_OPTION_VERSION:
        return print("umactl " UMACTL_VERSION "\n");
    case 'h':
        return print(usage);
    case ':':
        return mistake("a value is missing after ", word);
    case '?':
        return mistake("unknown option ", word);
    default:
        return GO_ON;
    }
}

/* True: it was one that has no value, or any value. */
static bool take_plain(int option, struct command_line *line) {
    switch (option) {
    case OPTION_NAME:
        line->job.name = optarg;
        return true;
    case OPTION_CSV:
        line->job.csv = optarg;
        return true;
    case OPTION_PLAIN:
        line->job.plain = true;
        return true;
    case OPTION_KILL:
        line->job.die_with_umactl = true;
        return true;
    case OPTION_END:
        line->job.end_left_behind = true;
        return true;
    case OPTION_VALVE:
    case OPTION_NO_VALVE:
        line->job.valve.when = option == OPTION_VALVE ? UMA_JOB_VALVE_ALWAYS : UMA_JOB_VALVE_NEVER;
        return true;
    case 'q':
        line->job.quiet = true;
        return true;
    case UMA_OPTION_ROOT:
        line->common.root = optarg;
        return true;
    default:
        return false;
    }
}

/* GO_ON, or the exit status. */
static int read_line(int argc, char **argv, struct command_line *line) {
    struct uma_error err = { 0 };
    optind = 0; /* getopt starts anew; '+': the job's own options are not ours */
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "+:qh", options, NULL)) != -1;) {
        int status = leave(option, argv[optind - 1]);
        if (status != GO_ON)
            return status;
        if (empty(option))
            return wrong_value(option, "the name is empty");
        line->helper_asked = line->helper_asked || option == OPTION_WINDOW_HELPER;
        if (!take_plain(option, line) && read_value(option, &line->job, &err) < 0)
            return wrong_value(option, err.text);
    }
    return GO_ON;
}

static bool asks_valve(const struct uma_job_options *o) {
    return o->valve.limit || o->valve.has_floor || o->valve.report;
}

/* What does not go together. GO_ON, or the exit status. */
static int check_line(const struct command_line *line, bool has_job) {
    const struct uma_job_options *o = &line->job;
    struct uma_error err = { 0 };
    if (!has_job)
        return mistake("which job? umactl run [OPTION...] -- JOB [ARGUMENT...]", "");
    if (o->has_wait && o->need.validity != UMA_KNOWN)
        return mistake("--wait needs --need: without it there is nothing to wait for", "");
    if (o->csv && strcmp(o->csv, "-") == 0)
        return mistake("--csv -: standard output is the job's; give a file", "");
    if (line->helper_asked && !o->load_window && !o->keep_free)
        return mistake("--window-helper needs --load-window or --keep-free: without them nothing is evicted", "");
    if (o->valve.when == UMA_JOB_VALVE_NEVER && (o->valve.has_floor || o->valve.report))
        return mistake("--floor and --report are the valve's: with --no-valve nothing holds them", "");
    if (o->warn.file && uma_job_warn_file_check(o->warn.file, &err) < 0)
        return wrong_value(OPTION_WARN, err.text);
    return GO_ON;
}

static int run(int argc, char **argv) {
    struct command_line line = { .job = { .interval = 1 }, .common = { .root = getenv("UMACTL_ROOT") } };
    int status = read_line(argc, argv, &line);
    if (status == GO_ON)
        status = check_line(&line, optind < argc);
    if (status != GO_ON)
        return status;
    if (line.common.root && !line.common.root[0])
        line.common.root = NULL;
    if (asks_valve(&line.job) && line.job.valve.when != UMA_JOB_VALVE_NEVER)
        line.job.valve.when = UMA_JOB_VALVE_ALWAYS;
    line.job.argv = argv + optind;
    line.job.argc = argc - optind;
    line.job.observe = uma_command_observe_options(&line.common);
    return uma_job_run(&line.job);
}
