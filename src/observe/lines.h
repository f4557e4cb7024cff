/* SPDX-License-Identifier: MIT */
/*
 * lines.h - walking the lines of a text from the kernel, or of what is left of one after it went through a terminal, a forum and an
 * editor: CRLF, a byte order mark, indentation and a last line that was cut off. Nothing is copied; nothing past `end` is read.
 */
#pragma once

#include "base/units.h"
#include "base/values.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The newline that ends the line at s, or `end`. For formats whose lines are taken as they are; others are walked with struct uma_lines. */
static inline const char *uma_line_end(const char *s, const char *end) {
    const char *newline = memchr(s, '\n', (size_t)(end - s));
    return newline ? newline : end;
}

/* Is `word` one of the comma-separated words of [s, end)? */
static inline bool uma_list_has(const char *s, const char *end, const char *word) {
    size_t n = strlen(word);
    for (const char *comma; s <= end; s = comma + 1) {
        comma = s < end ? memchr(s, ',', (size_t)(end - s)) : NULL;
        comma = comma ? comma : end;
        if ((size_t)(comma - s) == n && memcmp(s, word, n) == 0)
            return true;
    }
    return false;
}

struct uma_lines {
    const char *at, *end; /* what is left */
    unsigned number;      /* of the line last given, from 1 */
    const char *line;     /* the line last given, without white space around it; not NUL-terminated */
    const char *stop;     /* its end */
    bool whole;           /* it ended in a newline; a line that did not may have been cut anywhere, also within a number */
};

static inline struct uma_lines uma_lines_of(const char *text, size_t length) {
    struct uma_lines lines = { .at = text, .end = text + length };
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        lines.at += 3;
    return lines;
}

static inline bool uma_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static inline const char *uma_skip_blanks(const char *s, const char *end) {
    while (s < end && uma_is_blank(*s))
        s++;
    return s;
}

/* The first blank in [s, end), or end. */
static inline const char *uma_word_end(const char *s, const char *end) {
    while (s < end && !uma_is_blank(*s))
        s++;
    return s;
}

/* False at the end. Lines may be empty. */
static inline bool uma_lines_next(struct uma_lines *lines) {
    if (lines->at >= lines->end)
        return false;
    const char *newline = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
    lines->whole = newline != NULL;
    lines->stop = newline ? newline : lines->end;
    lines->line = uma_skip_blanks(lines->at, lines->stop);
    lines->at = newline ? newline + 1 : lines->end;
    while (lines->stop > lines->line && uma_is_blank(lines->stop[-1]))
        lines->stop--;
    lines->number++;
    return true;
}

static inline bool uma_starts_with(const char *s, const char *end, const char *prefix, size_t n) {
    return (size_t)(end - s) >= n && memcmp(s, prefix, n) == 0;
}

/* "8:1", the numbers of a device in decimal, as sysfs and mountinfo write them. What follows them, or NULL. */
static inline const char *uma_parse_device(const char *s, const char *end, uint32_t *ret_major, uint32_t *ret_minor) {
    uint64_t first, second;
    const char *p = uma_parse_u64(s, end, &first);
    if (!p || p == end || *p != ':' || !(p = uma_parse_u64(p + 1, end, &second)) || first > UINT32_MAX || second > UINT32_MAX)
        return NULL;
    *ret_major = (uint32_t)first;
    *ret_minor = (uint32_t)second;
    return p;
}

/* A table of "key value" lines: where the value of a key belongs. */
struct uma_key {
    const char *key;
    size_t length, offset;
};

/* The row of a key, `n` when there is none. Lines come in the table's order nearly always, so the search starts where the last one
 * ended. */
static inline size_t uma_key_find(const struct uma_key *table, size_t n, const char *key, size_t length, size_t hint) {
    for (size_t k = 0; k < n; k++) {
        size_t i = hint + k < n ? hint + k : hint + k - n;
        if (table[i].length == length && memcmp(table[i].key, key, length) == 0)
            return i;
    }
    return n;
}

/*
 * Bytes and counts are kept up to 2^63 - 1: no machine has more, JSON readers hold integers as signed, and a "negative" counter of the
 * kernel (printed as unsigned long) is beyond it and so is seen as what it is.
 */
#define UMA_COUNT_MAX ((uint64_t)INT64_MAX)

/* The whole of [s, end), blanks around it allowed, as a number; NULL-safe test for "this is not what the format says". */
static inline bool uma_whole_u64(const char *s, const char *end, uint64_t *ret_value) {
    uint64_t v;
    const char *p = uma_parse_u64(uma_skip_blanks(s, end), end, &v);
    if (!p || uma_skip_blanks(p, end) != end || v > UMA_COUNT_MAX)
        return false;
    *ret_value = v;
    return true;
}

/*
 * The number that the line "KEY:   123 ..." begins with in a text of such lines (meminfo, /proc/PID/io, status); what stands behind it is not looked at.
 * UMA_ABSENT: no such line; UMA_MALFORMED: no number there.
 */
static inline struct uma_u64 uma_lines_number(const char *text, size_t length, const char *key) {
    size_t n = strlen(key);
    for (struct uma_lines lines = uma_lines_of(text, length); uma_lines_next(&lines);) {
        if (!uma_starts_with(lines.line, lines.stop, key, n) || lines.line + n == lines.stop || lines.line[n] != ':')
            continue;
        uint64_t value;
        bool is_number = uma_parse_u64(uma_skip_blanks(lines.line + n + 1, lines.stop), lines.stop, &value) != NULL;
        return is_number ? uma_known_u64(value) : uma_no_u64(UMA_MALFORMED);
    }
    return uma_no_u64(UMA_ABSENT);
}

/* "123 kB" as bytes (the kernel's kB is 1024 bytes); false when it is anything else or does not fit. */
static inline bool uma_whole_kilobytes(const char *s, const char *end, uint64_t *ret_bytes) {
    uint64_t v;
    const char *p = uma_parse_u64(uma_skip_blanks(s, end), end, &v);
    if (!p)
        return false;
    p = uma_skip_blanks(p, end);
    if (end - p != 2 || memcmp(p, "kB", 2) != 0 || v > UMA_COUNT_MAX / 1024)
        return false;
    *ret_bytes = v * 1024;
    return true;
}

/* At most this many bytes of a text that was not understood are shown in the message about it. */
#define UMA_SHOWN_MAX 40
#define UMA_SHOWN(s, end) (int)MIN_OF((size_t)((end) - (s)), (size_t)UMA_SHOWN_MAX), (s)
