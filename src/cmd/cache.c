/* SPDX-License-Identifier: MIT */
/* `umactl cache`: its table of sub-commands, and the listing, which is what it does without one. */
#include "cmd/cache.h"

#include "base/units.h"
#include "cmd/layout.h"

#include <string.h>

static const char usage[] =
    "usage: umactl cache [OPTION...]\n"
    "       umactl cache COMMAND [OPTION...]\n"
    "\n"
    "Which files fill the page cache, and what to do about exactly those.\n"
    "\n"
    "`umactl cache COMMAND --help` lists the options of a command:\n"
    "  evict            take files, models or all of it out of the cache, with a receipt\n"
    "  follow           keep what a job has loaded from filling the cache while it loads\n"
    "  advise           what settings do to models on one pool, and which help\n"
    "\n"
    "The listing looks at open and mapped files of all processes, at the usual model stores, and at block devices.\n"
    "\n"
    "      --path DIR       also look through this folder or at this file; may be given again\n"
    "      --all            also walk every local file system\n"
    "      --timeout TIME   end the search after this time and show what was found (30 s; 0: never)\n"
    "      --files          a row for each file, not for each model\n"
    "      --limit N        rows that are shown (20; 0: all)\n"
    "      --json           one JSON document: every file that was found, and the models\n"
    "      --from FILE      a snapshot instead of the machine; - is standard input\n"
    "      --root DIR       a machine laid out as a folder (also UMACTL_ROOT)\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Exit status: 0 it could be read, 2 usage, 3 it could not, 130 ended by Ctrl-C: what was found by then is shown.\n";

/* ---- sub-commands ------------------------------------------------------------------------------------------- */

static const struct uma_command *const commands[] = {
    &uma_command_cache_evict,
    &uma_command_cache_follow,
    &uma_command_cache_advise,
};

/* Their names are "cache WORD". */
static const char *word_of(const void *userdata, size_t i) {
    (void)userdata;
    return commands[i]->name + strlen("cache ");
}

static int unknown_word(const char *word) {
    if (strchr(word, '/') || strcmp(word, ".") == 0 || strcmp(word, "..") == 0)
        return uma_command_usage_error(&uma_command_cache, "unexpected argument \"%.200s\"; to look there, say --path", word);
    const char *nearest = uma_command_nearest(word, word_of, NULL, ELEMENTS(commands));
    if (nearest)
        return uma_command_usage_error(&uma_command_cache, "unknown command \"%.64s\"; did you mean \"cache %s\"?", word, nearest);
    return uma_command_usage_error(&uma_command_cache, "unknown command \"%.64s\"", word);
}

/* ---- the listing -------------------------------------------------------------------------------------------- */

enum { OPTION_PATH = UMA_OPTION_OWN, OPTION_ALL, OPTION_TIMEOUT, OPTION_FILES, OPTION_LIMIT };

/* Default of --timeout: a person waits that long; a warm file system of a million files is walked in less. */
#define TIMEOUT_SECONDS 30.0
#define TIMEOUT_MOST 86400.0
enum { ROWS_SHOWN = 20 }; /* a screen */

struct options {
    struct uma_common_options common;
    struct uma_cache_view view;
    const char **paths; /* as many as there are arguments */
    size_t n_paths;
    bool all, has_timeout;
};

static void print_text(struct uma_text *text, const struct options *options, const struct uma_cache_listing *listing) {
    struct uma_status_style style = uma_status_style_of(STDOUT_FILENO);
    uma_cache_text(text, listing, &options->view, &style);
    if (!style.utf8)
        uma_layout_ascii(text);
}

static int list(struct options *options) {
    struct uma_error err = { 0 };
    struct uma_cache_listing listing;
    struct uma_page_cache_request request = { .processes = true,
                                              .stores = true,
                                              .devices = true,
                                              .everywhere = options->all,
                                              .paths = options->paths,
                                              .n_paths = options->n_paths,
                                              /* a whole disk of files without cache is nothing that was asked for */
                                              .resident_only = options->all && options->n_paths == 0,
                                              .seconds = options->view.timeout,
                                              .progress = uma_cache_search_progress };
    uma_cache_catch_signals();
    int r = uma_cache_listing_read(&options->common, &request, &listing, &err);
    uma_cache_progress_end();
    if (r < 0)
        return uma_command_fail("cache", UMA_EXIT_UNKNOWN, &err);
    int signal_number = uma_cache_signal();
    options->view.interrupted = signal_number != 0 && !listing.recorded;
    options->view.privileged = geteuid() == 0 && !listing.recorded; /* who recorded it is not known */
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_json json = { .text = &text };
    if (options->common.json)
        uma_cache_json(&json, &listing, &options->view);
    else
        print_text(&text, options, &listing);
    uma_cache_listing_done(&listing);
    if (uma_command_print(&text) < 0)
        return UMA_EXIT_UNKNOWN;
    return signal_number ? 128 + signal_number : UMA_EXIT_OK;
}

static int set(struct options *options, int c) {
    struct uma_error err = { 0 };
    switch (c) {
    case OPTION_PATH:
        if (!*optarg)
            return uma_command_usage_error(&uma_command_cache, "--path: the name is empty");
        options->paths[options->n_paths++] = optarg;
        break;
    case OPTION_TIMEOUT:
        if (uma_parse_duration(optarg, &options->view.timeout, &err) < 0)
            return uma_command_usage_error(&uma_command_cache, "--timeout: %s", err.text);
        if (options->view.timeout > TIMEOUT_MOST)
            return uma_command_usage_error(&uma_command_cache, "--timeout: \"%.32s\" is out of range, expected at most 1 d", optarg);
        options->has_timeout = true;
        break;
    case OPTION_LIMIT:
        if (uma_parse_u64_all(optarg, &options->view.limit) < 0)
            return uma_command_usage_error(&uma_command_cache, "--limit: \"%.32s\" is no number of rows", optarg);
        break;
    case OPTION_ALL:
        options->all = true;
        break;
    default: /* OPTION_FILES: there is no other */
        options->view.files = true;
        break;
    }
    return 0;
}

static int list_run(int argc, char **argv) {
    static const struct option table[] = { UMA_COMMON_OPTIONS,
                                           { "path", required_argument, NULL, OPTION_PATH },
                                           { "all", no_argument, NULL, OPTION_ALL },
                                           { "timeout", required_argument, NULL, OPTION_TIMEOUT },
                                           { "files", no_argument, NULL, OPTION_FILES },
                                           { "limit", required_argument, NULL, OPTION_LIMIT },
                                           { 0 } };
    _cleanup_free_
    const char **paths = calloc((size_t)argc + 1, sizeof(*paths));
    struct options options = { .paths = paths, .view = { .limit = ROWS_SHOWN, .timeout = TIMEOUT_SECONDS } };
    struct uma_option_reader reader = { .command = &uma_command_cache, .options = table, .letters = ":h", .common = &options.common };
    struct uma_error err = { 0 };
    if (!paths) {
        (void)uma_error_set(&err, ENOMEM, "reading the options");
        return uma_command_fail("cache", UMA_EXIT_UNKNOWN, &err);
    }
    for (int c; (c = uma_option_next(&reader, argc, argv)) != -1;) {
        int status = c == UMA_OPTION_STOP ? reader.status : set(&options, c);
        if (c == UMA_OPTION_STOP || status)
            return status;
    }
    if ((options.common.from || options.common.root) && (options.n_paths || options.all || options.has_timeout))
        return uma_command_usage_error(&uma_command_cache, "%s looks at this machine, %s shows what was recorded: give one of them",
                                       options.n_paths ? "--path"
                                       : options.all   ? "--all"
                                                       : "--timeout",
                                       options.common.from ? "--from" : "--root");
    return list(&options);
}

static int run(int argc, char **argv) {
    if (argc > 1 && argv[1][0] != '-') {
        for (size_t i = 0; i < ELEMENTS(commands); i++)
            if (strcmp(argv[1], word_of(NULL, i)) == 0)
                return commands[i]->run(argc - 1, argv + 1);
        return unknown_word(argv[1]);
    }
    return list_run(argc, argv);
}

const struct uma_command uma_command_cache = { "cache", "which files fill the page cache; evict exactly those", usage, run };
