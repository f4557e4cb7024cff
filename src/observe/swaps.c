/* SPDX-License-Identifier: MIT */
/*
 * /proc/swaps: a heading, then "path type size used priority" per swap area (mm/swapfile.c). Sizes are kB without a unit. Space, tab,
 * newline and backslash in the path are written as \ooo, so that a path is one word.
 */
#include "observe/lines.h"
#include "observe/memory.h"
#include "observe/source.h"

#include <limits.h>

static bool octal(char c) {
    return c >= '0' && c <= '7';
}

/* Undo \ooo. `n` was bounded by the caller; the result is never longer. */
static char *unescape(const char *s, size_t n, struct uma_arena *arena) {
    char plain[PATH_MAX];
    size_t out = 0;
    for (size_t i = 0; i < n; out++) {
        if (s[i] == '\\' && n - i >= 4 && s[i + 1] <= '3' && octal(s[i + 1]) && octal(s[i + 2]) && octal(s[i + 3])) {
            plain[out] = (char)((s[i + 1] - '0') << 6 | (s[i + 2] - '0') << 3 | (s[i + 3] - '0'));
            i += 4;
        } else {
            plain[out] = s[i++];
        }
    }
    return uma_arena_utf8(arena, plain, out);
}

/* 1: filled, 0: not such a line, -ENOMEM. */
static int read_swap(const struct uma_lines *lines, struct uma_arena *arena, struct uma_swap *ret_swap) {
    const char *word[5], *stop[5], *p = lines->line;
    for (size_t i = 0; i < ELEMENTS(word); i++) {
        word[i] = p;
        stop[i] = uma_word_end(p, lines->stop);
        if (stop[i] == word[i])
            return 0;
        p = uma_skip_blanks(stop[i], lines->stop);
    }
    struct uma_swap swap = { 0 };
    uint64_t size, used;
    if (p != lines->stop || !lines->whole || stop[0] - word[0] >= PATH_MAX || stop[1] - word[1] > 32 ||
        !uma_whole_u64(word[2], stop[2], &size) || !uma_whole_u64(word[3], stop[3], &used) || size > UMA_COUNT_MAX / 1024 || used > size ||
        uma_parse_i64(word[4], stop[4], &swap.priority) != stop[4])
        return 0;
    swap.size = size * 1024;
    swap.used = used * 1024;
    swap.path = unescape(word[0], (size_t)(stop[0] - word[0]), arena);
    swap.type = uma_arena_utf8(arena, word[1], (size_t)(stop[1] - word[1]));
    if (!swap.path || !swap.type)
        return -ENOMEM;
    *ret_swap = swap;
    return 1;
}

int uma_swaps_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, size_t *ret_n, struct uma_swap **ret_swaps,
                    struct uma_error *err) {
    struct uma_lines lines = uma_lines_of(text, length);
    if (!uma_lines_next(&lines) || !uma_starts_with(lines.line, lines.stop, "Filename", 8))
        return uma_error_text(err, EINVAL, "%s:1: expected the heading \"Filename Type Size Used Priority\"", file);
    struct uma_swap *swaps = NULL;
    size_t n = 0;
    int malformed = 0;
    while (uma_lines_next(&lines)) {
        if (lines.line == lines.stop)
            continue;
        if (!swaps && !(swaps = uma_arena_array(arena, UMA_SWAPS_MAX, sizeof(*swaps))))
            return uma_error_set(err, ENOMEM, "%s", file);
        struct uma_swap swap;
        int r = n < UMA_SWAPS_MAX ? read_swap(&lines, arena, &swap) : 0;
        if (r < 0)
            return uma_error_set(err, -r, "%s", file);
        if (r > 0) {
            swaps[n++] = swap;
            continue;
        }
        if (malformed++ == 0)
            (void)uma_error_text(err, EINVAL, "%s:%u: %s, found \"%.*s\"", file, lines.number,
                                 n == UMA_SWAPS_MAX ? "more swap areas than the kernel allows"
                                                    : "expected \"path type size used priority\"",
                                 UMA_SHOWN(lines.line, lines.stop));
    }
    *ret_n = n;
    *ret_swaps = swaps;
    return malformed;
}
