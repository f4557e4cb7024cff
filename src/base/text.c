/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void uma_text_done(struct uma_text *text) {
    free(text->data);
    *text = (struct uma_text){ 0 };
}

void uma_text_reset(struct uma_text *text) {
    text->length = 0;
    text->failed = false;
    if (text->data)
        text->data[0] = '\0';
}

bool uma_text_reserve(struct uma_text *text, size_t more) {
    if (text->failed || more > SIZE_MAX / 4 - text->length - 1) {
        text->failed = true;
        return false;
    }
    size_t need = text->length + more + 1;
    if (need <= text->capacity)
        return true;
    size_t capacity = MAX_OF(need, text->capacity * 2);
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void uma_text_append_n(struct uma_text *text, const char *s, size_t n) {
    if (!uma_text_reserve(text, n))
        return;
    (void)memcpy(text->data + text->length, s, n);
    text->length += n;
    text->data[text->length] = '\0';
}

void uma_text_append(struct uma_text *text, const char *s) {
    uma_text_append_n(text, s, strlen(s));
}

void uma_text_char(struct uma_text *text, char c) {
    uma_text_append_n(text, &c, 1);
}

void uma_text_pad(struct uma_text *text, size_t n) {
    if (!uma_text_reserve(text, n))
        return;
    (void)memset(text->data + text->length, ' ', n);
    text->length += n;
    text->data[text->length] = '\0';
}

void uma_text_printf(struct uma_text *text, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n >= 0 && uma_text_reserve(text, (size_t)n)) {
        (void)vsnprintf(text->data + text->length, (size_t)n + 1, format, again);
        text->length += (size_t)n;
    }
    va_end(again);
}

size_t uma_utf8_sequence(const char *s, size_t n) {
    const unsigned char *u = (const unsigned char *)s;
    if (n == 0)
        return 0;
    if (u[0] < 0x80)
        return 1;
    size_t len = u[0] >= 0xc2 && u[0] <= 0xdf ? 2 : (u[0] & 0xf0) == 0xe0 ? 3 : u[0] >= 0xf0 && u[0] <= 0xf4 ? 4 : 0;
    if (len == 0 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) || (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f))
        return 0;
    return len;
}

static uint32_t decode(const char *s, size_t len) {
    const unsigned char *u = (const unsigned char *)s;
    static const unsigned char first_mask[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    uint32_t c = u[0] & first_mask[len];
    for (size_t i = 1; i < len; i++)
        c = c << 6 | (u[i] & 0x3fu);
    return c;
}

/* Columns of one code point. Our own table, not wcwidth(): the output must not depend on the locale. */
static size_t width(uint32_t c) {
    if ((c >= 0x300 && c <= 0x36f) || (c >= 0x200b && c <= 0x200d) || (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff)
        return 0;
    if ((c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
        (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) || (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1faff) ||
        (c >= 0x20000 && c <= 0x3fffd))
        return 2;
    return 1;
}

/* Characters that move the cursor, start an escape sequence, or make text read other than it is. */
static bool dangerous(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e ||
           c == 0x200f || c == 0x2028 || c == 0x2029;
}

/*
 * A byte that is not UTF-8, as snapshots hold it (uma_arena_utf8): there it cannot be told from four characters of that look any more, and it is to
 * look here as the byte does.
 */
static bool is_stored_byte(const char *s, size_t n) {
    return n >= 4 && s[0] == '\\' && s[1] == 'x' && ((s[2] >= '8' && s[2] <= '9') || (s[2] >= 'a' && s[2] <= 'f')) &&
           ((s[3] >= '0' && s[3] <= '9') || (s[3] >= 'a' && s[3] <= 'f'));
}

/* The next unit of s as it is printed, where it is escaped already with its backslashes as they are; returns the bytes of s it took. */
static size_t next_unit(const char *s, size_t n, bool escaped, char out[12], size_t *ret_columns) {
    size_t len = uma_utf8_sequence(s, n);
    uint32_t c = len ? decode(s, len) : 0;
    if (!len)
        *ret_columns = (size_t)snprintf(out, 12, "\\x%02x", (unsigned char)*s);
    else if (c == '\\' && !escaped && !is_stored_byte(s, n))
        *ret_columns = (size_t)snprintf(out, 12, "\\\\");
    else if (c == '\n' || c == '\t' || c == '\r')
        *ret_columns = (size_t)snprintf(out, 12, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
    else if (dangerous(c))
        *ret_columns = (size_t)snprintf(out, 12, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
    else {
        (void)memcpy(out, s, len);
        out[len] = '\0';
        *ret_columns = width(c);
    }
    return len ? len : 1;
}

static size_t append_units(struct uma_text *text, const char *s, size_t max_columns, bool escaped) {
    size_t n = strlen(s), columns = 0, kept_length = text->length, kept_columns = 0;
    for (size_t i = 0; i < n;) {
        char unit[12];
        size_t w, step = next_unit(s + i, n - i, escaped, unit, &w);
        if (max_columns && columns + w > max_columns) {
            if (text->failed || !text->data)
                return columns;
            text->length = kept_length; /* back to where one column is left for the sign of the cut */
            uma_text_append(text, "…");
            return kept_columns + 1;
        }
        uma_text_append(text, unit);
        columns += w;
        i += step;
        if (!max_columns || columns + 1 <= max_columns) {
            kept_length = text->length;
            kept_columns = columns;
        }
    }
    return columns;
}

size_t uma_text_safe(struct uma_text *text, const char *s, size_t max_columns) {
    return append_units(text, s, max_columns, false);
}

size_t uma_text_cut(struct uma_text *text, const char *escaped, size_t max_columns) {
    return append_units(text, escaped, max_columns, true);
}

size_t uma_text_copy_plain(char *buffer, size_t size, const char *s) {
    size_t n = 0;
    for (; s[n] && n + 1 < size; n++)
        buffer[n] = (char)(s[n] >= ' ' && s[n] <= '~' ? s[n] : '?');
    buffer[n] = '\0';
    return n;
}

size_t uma_text_columns(const char *escaped) {
    size_t n = strlen(escaped), columns = 0;
    for (size_t i = 0; i < n;) {
        char unit[12];
        size_t w;
        i += next_unit(escaped + i, n - i, true, unit, &w);
        columns += w;
    }
    return columns;
}

bool uma_colour_wanted(int fd) {
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) == 1 && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}
