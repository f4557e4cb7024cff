/* SPDX-License-Identifier: MIT */
/*
 * layout.h - the pieces that text for people is made of: the output's style, numbers in columns, bars, wrapped paragraphs.
 * Knows nothing of machines. Numbers are made with integers, so that no locale changes them.
 */
#pragma once

#include "base/text.h"
#include "cmd/status.h"

enum uma_ink { UMA_INK_PLAIN, UMA_INK_BOLD, UMA_INK_DIM, UMA_INK_RED, UMA_INK_YELLOW, UMA_INK_GREEN, UMA_INK_CYAN };

/* Switch the ink on (and back with UMA_INK_PLAIN); nothing where there is no colour. */
void uma_layout_ink(struct uma_text *text, const struct uma_status_style *style, enum uma_ink ink);
/* "12.3": tenths of a GiB, rounded, without the unit. */
void uma_layout_gib(struct uma_text *text, uint64_t bytes);
/* A value right-aligned in `width` columns: GiB with one decimal, "?" unknown, "-" where there is no such thing. */
void uma_layout_gib_column(struct uma_text *text, struct uma_u64 value, size_t width);
/* "12.3 GiB", "4.0 MiB"; "?" unknown. */
void uma_layout_bytes(struct uma_text *text, struct uma_u64 value);
/* A plain number rounded to `decimals` (0..3), "?" unknown. */
void uma_layout_number(struct uma_text *text, struct uma_f64 value, unsigned decimals);
/* A bar of part/whole, at most `width` columns; something that is there has at least the thinnest bar. */
void uma_layout_bar(struct uma_text *text, const struct uma_status_style *style, uint64_t part, uint64_t whole, size_t width);
/*
 * A paragraph of hostile text: escaped, broken at spaces, every line begun with `indent` spaces (the first one is already begun and
 * stands at `indent`), ended with a newline. At most `lines` lines (0: as many as it takes), a cut shown.
 */
void uma_layout_wrap(struct uma_text *text, const struct uma_status_style *style, const char *s, size_t indent, unsigned lines);
/* The same of text whose hostile parts are escaped already (uma_text_safe). */
void uma_layout_wrap_escaped(struct uma_text *text, const struct uma_status_style *style, const char *s, size_t indent, unsigned lines);
/* Columns of the last, unfinished line of text (escape sequences of uma_layout_ink count nothing). */
size_t uma_layout_column(const struct uma_text *text);
/* Spaces up to a column; at least none. */
void uma_layout_to_column(struct uma_text *text, size_t column);
/* Lines of a finished text. */
size_t uma_layout_lines(const struct uma_text *text);
/* Cut every line to a number of columns; escape sequences of uma_layout_ink are kept. The last resort on narrow terminals. */
void uma_layout_clip(struct uma_text *text, size_t columns);
/* Replace what is not ASCII: for terminals that show nothing else. Columns stay as they were. */
void uma_layout_ascii(struct uma_text *text);
