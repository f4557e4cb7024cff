/* SPDX-License-Identifier: MIT */
#include "cmd/guard.h"

#include "base/units.h"
#include "guard/policy_file.h"

#include <string.h>

static const char usage[] =
    "usage: umactl guard history [OPTION...]\n"
    "\n"
    "What the guard did and why, and what it would have done with a policy: the readings that it recorded, through its decision once more.\n"
    "\n"
    "      --since TIME     from so long ago on: 90m, 36h, 3d (default: 7d)\n"
    "      --policy FILE    replay with this policy, not with the one in force; to try one before it is used\n"
    "      --series FILE    replay the readings of this file (CSV: seconds,total,available,free; docs/guard.md), not those that were recorded\n"
    "      --all            with the numbers and the candidates of each decision\n"
    "      --json           print JSON\n"
    "      --state-folder FOLDER\n"
    "                       where the guard wrote it down (default: " UMA_GUARD_STATE_FOLDER ")\n"
    "      --root DIR       a machine laid out as a folder (also UMACTL_ROOT)\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Of what it would have done, only the first action of each episode can be told: the recorded machine is one on which nobody was stopped.\n"
    "\n"
    "Exit status: 0 it could be read, 2 usage, 3 it could not.\n";

static const struct uma_command *const self = &uma_command_guard_history;

enum { OPTION_SINCE = UMA_GUARD_OPTION_OWN, OPTION_ALL, OPTION_SERIES };

#define SINCE_DEFAULT (7 * 86400.0) /* a machine that stood near its floor for days has some of them recorded, another a month */
#define SINCE_MOST (10 * 365 * 86400.0)

struct options {
    struct uma_common_options common;
    struct uma_guard_places places;
    double since;
    bool has_since, all;
    const char *series; /* NULL: what was recorded */
};

struct answer {
    struct uma_guard_records records;
    struct uma_guard_replay replay;
    struct uma_guard_policy policy;
    bool has_records, has_replay;
    const char *series;
    struct uma_error no_records, no_replay;
};

/* ---- text --------------------------------------------------------------------------------------------------- */

/* Of a series: its own seconds, as wide as a date. */
static void time_text(struct uma_text *text, const struct answer *answer, int64_t time) {
    if (answer->series)
        uma_text_printf(text, "%17.2f s", (double)time / 1e9);
    else
        uma_guard_time_text(text, time);
}

static void episode_text(struct uma_text *text, const struct answer *answer, const struct uma_guard_episode *episode, bool all) {
    time_text(text, answer, episode->begin);
    uma_text_append(text, "  would: ");
    uma_guard_action_text(text, &episode->action, episode->whom.pid ? &episode->whom : NULL);
    uma_text_printf(text, ": %s; lowest then ", uma_guard_reason_word(episode->action.reason));
    uma_text_bytes(text, episode->lowest);
    uma_text_append(text, ", for ");
    uma_text_duration(text, (double)(episode->end - episode->begin) / 1e9);
    uma_text_char(text, '\n');
    if (!all)
        return;
    uma_text_pad(text, 21);
    uma_guard_evidence_text(text, &episode->evidence);
    uma_text_char(text, '\n');
}

static void replay_text(struct uma_text *text, const struct answer *answer, bool all) {
    const struct uma_guard_replay *replay = &answer->replay;
    uma_text_append(text, answer->series ? "WHAT IT WOULD HAVE DONE\n" : "\nWHAT IT WOULD HAVE DONE\n");
    if (!answer->has_replay) {
        uma_text_append(text, "Not known: ");
        (void)uma_text_safe(text, answer->no_replay.text, 0);
        uma_text_char(text, '\n');
        return;
    }
    if (!replay->readings) {
        uma_text_append(text, "Nothing is recorded of that time.\n");
        return;
    }
    for (size_t i = 0; i < replay->n; i++)
        episode_text(text, answer, &replay->list[i], all);
    if (replay->episodes > replay->n)
        uma_text_printf(text, "and %zu more\n", replay->episodes - replay->n);
    uma_text_printf(text, "%s%llu readings from ", replay->episodes ? "" : "Nothing to anybody. ", (unsigned long long)replay->readings);
    if (answer->series) {
        uma_text_printf(text, "%.2f s to %.2f s", (double)replay->first / 1e9, (double)replay->last / 1e9);
    } else {
        uma_guard_time_text(text, replay->first);
        uma_text_append(text, " to ");
        uma_guard_time_text(text, replay->last);
    }
    uma_text_append(text, ", at the lowest ");
    uma_text_bytes(text, replay->lowest);
    uma_text_append(text, " available.\n");
    if (replay->one_took_all)
        uma_text_append(text, "The series says nothing of anybody: it is as if one program had all that is taken.\n");
    if (replay->room)
        uma_text_printf(text, "It would have asked for room %llu times.\n", (unsigned long long)replay->room);
    if (replay->unknown)
        uma_text_printf(
            text,
            answer->series
                ? "At %llu readings in danger the series says nothing of anybody's memory.\n"
                : "At %llu readings in danger no table of processes was recorded: the guard was far from the floor that it had then.\n",
            (unsigned long long)replay->unknown);
    if (replay->bad)
        uma_text_printf(text, "%zu blocks of the recording could not be used.\n", replay->bad);
}

static void write_text(struct uma_text *text, const struct answer *answer, bool all) {
    if (answer->series) {
        replay_text(text, answer, all);
        return;
    }
    uma_text_append(text, "WHAT IT DID\n");
    if (!answer->has_records) {
        uma_text_append(text, "Not known: ");
        (void)uma_text_safe(text, answer->no_records.text, 0);
        uma_text_char(text, '\n');
    } else if (!answer->records.n)
        uma_text_append(text, "Nothing.\n");
    for (size_t i = 0; answer->has_records && i < answer->records.n; i++)
        uma_guard_record_text(text, &answer->records.list[i], all);
    if (answer->has_records && answer->records.bad)
        uma_text_printf(text, "%zu records could not be used.\n", answer->records.bad);
    replay_text(text, answer, all);
}

/* ---- JSON --------------------------------------------------------------------------------------------------- */

static void write_time(struct uma_json *json, const struct answer *answer, const char *key, int64_t time) {
    if (answer->series) /* whose first reading may be at 0 */
        uma_json_f64(json, key, (struct uma_f64){ (double)time / 1e9, UMA_KNOWN });
    else
        uma_json_time(json, key, time);
}

static void write_episode(struct uma_json *json, const struct answer *answer, const struct uma_guard_episode *episode) {
    uma_json_begin_object(json, NULL, false);
    write_time(json, answer, "begin", episode->begin);
    write_time(json, answer, "end", episode->end);
    uma_guard_action_json(json, "action", &episode->action);
    if (episode->whom.pid)
        uma_guard_candidate_json(json, "whom", &episode->whom);
    else
        uma_json_null(json, "whom");
    uma_guard_evidence_json(json, "evidence", &episode->evidence);
    uma_json_unsigned(json, "lowest", episode->lowest);
    uma_json_end_object(json);
}

static void write_replay(struct uma_json *json, const struct answer *answer) {
    const struct uma_guard_replay *replay = &answer->replay;
    uma_json_begin_object(json, "replay", false);
    uma_json_unsigned(json, "readings", replay->readings);
    write_time(json, answer, "first", replay->first);
    write_time(json, answer, "last", replay->last);
    uma_json_u64(json, "lowest", (struct uma_u64){ replay->lowest, replay->readings ? UMA_KNOWN : UMA_UNKNOWN });
    uma_json_unsigned(json, "episodes", replay->episodes);
    uma_json_begin_array(json, "list", false);
    for (size_t i = 0; i < replay->n; i++)
        write_episode(json, answer, &replay->list[i]);
    uma_json_end_array(json);
    uma_json_unsigned(json, "room", replay->room);
    uma_json_unsigned(json, "nobody_recorded", replay->unknown);
    uma_json_bool(json, "one_took_all", replay->one_took_all);
    uma_json_unsigned(json, "bad", replay->bad);
    uma_json_end_object(json);
}

static void write_json(struct uma_text *text, const struct answer *answer) {
    struct uma_json json = { .text = text };
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", "umactl.guard-history/1");
    uma_json_string(&json, "series", answer->series);
    if (answer->has_records) {
        uma_json_begin_array(&json, "records", false);
        for (size_t i = 0; i < answer->records.n; i++)
            uma_guard_record_json(&json, &answer->records.list[i]);
        uma_json_end_array(&json);
    } else
        uma_json_null(&json, "records");
    uma_json_u64(&json, "bad", (struct uma_u64){ answer->records.bad, answer->has_records ? UMA_KNOWN : UMA_UNKNOWN });
    if (answer->has_replay)
        write_replay(&json, answer);
    else
        uma_json_null(&json, "replay");
    uma_json_end_object(&json);
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static int read_all(const struct options *options, struct answer *answer, struct uma_error *err) {
    int64_t now = uma_now_ns(), back = (int64_t)(options->since * 1e9), since = back < now ? now - back : 0;
    answer->series = options->series;
    if (options->series) {
        int r = uma_guard_replay_series(options->series, &answer->policy, &answer->replay, err);
        answer->has_replay = r >= 0;
        return r;
    }
    answer->has_records =
        uma_guard_records_read(options->places.state_folder, since, UMA_GUARD_TRAIL_RECORDS, &answer->records, &answer->no_records) >= 0;
    answer->has_replay =
        uma_guard_replay_run(options->places.state_folder, since, &answer->policy, &answer->replay, &answer->no_replay) >= 0;
    if (answer->has_records || answer->has_replay)
        return 0;
    *err = answer->no_records;
    return -ENOENT;
}

static int show(const struct options *options, struct answer *answer) {
    struct uma_error err = { 0 };
    const char *root = options->common.root && strcmp(options->common.root, "/") != 0 ? options->common.root : "";
    int r = uma_guard_policy_load(root, options->places.policy, &answer->policy, &err);
    if (r >= 0)
        r = read_all(options, answer, &err);
    if (r < 0)
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    _cleanup_text_ struct uma_text text = { 0 };
    if (options->common.json)
        write_json(&text, answer);
    else
        write_text(&text, answer, options->all);
    return uma_command_print(&text) < 0 ? UMA_EXIT_UNKNOWN : UMA_EXIT_OK;
}

static int set(struct options *options, int c) {
    struct uma_error err = { 0 };
    if (c == OPTION_SINCE) {
        options->has_since = true;
        if (uma_parse_duration(optarg, &options->since, &err) < 0)
            return uma_command_usage_error(self, "--since: %s", err.text);
        return options->since > SINCE_MOST ? uma_command_usage_error(self, "--since: \"%.32s\" is out of range", optarg) : 0;
    }
    if (c == OPTION_ALL)
        options->all = true;
    if (c == OPTION_SERIES && !*optarg)
        return uma_command_usage_error(self, "--series: the name is empty");
    if (c == OPTION_SERIES)
        options->series = optarg;
    return uma_guard_places_option(self, &options->places, c) < 0 ? UMA_EXIT_USAGE : 0;
}

static int run(int argc, char **argv) {
    static const struct option table[] = { { "since", required_argument, NULL, OPTION_SINCE },
                                           { "policy", required_argument, NULL, UMA_GUARD_OPTION_POLICY },
                                           { "series", required_argument, NULL, OPTION_SERIES },
                                           { "all", no_argument, NULL, OPTION_ALL },
                                           { "state-folder", required_argument, NULL, UMA_GUARD_OPTION_STATE_FOLDER },
                                           { "json", no_argument, NULL, UMA_OPTION_JSON },
                                           { "root", required_argument, NULL, UMA_OPTION_ROOT },
                                           { "version", no_argument, NULL, UMA_OPTION_VERSION },
                                           { "help", no_argument, NULL, 'h' },
                                           { 0 } };
    struct options options = { .since = SINCE_DEFAULT };
    struct uma_error err = { 0 };
    struct uma_option_reader reader = { self, table, ":h", &options.common, false, 0 };
    for (int c; (c = uma_option_next(&reader, argc, argv)) != -1;) {
        int status = c == UMA_OPTION_STOP ? reader.status : set(&options, c);
        if (c == UMA_OPTION_STOP || status)
            return status;
    }
    if (options.series && (options.has_since || options.places.state_folder))
        return uma_command_usage_error(self, "--series replays a whole file: --since and --state-folder are of what was recorded");
    if (uma_guard_places_finish(&options.places, options.common.root, &err) < 0)
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    _cleanup_free_
    struct answer *answer = calloc(1, sizeof(*answer));
    if (!answer) {
        (void)uma_error_set(&err, ENOMEM, "reading the history");
        return uma_command_fail(self->name, UMA_EXIT_UNKNOWN, &err);
    }
    int status = show(&options, answer);
    uma_guard_records_done(&answer->records);
    return status;
}

const struct uma_command uma_command_guard_history = { "guard history", "what the guard did, and what a policy would have done", usage,
                                                       run };
