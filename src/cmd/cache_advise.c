/* SPDX-License-Identifier: MIT */
#include "cmd/cache_advise.h"

#include "base/units.h"
#include "cmd/cache.h"
#include "record/tuning_record.h"

#include <string.h>

static const char usage[] =
    "usage: umactl cache advise [OPTION...] [--apply|--sysctl [NAME[,NAME...]]...]\n"
    "       umactl cache advise --undo [--force] [--json]\n"
    "\n"
    "What the settings of memory, swap, disks, driver and loaders do to models on one pool: a verdict for each, why, from which source, and the value that\n"
    "helps. Changes nothing without --apply.\n"
    "\n"
    "      --all            also explain what is ok\n"
    "      --apply [NAME]   set what helps, or exactly the settings named (swappiness, vm.swappiness) where a value is advised; what was before is\n"
    "                       kept for --undo. Root\n"
    "      --undo           take back what --apply set; what somebody changed since is told and left alone. Root\n"
    "      --force          with --undo: take that back too\n"
    "      --sysctl [NAME]  print these settings as a file for /etc/sysctl.d; writes nothing\n"
    "      --json           one JSON document\n"
    "      --from FILE      a snapshot instead of the machine (it has no settings); - is standard input\n"
    "      --root DIR       a machine laid out as a folder (also UMACTL_ROOT)\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "What is set lasts until a restart. Exit status: 0 it could be read, or all was done; 1 a change was not made, not allowed, or left alone;\n"
    "2 usage; 3 it could not be read, or the record of changes is broken.\n";

enum { OPTION_ALL = UMA_OPTION_OWN, OPTION_APPLY, OPTION_UNDO, OPTION_FORCE, OPTION_SYSCTL };

struct options {
    struct uma_common_options common;
    bool all, apply, undo, force, sysctl;
    int n_names;
    char **names; /* words; each may hold several, with commas */
};

struct reading {
    struct uma_snapshot snapshot;
    struct uma_arena *arena;
    struct uma_tuning tuning;
    struct uma_advice_list advice;
};

/* Settings, advice and what became of changes: some hundred short texts, and command lines that were split (account/command_words.h). */
#define ARENA_BYTES_MAX (64 * UMA_MIB)

static void reading_done(struct reading *reading) {
    uma_snapshot_done(&reading->snapshot);
    reading->arena = uma_arena_free(reading->arena);
}

static int read_tuning(const struct options *options, struct reading *reading, struct uma_error *err) {
    if (options->common.from)
        return 0; /* all unknown: a snapshot has no settings */
    _cleanup_root_ struct uma_root *root = NULL;
    int r = uma_root_open(options->common.root, NULL, &root, err);
    return r < 0 ? r : uma_tuning_read(root, reading->arena, &reading->tuning, err);
}

static int reading_take(const struct options *options, struct reading *ret_reading, struct uma_error *err) {
    struct reading reading = { .arena = uma_arena_new(ARENA_BYTES_MAX) };
    if (!reading.arena)
        return uma_error_set(err, ENOMEM, "weighing the settings");
    int r = uma_command_snapshot_take(&options->common, UMA_READ_MEMORY | UMA_READ_PROCESSES | UMA_READ_PLATFORM, &reading.snapshot, err);
    if (r < 0) {
        (void)uma_arena_free(reading.arena);
        return r;
    }
    r = read_tuning(options, &reading, err);
    if (r >= 0)
        r = uma_advise(&reading.tuning, &reading.snapshot, reading.arena, &reading.advice, err);
    if (r < 0) {
        reading_done(&reading);
        return r;
    }
    *ret_reading = reading;
    return 0;
}

static int print(const struct uma_text *text) {
    return uma_command_print(text) < 0 ? UMA_EXIT_UNKNOWN : UMA_EXIT_OK;
}

/* ---- changing ------------------------------------------------------------------------------------------------- */

static struct uma_tune_place place_of(const struct reading *reading) {
    const char *boot = reading->snapshot.platform.boot_id;
    return (struct uma_tune_place){ .prefix = "", .state = uma_tuning_state(), .boot_id = boot ? boot : "" };
}

/* A right that is missing is a "no", with the commands for whoever has it; a record that is broken is not known to be anything. */
static int refused(const struct options *options, const struct uma_advise_selection *s, int r, const struct uma_error *err) {
    bool rights = r == -EACCES || r == -EPERM || r == -EROFS;
    (void)uma_command_fail("cache advise", 0, err);
    if (rights && s && s->n && !options->common.json) {
        _cleanup_text_ struct uma_text text = { 0 };
        uma_text_append(&text, "Nothing was changed. Whoever may change settings does it with\n");
        for (size_t i = 0; i < s->n; i++) {
            uma_text_append(&text, "  ");
            (void)uma_text_safe(&text, s->list[i]->command ? s->list[i]->command : "", 0);
            uma_text_char(&text, '\n');
        }
        (void)print(&text);
    }
    return r == -EINVAL ? UMA_EXIT_UNKNOWN : UMA_EXIT_NO;
}

static int results_print(const struct options *options, const struct uma_tune_results *results) {
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_status_style style = uma_status_style_of(STDOUT_FILENO);
    if (options->common.json)
        uma_tune_json(&(struct uma_json){ .text = &text }, results, options->undo);
    else
        uma_tune_text(&text, results, options->undo, &style);
    int status = print(&text);
    return status == UMA_EXIT_OK && results->incomplete ? UMA_EXIT_NO : status;
}

/* What was named and has no value to set stands with what was set. */
static bool with_unset(const struct uma_advise_selection *s, struct uma_arena *arena, struct uma_tune_results *results) {
    struct uma_tune_result *list = uma_arena_array(arena, MAX_OF(results->n + s->n_unset, (size_t)1), sizeof *list);
    if (!list)
        return false;
    for (size_t i = 0; i < results->n; i++)
        list[i] = results->list[i];
    for (size_t i = 0; i < s->n_unset; i++)
        list[results->n + i] = (struct uma_tune_result){
            .id = s->unset[i]->id, .path = s->unset[i]->path, .outcome = UMA_TUNE_NONE, .error = uma_advise_unset_why(s->unset[i], arena)
        };
    for (size_t i = 0; i < s->n_unset; i++)
        results->incomplete |= s->unset[i]->verdict != UMA_VERDICT_OK;
    results->list = list;
    results->n += s->n_unset;
    return true;
}

static int apply(const struct options *options, const struct reading *reading) {
    struct uma_advise_selection s = { 0 };
    struct uma_tune_wish wishes[UMA_TUNING_CHANGES_MAX];
    struct uma_tune_results results = { 0 };
    struct uma_error err = { 0 };
    int status = uma_advise_select(&reading->advice, options->names, options->n_names, &s);
    if (status)
        return status;
    for (size_t i = 0; i < s.n; i++)
        wishes[i] = (struct uma_tune_wish){ s.list[i]->id, s.list[i]->path, s.list[i]->recommended };
    struct uma_tune_place place = place_of(reading);
    int r = s.n ? uma_tune_apply(&place, wishes, s.n, reading->arena, &results, &err) : 0;
    if (r < 0)
        return refused(options, &s, r, &err);
    if (!with_unset(&s, reading->arena, &results))
        return uma_command_fail("cache advise", UMA_EXIT_UNKNOWN, NULL);
    return results_print(options, &results);
}

static int undo(const struct options *options, const struct reading *reading) {
    struct uma_tune_results results = { 0 };
    struct uma_error err = { 0 };
    struct uma_tune_place place = place_of(reading);
    int r = uma_tune_undo(&place, options->force, reading->arena, &results, &err);
    return r < 0 ? refused(options, NULL, r, &err) : results_print(options, &results);
}

/* ---- telling -------------------------------------------------------------------------------------------------- */

/* Is it one of the names, of which each word may hold several? Without names all are meant. */
static bool named(const struct options *options, const struct uma_tuning_change *change) {
    for (int i = 0; i < options->n_names; i++)
        for (const char *p = options->names[i]; *p; p += strcspn(p, ","), p += *p == ',')
            if (uma_advise_named(change->id, change->path, p, strcspn(p, ",")))
                return true;
    return options->n_names == 0;
}

/* What --apply has set is no advice any more, and is what people want to keep. */
static int add_recorded(const struct options *options, const struct reading *reading, const struct uma_advise_selection *s,
                        struct uma_text *text, struct uma_error *err) {
    if (options->common.from || options->common.root)
        return 0;
    struct uma_tuning_record *record = uma_arena_alloc(reading->arena, sizeof *record);
    if (!record)
        return uma_error_set(err, ENOMEM, "reading the record of changes");
    int r = uma_tuning_record_peek(uma_tuning_state(), record, err);
    const char *boot = reading->snapshot.platform.boot_id;
    if (r <= 0 || (boot && record->boot_id[0] && strcmp(boot, record->boot_id) != 0))
        return r;
    for (size_t i = 0; i < record->n; i++) {
        char now[UMA_TUNABLE_VALUE_MAX];
        bool chosen = !named(options, &record->changes[i]);
        for (size_t k = 0; k < s->n; k++)
            chosen |= strcmp(s->list[k]->path, record->changes[i].path) == 0;
        if (!chosen && uma_tunable_read("", record->changes[i].path, now, NULL) == 0 && strcmp(now, record->changes[i].set) == 0)
            uma_sysctl_line(text, record->changes[i].path, record->changes[i].set);
    }
    return 0;
}

static int sysctl(const struct options *options, const struct reading *reading) {
    struct uma_advise_selection s = { 0 };
    struct uma_error err = { 0 };
    _cleanup_text_ struct uma_text lines = { 0 };
    _cleanup_text_ struct uma_text text = { 0 };
    int status = uma_advise_select(&reading->advice, options->names, options->n_names, &s);
    if (status)
        return status;
    for (size_t i = 0; i < s.n; i++)
        uma_sysctl_line(&lines, s.list[i]->path, s.list[i]->recommended);
    for (size_t i = 0; i < s.n_unset; i++) {
        if (s.unset[i]->verdict != UMA_VERDICT_OK)
            status = UMA_EXIT_NO;
        uma_text_printf(&lines, "# %s: %s\n", s.unset[i]->id, uma_advise_unset_why(s.unset[i], reading->arena));
    }
    if (add_recorded(options, reading, &s, &lines, &err) < 0)
        return uma_command_fail("cache advise", UMA_EXIT_UNKNOWN, &err);
    uma_text_append(&text, "# umactl cache advise --sysctl, for a file in /etc/sysctl.d; `sudo sysctl --system` reads it\n");
    for (const char *line = lines.data; line && *line;) {
        size_t n = strcspn(line, "\n");
        _cleanup_free_
        char *one = strndup(line, n); /* names of disks may be anybody's */
        (void)uma_text_safe(&text, one ? one : "", 0);
        uma_text_char(&text, '\n');
        line += n + (line[n] == '\n');
    }
    if (!lines.data || !lines.length)
        uma_text_append(&text, "# nothing to set\n");
    text.failed |= lines.failed;
    int printed = print(&text);
    return printed == UMA_EXIT_OK ? status : printed;
}

static int list(const struct options *options, const struct reading *reading) {
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_status_style style = uma_status_style_of(STDOUT_FILENO);
    if (options->common.json)
        uma_advise_json(&(struct uma_json){ .text = &text }, &reading->advice);
    else
        uma_advise_text_write(&text, &reading->advice, &(struct uma_advise_view){ options->all, options->common.from != NULL }, &style);
    return print(&text);
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

static int check(const struct options *o) {
    const struct uma_command *c = &uma_command_cache_advise;
    if (o->apply + o->undo + o->sysctl > 1)
        return uma_command_usage_error(c, "--apply, --undo and --sysctl are three things: give one of them");
    if (o->n_names && !o->apply && !o->sysctl)
        return uma_command_usage_error(c, "\"%.64s\": names of settings go with --apply or --sysctl", o->names[0]);
    if ((o->apply || o->undo) && (o->common.from || o->common.root))
        return uma_command_usage_error(c, "--%s changes this machine, not %s", o->apply ? "apply" : "undo",
                                       o->common.from ? "a snapshot" : "a folder (--root or UMACTL_ROOT)");
    if (o->force && !o->undo)
        return uma_command_usage_error(c, "--force goes with --undo: it takes back what somebody changed since");
    if (o->sysctl && o->common.json)
        return uma_command_usage_error(c, "--sysctl prints a file for sysctl, --json a document: give one of them");
    return 0;
}

static int run(int argc, char **argv) {
    static const struct option table[] = { UMA_COMMON_OPTIONS,
                                           { "all", no_argument, NULL, OPTION_ALL },
                                           { "apply", no_argument, NULL, OPTION_APPLY },
                                           { "undo", no_argument, NULL, OPTION_UNDO },
                                           { "force", no_argument, NULL, OPTION_FORCE },
                                           { "sysctl", no_argument, NULL, OPTION_SYSCTL },
                                           { 0 } };
    struct options options = { 0 };
    struct uma_option_reader reader = {
        .command = &uma_command_cache_advise, .options = table, .letters = ":h", .common = &options.common, .takes_arguments = true
    };
    for (int c; (c = uma_option_next(&reader, argc, argv)) != -1;) {
        if (c == UMA_OPTION_STOP)
            return reader.status;
        options.all |= c == OPTION_ALL;
        options.apply |= c == OPTION_APPLY;
        options.undo |= c == OPTION_UNDO;
        options.force |= c == OPTION_FORCE;
        options.sysctl |= c == OPTION_SYSCTL;
    }
    options.names = argv + optind;
    options.n_names = argc - optind;
    int status = check(&options);
    if (status)
        return status;
    struct uma_error err = { 0 };
    struct reading reading;
    if (reading_take(&options, &reading, &err) < 0)
        return uma_command_fail("cache advise", UMA_EXIT_UNKNOWN, &err);
    status = (options.apply ? apply : options.undo ? undo : options.sysctl ? sysctl : list)(&options, &reading);
    reading_done(&reading);
    return status;
}

const struct uma_command uma_command_cache_advise = { "cache advise", "what settings do to models on one pool, and which help", usage,
                                                      run };
