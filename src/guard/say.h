/* SPDX-License-Identifier: MIT */
/*
 * say.h - the guard's lines on stderr, made in a buffer on the stack: no allocation, no lock, no stdio. Where stderr is the journal's (JOURNAL_STREAM) each begins with its level, "<4>".
 * Never waited for: a reader that is behind (a journal that itself waits for memory) loses lines, and the next that comes through says how many.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum uma_guard_level {
    UMA_GUARD_ERROR = 3,
    UMA_GUARD_WARNING = 4,
    UMA_GUARD_NOTICE = 5,
    UMA_GUARD_INFO = 6
}; /* as sd-daemon(3) and syslog(3) number them */

enum { UMA_GUARD_LINE_MAX = 512 }; /* below PIPE_BUF (4096, pipe(7)): a line goes into a pipe whole or not at all */

struct uma_guard_line {
    size_t length;
    char text[UMA_GUARD_LINE_MAX];
};

/* Looks at JOURNAL_STREAM once. */
void uma_guard_say_open(void);
/* Is stderr the journal's? */
bool uma_guard_say_to_journal(void);

void uma_guard_line_begin(struct uma_guard_line *line, enum uma_guard_level level);
/* What is too long is cut. */
void uma_guard_line_text(struct uma_guard_line *line, const char *text);
/* A name of the machine's: at most `max` bytes of it, in quotes; all that is not printable ASCII, quotes and backslashes as \xHH. */
void uma_guard_line_name(struct uma_guard_line *line, const char *name, size_t max);
void uma_guard_line_number(struct uma_guard_line *line, int64_t value);
void uma_guard_line_unsigned(struct uma_guard_line *line, uint64_t value);
void uma_guard_line_bytes(struct uma_guard_line *line, uint64_t bytes); /* "812 MiB", "12.3 GiB" */
void uma_guard_line_time(struct uma_guard_line *line, int64_t ns);      /* "3.2 ms", "12.0 s" */
void uma_guard_line_error(struct uma_guard_line *line, int code);       /* ": Permission denied" of a negative errno; nothing for 0 */
/* Ends the line and writes it. */
void uma_guard_say(struct uma_guard_line *line);
/* One line of words, with the text of a negative errno where `code` is one. */
void uma_guard_say_text(enum uma_guard_level level, const char *text, int code);
