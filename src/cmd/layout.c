/* SPDX-License-Identifier: MIT */
#include "cmd/layout.h"

#include "base/units.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>

/* Columns of an output that is no terminal: what a mail, an issue or a log shows without wrapping. */
enum { COLUMNS_NO_TERMINAL = 100, COLUMNS_DEFAULT = 80, ROWS_DEFAULT = 24, COLUMNS_LEAST = 40, COLUMNS_MOST = 400 };

struct uma_status_style uma_status_style_of(int fd) {
    struct uma_status_style style = { .columns = COLUMNS_NO_TERMINAL };
    /* Only the character set is taken from the locale: numbers must not follow it. */
    (void)setlocale(LC_CTYPE, "");
    style.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    style.colour = uma_colour_wanted(fd);
    struct winsize size = { 0 };
    if (isatty(fd) != 1)
        return style;
    bool known = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    style.columns = known ? MIN_OF(MAX_OF((unsigned)size.ws_col, (unsigned)COLUMNS_LEAST), (unsigned)COLUMNS_MOST) : COLUMNS_DEFAULT;
    style.rows = known ? size.ws_row : ROWS_DEFAULT;
    return style;
}

void uma_layout_ink(struct uma_text *text, const struct uma_status_style *style, enum uma_ink ink) {
    static const char *const codes[] = { "\033[0m", "\033[1m", "\033[2m", "\033[1;31m", "\033[33m", "\033[32m", "\033[36m" };
    if (style->colour)
        uma_text_append(text, codes[ink]);
}

void uma_layout_gib(struct uma_text *text, uint64_t bytes) {
    uma_text_fixed(text, (double)bytes / (double)UMA_GIB, 1);
}

static const char *no_value(enum uma_validity validity) {
    return validity == UMA_ABSENT ? "-" : validity == UMA_UNLIMITED ? "max" : "?";
}

void uma_layout_gib_column(struct uma_text *text, struct uma_u64 value, size_t width) {
    _cleanup_text_ struct uma_text cell = { 0 };
    if (uma_usable(value.validity))
        uma_layout_gib(&cell, value.value);
    else
        uma_text_append(&cell, no_value(value.validity));
    uma_text_pad(text, width > cell.length ? width - cell.length : 0);
    uma_text_append(text, cell.data ? cell.data : "");
}

void uma_layout_bytes(struct uma_text *text, struct uma_u64 value) {
    if (uma_usable(value.validity))
        uma_text_bytes(text, value.value);
    else
        uma_text_append(text, no_value(value.validity));
}

void uma_layout_number(struct uma_text *text, struct uma_f64 value, unsigned decimals) {
    if (!uma_usable(value.validity) || !isfinite(value.value) || fabs(value.value) > 1e15) {
        uma_text_append(text, no_value(value.validity));
        return;
    }
    uma_text_fixed(text, value.value, decimals);
}

void uma_layout_bar(struct uma_text *text, const struct uma_status_style *style, uint64_t part, uint64_t whole, size_t width) {
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    if (whole == 0 || part == 0)
        return;
    double share = MIN_OF((double)part / (double)whole, 1.0);
    size_t steps = style->utf8 ? 8 : 1;
    size_t n = MAX_OF((size_t)(share * (double)(width * steps) + 0.5), (size_t)1);
    for (size_t i = 0; i < n / steps; i++)
        uma_text_append(text, style->utf8 ? "█" : "#");
    if (style->utf8)
        uma_text_append(text, eighths[n % steps]);
}

/* The part of an escaped text that fits into `columns`, in bytes; breaks at a space where there is one. *ret_next: where to go on. */
static size_t fitting(const char *s, size_t columns, size_t *ret_next) {
    size_t used = 0, space = 0, i = 0;
    while (s[i]) {
        size_t step = uma_utf8_sequence(s + i, strnlen(s + i, 4));
        char one[8] = { 0 };
        step = step ? step : 1;
        (void)memcpy(one, s + i, step);
        size_t w = uma_text_columns(one);
        if (s[i] == ' ')
            space = i;
        if (used + w > columns) {
            size_t cut = space > 0 ? space : MAX_OF(i, (size_t)1);
            *ret_next = cut + (s[cut] == ' ');
            return cut;
        }
        used += w;
        i += step;
    }
    *ret_next = i;
    return i;
}

void uma_layout_wrap(struct uma_text *text, const struct uma_status_style *style, const char *s, size_t indent, unsigned lines) {
    _cleanup_text_ struct uma_text safe = { 0 };
    (void)uma_text_safe(&safe, s, 0);
    uma_layout_wrap_escaped(text, style, safe.data ? safe.data : "", indent, lines);
    text->failed |= safe.failed;
}

void uma_layout_wrap_escaped(struct uma_text *text, const struct uma_status_style *style, const char *s, size_t indent, unsigned lines) {
    const char *rest = s;
    size_t columns = style->columns > indent + 10 ? style->columns - indent : 10;
    for (unsigned line = 1;; line++) {
        size_t next = 0;
        bool last = lines && line == lines;
        if (last) {
            (void)uma_text_cut(text, rest, columns);
            uma_text_char(text, '\n');
            return;
        }
        uma_text_append_n(text, rest, fitting(rest, columns, &next));
        uma_text_char(text, '\n');
        rest += next;
        if (!*rest)
            return;
        uma_text_pad(text, indent);
    }
}

size_t uma_layout_column(const struct uma_text *text) {
    if (!text->data)
        return 0;
    size_t from = text->length;
    while (from > 0 && text->data[from - 1] != '\n')
        from--;
    _cleanup_text_ struct uma_text bare = { 0 };
    for (size_t i = from; i < text->length;) {
        if (text->data[i] == '\033') {
            while (i < text->length && text->data[i] != 'm')
                i++;
            i++;
            continue;
        }
        uma_text_char(&bare, text->data[i++]);
    }
    return bare.data ? uma_text_columns(bare.data) : 0;
}

void uma_layout_to_column(struct uma_text *text, size_t column) {
    size_t at = uma_layout_column(text);
    uma_text_pad(text, column > at ? column - at : 0);
}

size_t uma_layout_lines(const struct uma_text *text) {
    size_t n = 0;
    for (size_t i = 0; i < text->length; i++)
        n += text->data[i] == '\n';
    return n;
}

void uma_layout_clip(struct uma_text *text, size_t columns) {
    size_t to = 0, used = 0;
    for (size_t i = 0; i < text->length;) {
        size_t step = uma_utf8_sequence(text->data + i, MIN_OF(text->length - i, (size_t)4)), width = 0;
        step = step ? step : 1;
        if (text->data[i] == '\033') {
            const char *m = memchr(text->data + i, 'm', text->length - i);
            step = m ? (size_t)(m - text->data) - i + 1 : 1;
        } else if (text->data[i] == '\n')
            used = 0;
        else {
            char one[8] = { 0 };
            (void)memcpy(one, text->data + i, step);
            width = uma_text_columns(one);
        }
        if (used + width <= columns || text->data[i] == '\033') {
            (void)memmove(text->data + to, text->data + i, step);
            to += step;
        }
        used += width;
        i += step;
    }
    text->length = to;
    if (text->data)
        text->data[to] = '\0';
}

void uma_layout_ascii(struct uma_text *text) {
    size_t to = 0;
    for (size_t i = 0; i < text->length;) {
        size_t step = uma_utf8_sequence(text->data + i, MIN_OF(text->length - i, (size_t)4));
        if (step <= 1) {
            text->data[to++] = text->data[i++];
            continue;
        }
        char one[8] = { 0 };
        (void)memcpy(one, text->data + i, step);
        /* the sign of a cut, and a question mark a column for anything else; never longer than what it replaces */
        bool cut = strcmp(one, "…") == 0;
        for (size_t w = uma_text_columns(one); w > 0; w--)
            text->data[to++] = cut ? '~' : '?';
        i += step;
    }
    text->length = to;
    if (text->data)
        text->data[to] = '\0';
}
