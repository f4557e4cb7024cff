/* SPDX-License-Identifier: MIT */
/*
 * text.h - growing text, and the escaping that hostile names need before they reach a terminal.
 * A struct uma_text starts zeroed, grows by itself and remembers running out of memory in `failed` (nothing is lost silently:
 * check it once at the end). Contents are NUL-terminated at all times once non-empty.
 */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool uma_ends_with(const char *s, const char *ending) {
    size_t n = strlen(s), m = strlen(ending);
    return n >= m && strcmp(s + n - m, ending) == 0;
}

/* Does the path lie below the folder? By its letters; `folder` is not "/" and does not end in one. */
static inline bool uma_path_is_below(const char *path, const char *folder) {
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

struct uma_text {
    char *data;
    size_t length, capacity;
    bool failed;
};

void uma_text_done(struct uma_text *text);
/* Empty and not failed, as a new one, but with its memory. */
void uma_text_reset(struct uma_text *text);
/* Room for `more` bytes and the NUL behind them; false, and the text has failed, when there is none. */
bool uma_text_reserve(struct uma_text *text, size_t more);
void uma_text_append(struct uma_text *text, const char *s);
void uma_text_append_n(struct uma_text *text, const char *s, size_t n);
void uma_text_char(struct uma_text *text, char c);
void uma_text_printf(struct uma_text *text, const char *format, ...) UMA_PRINTF(2, 3);
void uma_text_pad(struct uma_text *text, size_t n); /* n spaces */

/*
 * Append s for a terminal: control characters (C0, DEL, C1) and bidirectional overrides become \n, \t, \x1b, \u202e; bytes that are not
 * UTF-8 become \xHH. A backslash becomes two, so that no other name looks like these; but for those of \x80 to \xff, which are such bytes where a name comes from
 * a snapshot. Once: what went through it is escaped, and does not go through it again. At most max_columns columns (a cut is shown by "…"); 0: no
 * limit. Returns the columns written.
 */
size_t uma_text_safe(struct uma_text *text, const char *s, size_t max_columns);
/* The same of text that is escaped already: only cut. */
size_t uma_text_cut(struct uma_text *text, const char *escaped, size_t max_columns);
/* Columns of escaped text. Wide characters count 2, combining marks 0. */
size_t uma_text_columns(const char *escaped);

/*
 * For the one line that must come out when memory has run out: s into `buffer`, NUL-terminated and cut at its end, with '?' for whatever is
 * not printable ASCII. Returns the length.
 */
size_t uma_text_copy_plain(char *buffer, size_t size, const char *s);

/* Length of the valid UTF-8 sequence at s (1..4), or 0 when there is none (overlong, surrogate, cut off, beyond U+10FFFF). */
size_t uma_utf8_sequence(const char *s, size_t n);

static inline void uma_cleanup_text(struct uma_text *t) {
    uma_text_done(t);
}
#define _cleanup_text_ _cleanup_(uma_cleanup_text)

/* ---- colour ------------------------------------------------------------------------------------------------- */

/* True when stdout is a terminal, NO_COLOR is unset or empty and TERM is not "dumb". */
bool uma_colour_wanted(int fd);
