/* SPDX-License-Identifier: MIT */
/* The small formats that settings are shown in. */
#include "base/values.h"
#include "observe/lines.h"
#include "observe/tuning.h"

#include <string.h>

static bool is_white(char c) {
    return uma_is_blank(c) || c == '\n';
}

bool uma_choice_parse(const char *text, size_t length, const char **ret_start, size_t *ret_length) {
    const char *end = text + length, *open = memchr(text, '[', length), *close;
    if (open && (close = memchr(open, ']', (size_t)(end - open))) && close > open + 1) {
        *ret_start = open + 1;
        *ret_length = (size_t)(close - open - 1);
        return true;
    }
    while (text < end && is_white(*text))
        text++;
    while (end > text && is_white(end[-1]))
        end--;
    for (const char *p = text; p < end; p++)
        if (is_white(*p) || *p == '[' || *p == ']')
            return false; /* several words and none is marked */
    *ret_start = text;
    *ret_length = (size_t)(end - text);
    return end > text;
}

bool uma_command_line_find(const char *text, size_t length, const char *name, const char **ret_start, size_t *ret_length) {
    const char *end = text + length, *p = text;
    size_t n = strlen(name);
    bool found = false;
    while (p < end) {
        while (p < end && is_white(*p))
            p++;
        /* A word ends at white space outside double quotes (lib/cmdline.c, next_arg). */
        const char *word = p;
        for (bool quoted = false; p < end && (quoted || !is_white(*p)); p++)
            if (*p == '"')
                quoted = !quoted;
        if ((size_t)(p - word) <= n || memcmp(word, name, n) != 0 || word[n] != '=')
            continue;
        const char *value = word + n + 1, *stop = p;
        if (value < stop && *value == '"')
            value++;
        if (stop > value && stop[-1] == '"')
            stop--;
        *ret_start = value;
        *ret_length = (size_t)(stop - value);
        found = true;
    }
    return found;
}

struct uma_u64 uma_nvidia_pools_parse(const char *text, size_t length) {
    static const char key[] = "EnableSystemMemoryPools:";
    struct uma_lines lines = uma_lines_of(text, length);
    while (uma_lines_next(&lines)) {
        uint64_t v;
        if (!uma_starts_with(lines.line, lines.stop, key, sizeof key - 1))
            continue;
        return uma_whole_u64(lines.line + sizeof key - 1, lines.stop, &v) ? uma_known_u64(v) : uma_no_u64(UMA_MALFORMED);
    }
    return uma_no_u64(UMA_ABSENT); /* a driver before the pools: up to 580 (nv-reg.h) */
}

struct uma_u64 uma_memlock_parse(const char *text, size_t length) {
    static const char key[] = "Max locked memory";
    struct uma_lines lines = uma_lines_of(text, length);
    while (uma_lines_next(&lines)) {
        if (!uma_starts_with(lines.line, lines.stop, key, sizeof key - 1))
            continue;
        const char *word = uma_skip_blanks(lines.line + sizeof key - 1, lines.stop), *stop = uma_word_end(word, lines.stop);
        uint64_t v;
        if (stop - word == 9 && memcmp(word, "unlimited", 9) == 0)
            return uma_no_u64(UMA_UNLIMITED);
        return uma_whole_u64(word, stop, &v) ? uma_known_u64(v) : uma_no_u64(UMA_MALFORMED);
    }
    return uma_no_u64(UMA_MALFORMED);
}

bool uma_zram_stat_parse(const char *text, size_t length, uint64_t *ret_stored, uint64_t *ret_memory_used) {
    struct uma_lines lines = uma_lines_of(text, length);
    uint64_t column[3];
    if (!uma_lines_next(&lines))
        return false;
    const char *p = lines.line;
    for (size_t i = 0; i < ELEMENTS(column); i++) {
        const char *stop = uma_word_end(p, lines.stop);
        if (!uma_whole_u64(p, stop, &column[i]))
            return false;
        p = uma_skip_blanks(stop, lines.stop);
    }
    *ret_stored = column[0];
    *ret_memory_used = column[2]; /* compressed data and what the allocator wastes */
    return true;
}
