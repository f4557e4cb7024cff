/* SPDX-License-Identifier: MIT */
/* valve.c - the line of environment that puts the valve before a program that umactl does not start, and the options that put it into a container. */
#include "base/units.h"
#include "cmd/command.h"
#include "job/preload_library.h"
#include "job/valve.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char usage[] =
    "usage: umactl valve --env|--docker [OPTION...]\n"
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
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Programs that were given the same line share one limit: print one for each job.\n"
    "\n"
    "Exit status: 0 printed, 2 usage, 3 the library is not to be found.\n";

enum { OPTION_ENV = UMA_OPTION_OWN, OPTION_DOCKER, OPTION_LIMIT, OPTION_FLOOR, OPTION_REPORT };

struct options {
    struct uma_common_options common;
    struct uma_job_valve_options valve;
    bool env, docker;
};

static int set_option(struct options *o, int option) {
    struct uma_error err = { 0 };
    switch (option) {
    case OPTION_ENV:
        o->env = true;
        return 0;
    case OPTION_DOCKER:
        o->docker = true;
        return 0;
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

/* What no other job has: 64 bits of chance. */
static int append_token(struct uma_text *text, struct uma_error *err) {
    uint64_t random;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return uma_error_set(err, errno, "a token for the job");
    uma_text_printf(text, ",token:%016llx", (unsigned long long)random);
    return 0;
}

static void append_preload(struct uma_text *text, const char *library, const char *before) {
    uma_text_printf(text, "LD_PRELOAD=%s", library);
    if (before && before[0] && !strpbrk(before, " \t\n'\"\\$`"))
        uma_text_printf(text, ":%s", before);
}

/* 0; 1: it could not be written, which was told; -errno. */
static int print_lines(const struct options *o, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 }, settings = { 0 };
    char library[PATH_MAX];
    int r = uma_library_find(&uma_library_valve, library, err);
    if (r < 0)
        return r;
    uma_job_valve_settings(&o->valve, &settings);
    r = append_token(&settings, err);
    if (r < 0)
        return r;
    if (o->docker) {
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

static int run(int argc, char **argv) {
    static const struct option table[] = { { "env", no_argument, NULL, OPTION_ENV },
                                           { "docker", no_argument, NULL, OPTION_DOCKER },
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
    if (options.env == options.docker)
        return uma_command_usage_error(&uma_command_valve, options.env ? "--env and --docker: give one of them"
                                                                       : "--env or --docker is missing: what is it for?");
    int r = print_lines(&options, &err);
    return r < 0 ? uma_command_fail("valve", UMA_EXIT_UNKNOWN, &err) : r ? UMA_EXIT_UNKNOWN : UMA_EXIT_OK;
}

const struct uma_command uma_command_valve = {
    "valve", "a clean CUDA out-of-memory instead of a frozen host, for programs that something else starts", usage, run
};
