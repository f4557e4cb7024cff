/* SPDX-License-Identifier: MIT */
/*
 * valve.c - the line of environment that puts the valve before a program that umactl does not start, the options that put it into a container, and the driver's own limit
 * (valve_limits.h).
 */
#include "base/units.h"
#include "cmd/command.h"
#include "cmd/valve_limits.h"
#include "job/preload_library.h"
#include "job/valve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: umactl valve --env|--docker [OPTION...]\n"
    "       umactl valve --probe [--json] [--root DIR]\n"
    "       umactl valve --set --limit N|--get|--release --pid PID|--cgroup DIR [--json] [--root DIR]\n"
    "\n"
    "The valve stands between a program and the CUDA driver: a call that would take the machine below its floor, or the program over its\n"
    "limit, is answered with CUDA's own out of memory. umactl run --valve starts a job behind it; this is for what something else starts.\n"
    "\n"
    "      --env            print the environment that puts it before a program and all it starts: env $(umactl valve --env) JOB\n"
    "      --docker         print the options for docker run (or podman) that do the same in a container\n"
    "      --limit N        what the program and all it starts may take by CUDA calls together: 96G and 96GiB are binary, 96GB is decimal\n"
    "                       (default: no limit)\n"
    "      --floor N        what stays available to the machine (default: a thirty-second of it, at least 0.5 and at most 4 GiB)\n"
    "      --report HOW     what cuMemGetInfo and NVML say: what the program may still take (pool), what the driver says (raw), or pool where\n"
    "                       the GPU's memory is the machine's (auto, the default)\n"
    "\n"
    "      --probe          try what holds a limit here: the valve, and the driver itself (NVML memory limits, driver r615 and newer, as root)\n"
    "      --set            have the driver hold the cgroup v2 group of a container, or any other, to --limit N; as root\n"
    "      --get            what the driver holds it to, and what is in use\n"
    "      --release        take the driver's limit back\n"
    "      --pid PID        the group that this process is in; for a container that is a leaf of its own\n"
    "      --cgroup DIR     the group by its folder\n"
    "      --json           print JSON (of --probe, --set, --get, --release)\n"
    "      --root DIR       read the machine's dmem files and groups from a folder (also UMACTL_ROOT)\n"
    "\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Programs that were given the same line share one limit: print one for each job.\n"
    "\n"
    "Exit status: 0 printed, done, or a limit is held; 1 no: nothing holds one, or the driver refused; 2 usage; 3 not known, or the library is\n"
    "not to be found.\n";

enum {
    OPTION_ENV = UMA_OPTION_OWN,
    OPTION_DOCKER,
    OPTION_PROBE,
    OPTION_SET,
    OPTION_GET,
    OPTION_RELEASE,
    OPTION_PID,
    OPTION_CGROUP,
    OPTION_LIMIT,
    OPTION_FLOOR,
    OPTION_REPORT
};

struct options {
    struct uma_common_options common;
    struct uma_job_valve_options valve;
    unsigned asked; /* bits of what it is for */
    struct uma_valve_limit_options group;
};

#define BIT(option) (1u << ((option)-OPTION_ENV))

static int set_pid(struct options *o) {
    uint64_t pid;
    if (uma_parse_u64_all(optarg, &pid) < 0 || pid == 0 || pid > INT32_MAX)
        return uma_command_usage_error(&uma_command_valve, "--pid: \"%.64s\" is not the number of a process", optarg);
    o->group.pid = (int)pid;
    return 0;
}

static int set_option(struct options *o, int option) {
    struct uma_error err = { 0 };
    switch (option) {
    case OPTION_ENV:
    case OPTION_DOCKER:
    case OPTION_PROBE:
    case OPTION_SET:
    case OPTION_GET:
    case OPTION_RELEASE:
        o->asked |= BIT(option);
        return 0;
    case OPTION_CGROUP:
        o->group.cgroup = optarg;
        return 0;
    case OPTION_PID:
        return set_pid(o);
    case OPTION_LIMIT:
        return uma_job_valve_limit_parse(optarg, &o->valve.limit, &err) < 0
                   ? uma_command_usage_error(&uma_command_valve, "--limit: %s", err.text)
                   : 0;
    case OPTION_FLOOR:
        o->valve.has_floor = true;
        return uma_parse_size(optarg, &o->valve.floor, &err) < 0 ? uma_command_usage_error(&uma_command_valve, "--floor: %s", err.text) : 0;
    case OPTION_REPORT:
        return uma_job_valve_report_parse(optarg, &o->valve.report, &err) < 0
                   ? uma_command_usage_error(&uma_command_valve, "--report: %s", err.text)
                   : 0;
    default:
        return 0;
    }
}

/* What was preloaded before stays, one name after the other by colons, because the line is split at spaces. */
static void append_preload(struct uma_text *text, const char *library, const char *before) {
    uma_text_printf(text, "LD_PRELOAD=%s", library);
    if (before && strpbrk(before, "'\"\\$`*?[")) {
        (void)fprintf(stderr, "umactl valve: LD_PRELOAD as it is cannot be said in a line for a shell: it is left out\n");
        return;
    }
    while (before && *(before += strspn(before, " \t\n:"))) {
        size_t n = strcspn(before, " \t\n:");
        uma_text_printf(text, ":%.*s", (int)n, before);
        before += n;
    }
}

/* 0; 1: it could not be written, which was told; -errno. */
static int print_lines(const struct options *o, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 }, settings = { 0 };
    char library[PATH_MAX], token[UMA_JOB_VALVE_TOKEN];
    int r = uma_library_find(&uma_library_valve, library, err);
    if (r < 0)
        return r;
    uma_job_valve_settings(&o->valve, &settings);
    r = uma_job_valve_token(token, err);
    if (r < 0)
        return r;
    uma_text_printf(&settings, ",token:%s", token);
    if (o->asked & BIT(OPTION_DOCKER)) {
        uma_text_printf(&text, "-v %s:%s:ro -e ", library, library);
        append_preload(&text, library, NULL);
        uma_text_printf(&text, " -e " UMA_VALVE_VARIABLE "=%s\n", settings.failed ? "" : settings.data);
    } else {
        append_preload(&text, library, getenv("LD_PRELOAD"));
        uma_text_printf(&text, " " UMA_VALVE_VARIABLE "=%s\n", settings.failed ? "" : settings.data);
    }
    if (text.failed || settings.failed)
        return uma_error_set(err, ENOMEM, "printing");
    return uma_command_print(&text) < 0 ? 1 : 0;
}

#define ON_GROUP (BIT(OPTION_SET) | BIT(OPTION_GET) | BIT(OPTION_RELEASE))

/* What does not go together. 0, or the exit status. */
static int check(struct options *o) {
    bool on_group = o->asked & ON_GROUP, lines = o->asked & (BIT(OPTION_ENV) | BIT(OPTION_DOCKER));
    if (!o->asked)
        return uma_command_usage_error(&uma_command_valve,
                                       "--env, --docker, --probe, --set, --get or --release is missing: what is it for?");
    if (o->asked & (o->asked - 1))
        return uma_command_usage_error(&uma_command_valve, "--env, --docker, --probe, --set, --get, --release: give one of them");
    if (lines && o->common.json)
        return uma_command_usage_error(&uma_command_valve, "--json: --env and --docker print a line for a shell");
    if (on_group != (o->group.pid || o->group.cgroup) || (o->group.pid && o->group.cgroup))
        return uma_command_usage_error(&uma_command_valve, on_group ? "which group? give --pid or --cgroup, one of them"
                                                                    : "--pid and --cgroup go with --set, --get and --release");
    if (!!(o->asked & BIT(OPTION_SET)) > !!o->valve.limit)
        return uma_command_usage_error(&uma_command_valve, "--set needs --limit: to what?");
    if (!lines && (o->valve.has_floor || o->valve.report || (o->valve.limit && !(o->asked & BIT(OPTION_SET)))))
        return uma_command_usage_error(&uma_command_valve,
                                       "--limit, --floor and --report go with --env and --docker, --limit also with --set");
    o->group.limit = o->valve.limit;
    o->group.action = o->asked & BIT(OPTION_SET)   ? UMA_VALVE_LIMIT_SET
                      : o->asked & BIT(OPTION_GET) ? UMA_VALVE_LIMIT_GET
                                                   : UMA_VALVE_LIMIT_RELEASE;
    return 0;
}

static int run(int argc, char **argv) {
    static const struct option table[] = { { "env", no_argument, NULL, OPTION_ENV },
                                           { "docker", no_argument, NULL, OPTION_DOCKER },
                                           { "probe", no_argument, NULL, OPTION_PROBE },
                                           { "set", no_argument, NULL, OPTION_SET },
                                           { "get", no_argument, NULL, OPTION_GET },
                                           { "release", no_argument, NULL, OPTION_RELEASE },
                                           { "pid", required_argument, NULL, OPTION_PID },
                                           { "cgroup", required_argument, NULL, OPTION_CGROUP },
                                           { "json", no_argument, NULL, UMA_OPTION_JSON },
                                           { "root", required_argument, NULL, UMA_OPTION_ROOT },
                                           { "limit", required_argument, NULL, OPTION_LIMIT },
                                           { "floor", required_argument, NULL, OPTION_FLOOR },
                                           { "report", required_argument, NULL, OPTION_REPORT },
                                           { "version", no_argument, NULL, UMA_OPTION_VERSION },
                                           { "help", no_argument, NULL, 'h' },
                                           { 0 } };
    struct options options = { 0 };
    struct uma_error err = { 0 };
    struct uma_option_reader reader = { .command = &uma_command_valve, .options = table, .letters = ":h", .common = &options.common };
    for (int c; (c = uma_option_next(&reader, argc, argv)) != -1;) {
        if (c == UMA_OPTION_STOP)
            return reader.status;
        int status = set_option(&options, c);
        if (status)
            return status;
    }
    int status = check(&options);
    if (status)
        return status;
    struct uma_observe_options observe = uma_command_observe_options(&options.common);
    if (options.asked & BIT(OPTION_PROBE))
        return uma_valve_probe(&observe, options.common.json);
    if (options.asked & ON_GROUP)
        return uma_valve_limit(&observe, &options.group, options.common.json);
    int r = print_lines(&options, &err);
    return r < 0 ? uma_command_fail("valve", UMA_EXIT_UNKNOWN, &err) : r ? UMA_EXIT_UNKNOWN : UMA_EXIT_OK;
}

const struct uma_command uma_command_valve = {
    "valve", "a clean CUDA out-of-memory instead of a frozen host, for programs that something else starts", usage, run
};
