/* SPDX-License-Identifier: MIT */
#include "cmd/guard.h"

#include "base/units.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: umactl guard release [PID] [OPTION...]\n"
    "\n"
    "Have the guard let go of what it stopped: all of it, or the tree of processes that begins at PID. It keeps from stopping them again for a\n"
    "while; who grows on will then be ended where the machine needs it.\n"
    "\n"
    "      --run-folder FOLDER\n"
    "                       where the guard listens (default: " UMA_GUARD_RUN_FOLDER ")\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Exit status: 0 it goes on, 1 nobody was stopped, or no guard runs, 2 usage, 3 the guard does not answer, or not to this user.\n";

static const struct uma_command *const self = &uma_command_guard_release;

static int release(const char *run_folder, uint64_t pid) {
    struct uma_guard_told told;
    struct uma_error err = { 0 };
    char question[32] = "release", value[32], line[64];
    uint64_t released;
    if (pid)
        (void)snprintf(question, sizeof(question), "release %llu", (unsigned long long)pid);
    int r = uma_guard_ask_it(run_folder, question, &told, &err);
    if (r < 0)
        return uma_command_fail(self->name, r == -ENOENT || r == -ECONNREFUSED ? UMA_EXIT_NO : UMA_EXIT_UNKNOWN, &err);
    if (!uma_guard_told_value(&told, "released", 0, value, sizeof(value)) || uma_parse_u64_all(value, &released) < 0) {
        bool said = uma_guard_told_value(&told, "error", 0, line, sizeof(line));
        (void)uma_error_text(&err, EPROTO, "the guard's answer is not one to this: %s", said ? line : "it says nothing of it");
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    }
    _cleanup_text_ struct uma_text text = { 0 };
    if (released)
        uma_text_printf(&text, "%llu process%s go%s on.\n", (unsigned long long)released, released == 1 ? "" : "es",
                        released == 1 ? "es" : "");
    else
        uma_text_append(&text, pid ? "It is not stopped by the guard.\n" : "Nobody is stopped.\n");
    if (uma_command_print(&text) < 0)
        return UMA_EXIT_UNKNOWN;
    return released ? UMA_EXIT_OK : UMA_EXIT_NO;
}

static int run(int argc, char **argv) {
    static const struct option table[] = { { "run-folder", required_argument, NULL, UMA_GUARD_OPTION_RUN_FOLDER },
                                           { "version", no_argument, NULL, UMA_OPTION_VERSION },
                                           { "help", no_argument, NULL, 'h' },
                                           { 0 } };
    struct uma_common_options common = { 0 };
    struct uma_guard_places places = { 0 };
    uint64_t pid = 0;
    struct uma_option_reader reader = { self, table, ":h", &common, true, 0 };
    int stop = uma_guard_places_read(&reader, argc, argv, &places);
    if (stop >= 0)
        return stop;
    if (argc - optind > 1)
        return uma_command_usage_error(self, "unexpected argument \"%.64s\": one PID, or none for all", argv[optind + 1]);
    if (optind < argc && (uma_parse_u64_all(argv[optind], &pid) < 0 || pid == 0 || pid > INT32_MAX))
        return uma_command_usage_error(self, "\"%.64s\" is not the number of a process", argv[optind]);
    (void)uma_guard_places_finish(&places, NULL, NULL);
    return release(places.run_folder, pid);
}

const struct uma_command uma_command_guard_release = { "guard release", "have the guard let go of what it stopped", usage, run };
