/* SPDX-License-Identifier: MIT */
#include "base/json_write.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void newline(struct uma_json *json) {
    if (json->compact)
        return;
    if (json->depth > 0 && json->in_line[json->depth - 1]) {
        uma_text_char(json->text, ' ');
        return;
    }
    uma_text_char(json->text, '\n');
    uma_text_pad(json->text, 2 * (size_t)json->depth);
}

static unsigned three_bytes(const char *s) {
    return ((unsigned char)s[0] & 0xfu) << 12 | ((unsigned char)s[1] & 0x3fu) << 6 | ((unsigned char)s[2] & 0x3fu);
}

/* Characters that change the order or the lines of the text around them: U+200E, U+200F, U+2028..U+202E, U+2066..U+2069. */
static bool reorders(const char *s) {
    unsigned c = three_bytes(s);
    return c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

static void quoted(struct uma_text *text, const char *s, size_t n) {
    uma_text_char(text, '"');
    for (size_t i = 0; i < n;) {
        size_t plain = i; /* nearly all of it is: append that in one piece */
        while (plain < n && s[plain] >= 0x20 && s[plain] < 0x7f && s[plain] != '"' && s[plain] != '\\')
            plain++;
        if (plain > i) {
            uma_text_append_n(text, s + i, plain - i);
            i = plain;
            continue;
        }
        size_t step = uma_utf8_sequence(s + i, n - i);
        unsigned char c = (unsigned char)s[i];
        if (!step)
            uma_text_append(text, "\xef\xbf\xbd");
        else if (c == '"' || c == '\\') {
            uma_text_char(text, '\\');
            uma_text_char(text, (char)c);
        } else if (c == '\n')
            uma_text_append(text, "\\n");
        else if (c == '\t')
            uma_text_append(text, "\\t");
        else if (c == '\r')
            uma_text_append(text, "\\r");
        else if (c < 0x20 || c == 0x7f)
            uma_text_printf(text, "\\u%04x", c);
        else if (step == 2 && c == 0xc2 && (unsigned char)s[i + 1] < 0xa0) /* C1 controls: some terminals obey them */
            uma_text_printf(text, "\\u%04x", (unsigned)(unsigned char)s[i + 1]);
        else if (step == 3 && reorders(s + i)) /* as an escape of its code point: a reader gets the same string, a terminal obeys nothing */
            uma_text_printf(text, "\\u%04x", three_bytes(s + i));
        else
            uma_text_append_n(text, s + i, step);
        i += step ? step : 1;
    }
    uma_text_char(text, '"');
}

static void key_of(struct uma_json *json, const char *key) {
    if (json->depth > 0) {
        bool *has = &json->has_member[json->depth - 1];
        if (*has)
            uma_text_char(json->text, ',');
        *has = true;
        newline(json);
    }
    if (key) {
        quoted(json->text, key, strlen(key));
        uma_text_append(json->text, json->compact ? ":" : ": ");
    }
}

static void begin(struct uma_json *json, const char *key, bool line, char bracket) {
    assert(json->depth < UMA_JSON_DEPTH_MAX);
    key_of(json, key);
    uma_text_char(json->text, bracket);
    json->has_member[json->depth] = false;
    json->in_line[json->depth] = line || (json->depth > 0 && json->in_line[json->depth - 1]);
    json->depth++;
}

static void end(struct uma_json *json, char bracket) {
    assert(json->depth > 0);
    bool had = json->has_member[json->depth - 1], line = json->in_line[json->depth - 1];
    json->depth--;
    if (had && !json->compact) {
        if (line)
            uma_text_char(json->text, ' ');
        else {
            uma_text_char(json->text, '\n');
            uma_text_pad(json->text, 2 * (size_t)json->depth);
        }
    }
    uma_text_char(json->text, bracket);
    if (json->depth == 0)
        uma_text_char(json->text, '\n');
}

void uma_json_begin_object(struct uma_json *json, const char *key, bool line) {
    begin(json, key, line, '{');
}
void uma_json_end_object(struct uma_json *json) {
    end(json, '}');
}
void uma_json_begin_array(struct uma_json *json, const char *key, bool line) {
    begin(json, key, line, '[');
}
void uma_json_end_array(struct uma_json *json) {
    end(json, ']');
}

void uma_json_string_n(struct uma_json *json, const char *key, const char *value, size_t n) {
    key_of(json, key);
    quoted(json->text, value, n);
}

void uma_json_string(struct uma_json *json, const char *key, const char *value) {
    if (value)
        uma_json_string_n(json, key, value, strlen(value));
    else
        uma_json_null(json, key);
}

void uma_json_bool(struct uma_json *json, const char *key, bool value) {
    key_of(json, key);
    uma_text_append(json->text, value ? "true" : "false");
}

void uma_json_truth(struct uma_json *json, const char *key, enum uma_truth value) {
    if (value == UMA_MAYBE)
        uma_json_null(json, key);
    else
        uma_json_bool(json, key, value == UMA_YES);
}

void uma_json_null(struct uma_json *json, const char *key) {
    key_of(json, key);
    uma_text_append(json->text, "null");
}

/* By hand: a snapshot of 5,000 processes has 100,000 numbers, and printf takes most of the time to write it. */
static void put_digits(struct uma_text *text, bool negative, uint64_t magnitude) {
    char digits[24];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude > 0);
    if (negative)
        digits[--at] = '-';
    uma_text_append_n(text, digits + at, sizeof(digits) - at);
}

void uma_json_unsigned(struct uma_json *json, const char *key, uint64_t value) {
    key_of(json, key);
    put_digits(json->text, false, value);
}

void uma_json_signed(struct uma_json *json, const char *key, int64_t value) {
    key_of(json, key);
    put_digits(json->text, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void uma_double_format(double value, char ret_text[32]) {
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(ret_text, 32, "%.*g", precision, value);
        if (strtod(ret_text, NULL) == value)
            break;
    }
    char *comma = strchr(ret_text, ','); /* a decimal comma can only come from the locale */
    if (comma)
        *comma = '.';
}

void uma_json_double(struct uma_json *json, const char *key, double value) {
    if (!isfinite(value)) {
        uma_json_null(json, key);
        return;
    }
    char number[32];
    uma_double_format(value, number);
    key_of(json, key);
    uma_text_append(json->text, number);
}

void uma_json_u64(struct uma_json *json, const char *key, struct uma_u64 value) {
    if (uma_usable(value.validity) && value.value <= (uint64_t)INT64_MAX)
        uma_json_unsigned(json, key, value.value);
    else
        uma_json_null(json, key);
}

void uma_json_i64(struct uma_json *json, const char *key, struct uma_i64 value) {
    if (uma_usable(value.validity))
        uma_json_signed(json, key, value.value);
    else
        uma_json_null(json, key);
}

void uma_json_f64(struct uma_json *json, const char *key, struct uma_f64 value) {
    if (uma_usable(value.validity))
        uma_json_double(json, key, value.value);
    else
        uma_json_null(json, key);
}

void uma_json_time(struct uma_json *json, const char *key, int64_t time_ns) {
    if (time_ns <= 0) {
        uma_json_null(json, key);
        return;
    }
    key_of(json, key);
    char number[48];
    int n = snprintf(number, sizeof(number), "%lld.%06lld", (long long)(time_ns / 1000000000), (long long)(time_ns % 1000000000 / 1000));
    while (n > 0 && number[n - 1] == '0')
        number[--n] = '\0';
    if (n > 0 && number[n - 1] == '.')
        number[n - 1] = '\0';
    uma_text_append(json->text, number);
}
