/* SPDX-License-Identifier: MIT */
/*
 * json_write.h - a small streaming JSON writer. It puts commas and indentation; the caller pairs begin and end. Strings are escaped
 * (control characters, quotes, and U+2028/U+2029); bytes that are not UTF-8 become U+FFFD, so the output is always valid JSON. Numbers are
 * independent of the locale; doubles are written with the fewest digits that read back exactly; NaN and infinities are null.
 */
#pragma once

#include "base/text.h"
#include "uma.h"

enum { UMA_JSON_DEPTH_MAX = 32 };

struct uma_json {
    struct uma_text *text;
    bool compact; /* one line, no spaces */
    unsigned depth;
    bool has_member[UMA_JSON_DEPTH_MAX];
    bool in_line[UMA_JSON_DEPTH_MAX]; /* members of this one stay on one line */
};

/* key is NULL inside an array and for the document itself. `line`: keep the members on one line (small objects). */
void uma_json_begin_object(struct uma_json *json, const char *key, bool line);
void uma_json_end_object(struct uma_json *json);
void uma_json_begin_array(struct uma_json *json, const char *key, bool line);
void uma_json_end_array(struct uma_json *json);
void uma_json_string(struct uma_json *json, const char *key, const char *value); /* NULL: null */
void uma_json_string_n(struct uma_json *json, const char *key, const char *value, size_t n);
void uma_json_bool(struct uma_json *json, const char *key, bool value);
void uma_json_truth(struct uma_json *json, const char *key, enum uma_truth value); /* UMA_MAYBE: null */
void uma_json_null(struct uma_json *json, const char *key);
void uma_json_unsigned(struct uma_json *json, const char *key, uint64_t value);
void uma_json_signed(struct uma_json *json, const char *key, int64_t value);
void uma_json_double(struct uma_json *json, const char *key, double value);
/*
 * Values with validity: null unless usable. Readers of JSON hold integers as signed, and no reading is beyond that: what is, is a sum or
 * a product that stopped at the end of its range, and is null too.
 */
void uma_json_u64(struct uma_json *json, const char *key, struct uma_u64 value);
void uma_json_i64(struct uma_json *json, const char *key, struct uma_i64 value);
void uma_json_f64(struct uma_json *json, const char *key, struct uma_f64 value);
/* Nanoseconds as seconds, cut to microseconds (what a double of today's date holds exactly): 1790000000.123456; 0: null. */
void uma_json_time(struct uma_json *json, const char *key, int64_t time_ns);

/* The shortest text of a finite double that strtod reads back exactly; always with '.', never a comma. */
void uma_double_format(double value, char ret_text[32]);
