/* SPDX-License-Identifier: MIT */
/* `umactl guard`: its table of sub-commands, and the options that they share. Alone it is `umactl guard status`. */
#include "cmd/guard.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: umactl guard [COMMAND] [OPTION...]\n"
    "\n"
    "The guard keeps the machine from freezing for want of memory: uma-guard, a process of its own that systemd starts. It stops who grows,\n"
    "and lets go again; where that does not help it ends one job, and waits until its memory is really back. These commands speak to it and\n"
    "read what it wrote down.\n"
    "\n"
    "`umactl guard COMMAND --help` lists the options of a command:\n"
    "  status           is it running, how far is the floor, what does it hold, what did it do last (also without a command)\n"
    "  history          what it did and why, and what a policy would have done over the last days (also: umactl guard --history)\n"
    "  policy           the policy in force and which file set what; check one before it is used\n"
    "  test             try the whole path on a child of its own: stop, let go, end\n"
    "  release          have it let go of what it stopped\n"
    "  run              run uma-guard here, in the foreground\n"
    "\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Exit status: as the command's; 2 usage.\n";

static const struct uma_command *const commands[] = {
    &uma_command_guard_status, &uma_command_guard_history, &uma_command_guard_policy,
    &uma_command_guard_test,   &uma_command_guard_release, &uma_command_guard_run,
};

/* Their names are "guard WORD". */
static const char *word_of(const void *userdata, size_t i) {
    (void)userdata;
    return commands[i]->name + strlen("guard ");
}

static int unknown_word(const char *word) {
    const char *nearest = uma_command_nearest(word, word_of, NULL, ELEMENTS(commands));
    if (nearest)
        return uma_command_usage_error(&uma_command_guard, "unknown command \"%.64s\"; did you mean \"guard %s\"?", word, nearest);
    return uma_command_usage_error(&uma_command_guard, "unknown command \"%.64s\"", word);
}

static int help_alone(int argc, char **argv) {
    static const struct option table[] = { { "version", no_argument, NULL, UMA_OPTION_VERSION },
                                           { "help", no_argument, NULL, 'h' },
                                           { 0 } };
    struct uma_common_options common = { 0 };
    struct uma_option_reader reader = { .command = &uma_command_guard, .options = table, .letters = ":h", .common = &common };
    while (uma_option_next(&reader, argc, argv) != UMA_OPTION_STOP) {
    }
    return reader.status;
}

static int run(int argc, char **argv) {
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--version") == 0))
        return help_alone(2, argv);
    if (argc > 1 && strcmp(argv[1], "--history") == 0)
        return uma_command_guard_history.run(argc - 1, argv + 1);
    if (argc > 1 && argv[1][0] != '-') {
        for (size_t i = 0; i < ELEMENTS(commands); i++)
            if (strcmp(argv[1], word_of(NULL, i)) == 0)
                return commands[i]->run(argc - 1, argv + 1);
        return unknown_word(argv[1]);
    }
    return uma_command_guard_status.run(argc, argv);
}

const struct uma_command uma_command_guard = { "guard", "keep the machine from freezing: what the guard does, did and would do", usage,
                                               run };

/* ---- the options that several of them take ------------------------------------------------------------------ */

int uma_guard_places_option(const struct uma_command *command, struct uma_guard_places *places, int option) {
    const char **into = option == UMA_GUARD_OPTION_RUN_FOLDER     ? &places->run_folder
                        : option == UMA_GUARD_OPTION_STATE_FOLDER ? &places->state_folder
                        : option == UMA_GUARD_OPTION_POLICY       ? &places->policy
                                                                  : NULL;
    if (!into)
        return 0;
    if (!*optarg) {
        (void)uma_command_usage_error(command, "%s: the name is empty",
                                      option == UMA_GUARD_OPTION_RUN_FOLDER     ? "--run-folder"
                                      : option == UMA_GUARD_OPTION_STATE_FOLDER ? "--state-folder"
                                                                                : "--policy");
        return -EINVAL;
    }
    *into = optarg;
    return 1;
}

int uma_guard_places_read(struct uma_option_reader *reader, int argc, char **argv, struct uma_guard_places *places) {
    for (int c; (c = uma_option_next(reader, argc, argv)) != -1;) {
        if (c == UMA_OPTION_STOP)
            return reader->status;
        if (uma_guard_places_option(reader->command, places, c) < 0)
            return UMA_EXIT_USAGE;
    }
    return -1;
}

static int below_root(const char **folder, const char *standard, const char *root, char *into, size_t size, struct uma_error *err) {
    if (*folder)
        return 0;
    *folder = standard;
    if (!root || strcmp(root, "/") == 0)
        return 0;
    int n = snprintf(into, size, "%s%s", root, standard);
    if (n < 0 || (size_t)n >= size)
        return uma_error_text(err, ENAMETOOLONG, "%.128s...: the name is too long", root);
    *folder = into;
    return 0;
}

int uma_guard_places_finish(struct uma_guard_places *places, const char *root, struct uma_error *err) {
    int r = below_root(&places->run_folder, UMA_GUARD_RUN_FOLDER, root, places->below_root[0], sizeof(places->below_root[0]), err);
    return r < 0
               ? r
               : below_root(&places->state_folder, UMA_GUARD_STATE_FOLDER, root, places->below_root[1], sizeof(places->below_root[1]), err);
}

/* ---- the program -------------------------------------------------------------------------------------------- */

int uma_guard_program_find(char ret_path[PATH_MAX], struct uma_error *err) {
    static const char *const beside[] = { "uma-guard", "guard/uma-guard", "../sbin/uma-guard" };
    const char *named = secure_getenv("UMACTL_GUARD");
    char own[PATH_MAX];
    if (named && *named) {
        if (snprintf(ret_path, PATH_MAX, "%s", named) >= PATH_MAX)
            return uma_error_set(err, ENAMETOOLONG, "UMACTL_GUARD");
        return access(ret_path, X_OK) == 0 ? 0 : uma_error_set(err, errno, "%.400s (named by UMACTL_GUARD)", named);
    }
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own));
    while (n > 0 && own[n - 1] != '/')
        n--;
    for (size_t i = 0; i < ELEMENTS(beside) && n > 0; i++)
        if (snprintf(ret_path, PATH_MAX, "%.*s%s", (int)n, own, beside[i]) < PATH_MAX && access(ret_path, X_OK) == 0)
            return 0;
    return uma_error_text(err, ENOENT, "uma-guard is neither beside this program nor in ../sbin (UMACTL_GUARD names another place)");
}
