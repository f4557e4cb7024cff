/* SPDX-License-Identifier: MIT */
/* `umactl cache`: its table of sub-commands, and the listing, which comes without one. */
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
    "  advise           what settings do to models on one pool, and which help\n"
    "\n"
    "`umactl cache COMMAND --help` lists the options of a command. The listing, which comes without one:\n"
    "\n"
    "      --json           one JSON document: every file that was found, and the models\n"
    "      --from FILE      a snapshot instead of the machine; - is standard input\n"
    "      --root DIR       a machine laid out as a folder (also UMACTL_ROOT)\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Exit status: 0 it could be read, 2 usage, 3 it could not, 130 ended by Ctrl-C: what was found by then is shown.\n";

/* ---- sub-commands ------------------------------------------------------------------------------------------- */

static const struct uma_command *const commands[] = {
    &uma_command_cache_follow,
    &uma_command_cache_advise,
    NULL, /* the table's end */
};

/* Their names are "cache WORD". */
static const char *word_of(const void *userdata, size_t i) {
    (void)userdata;
    return commands[i]->name + strlen("cache ");
}

static int unknown_word(const char *word) {
    if (strchr(word, '/') || strcmp(word, ".") == 0 || strcmp(word, "..") == 0)
        return uma_command_usage_error(&uma_command_cache, "unexpected argument \"%.200s\"; to look there, say --path", word);
    const char *nearest = uma_command_nearest(word, word_of, NULL, ELEMENTS(commands) - 1);
    if (nearest)
        return uma_command_usage_error(&uma_command_cache, "unknown command \"%.64s\"; did you mean \"cache %s\"?", word, nearest);
    return uma_command_usage_error(&uma_command_cache, "unknown command \"%.64s\"", word);
}

static int run(int argc, char **argv) {
    if (argc > 1 && argv[1][0] != '-') {
        for (size_t i = 0; i + 1 < ELEMENTS(commands); i++)
            if (strcmp(argv[1], word_of(NULL, i)) == 0)
                return commands[i]->run(argc - 1, argv + 1);
        return unknown_word(argv[1]);
    }
    struct uma_common_options common = { 0 };
    static const struct option table[] = { UMA_COMMON_OPTIONS, { 0 } };
    struct uma_option_reader reader = { .command = &uma_command_cache, .options = table, .letters = ":h", .common = &common };
    for (int c; (c = uma_option_next(&reader, argc, argv)) != -1;)
        if (c == UMA_OPTION_STOP)
            return reader.status;
    return uma_command_usage_error(&uma_command_cache, "say which of its commands");
}

const struct uma_command uma_command_cache = { "cache", "which files fill the page cache; evict exactly those", usage, run };
