/* SPDX-License-Identifier: MIT */
#include "cmd/command.h"

#include "base/standard_files.h"

#include <stdio.h>
#include <string.h>

enum { NEAREST_MAX = 24 }; /* longer words are no slip of a name of ours; also the size of the table below */

/* Edits (insert, delete, replace, swap of two neighbours) from a to b: optimal string alignment, three rows kept. */
static size_t edits(const char *a, size_t n_a, const char *b, size_t n_b) {
    size_t rows[3][NEAREST_MAX + 1];
    for (size_t j = 0; j <= n_b; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = MIN_OF(best, above[j] + 1);
            best = MIN_OF(best, row[j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = MIN_OF(best, above2[j - 2] + 1);
            row[j] = best;
        }
    }
    return rows[n_a % 3][n_b];
}

const char *uma_command_nearest(const char *word, const char *(*name_of)(const void *userdata, size_t i), const void *userdata, size_t n) {
    size_t length = strnlen(word, NEAREST_MAX + 1), best = SIZE_MAX;
    const char *nearest = NULL;
    if (length == 0 || length > NEAREST_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const char *name = name_of(userdata, i);
        size_t l = strnlen(name, NEAREST_MAX + 1);
        if (l > NEAREST_MAX)
            continue;
        size_t d = edits(word, length, name, l);
        if (length >= 3 && length < l && strncmp(word, name, length) == 0)
            d = 1; /* the beginning of a name: it was on the way there */
        /* a third of the name wrong is a slip, more is another word */
        if (d <= MAX_OF((size_t)1, l / 3) && d < best) {
            best = d;
            nearest = name;
        }
    }
    return nearest;
}

static const char *command_name(const void *userdata, size_t i) {
    const struct uma_command *const *table = userdata;
    return table[i]->name;
}

static int help(const struct uma_command *const *table, size_t n) {
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_append(&t, "usage: umactl [COMMAND] [OPTION...]\n\n"
                        "Memory and heat of machines whose CPU and GPU share one pool of memory.\n\n");
    for (size_t i = 0; i < n; i++)
        uma_text_printf(&t, "  %-10s %s\n", table[i]->name, table[i]->summary);
    uma_text_printf(&t,
                    "\n`umactl` alone is `umactl %s`. `umactl COMMAND --help` lists a command's options.\n"
                    "Exit status: 0 yes or done, 1 no, 2 usage, 3 unknown (could not be read).\n",
                    table[0]->name);
    return uma_command_print(&t) < 0 ? UMA_EXIT_UNKNOWN : UMA_EXIT_OK;
}

int uma_command_dispatch(const struct uma_command *const *table, size_t n, int argc, char **argv) {
    static char *alone[] = { NULL, NULL };
    uma_standard_files_guard();
    if (argc < 2) {
        (void)memcpy(&alone[0], &table[0]->name, sizeof(alone[0])); /* argv is not const for historical reasons only */
        return table[0]->run(1, alone);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help(table, n);
    if (strcmp(argv[1], "--version") == 0) {
        _cleanup_text_ struct uma_text t = { 0 };
        uma_text_append(&t, "umactl " UMACTL_VERSION "\n");
        return uma_command_print(&t) < 0 ? UMA_EXIT_UNKNOWN : UMA_EXIT_OK;
    }
    for (size_t i = 0; i < n; i++)
        if (strcmp(argv[1], table[i]->name) == 0)
            return table[i]->run(argc - 1, argv + 1);

    _cleanup_text_ struct uma_text t = { 0 };
    const char *nearest = uma_command_nearest(argv[1], command_name, (const void *)table, n);
    uma_text_append(&t, argv[1][0] == '-' ? "umactl: unknown option \"" : "umactl: unknown command \"");
    (void)uma_text_safe(&t, argv[1], 64);
    uma_text_append(&t, "\"");
    if (nearest)
        uma_text_printf(&t, "; did you mean \"%s\"?", nearest);
    uma_text_append(&t, argv[1][0] == '-' ? " (options stand after the command)\n" : "\n");
    uma_text_append(&t, "umactl: `umactl --help` lists the commands\n");
    (void)uma_command_write(STDERR_FILENO, t.data ? t.data : "", t.length);
    return UMA_EXIT_USAGE;
}
