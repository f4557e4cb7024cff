/* SPDX-License-Identifier: MIT */
/*
 * units.h - checked numbers in, human sizes out. None of it depends on the locale.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define UMA_KIB 1024ull
#define UMA_MIB (1024ull * 1024)
#define UMA_GIB (1024ull * 1024 * 1024)
#define UMA_SECOND_NS INT64_C(1000000000)
#define UMA_MILLISECOND_NS INT64_C(1000000)

/*
 * Parse an unsigned decimal at [s, end). Returns the first character after it, or NULL when there is no digit or it overflows.
 * No sign, no spaces, no locale. For the inside of parsers.
 */
const char *uma_parse_u64(const char *s, const char *end, uint64_t *ret_value);
/* The same with an optional '-'. */
const char *uma_parse_i64(const char *s, const char *end, int64_t *ret_value);
/* Decimal fraction "12.34" (no exponent). */
const char *uma_parse_f64(const char *s, const char *end, double *ret_value);
/* The whole NUL-terminated string, surrounding white space allowed. 0 or -EINVAL/-ERANGE. */
int uma_parse_u64_all(const char *s, uint64_t *ret_value);
int uma_parse_i64_all(const char *s, int64_t *ret_value);
int uma_parse_f64_all(const char *s, double *ret_value);

/* A size on the command line: 123, 12K, 12G, 12GiB (binary), 12GB (decimal), 1.5G. -EINVAL with a message that says what is wrong. */
int uma_parse_size(const char *s, uint64_t *ret_bytes, struct uma_error *err);
/* A count: 7, 70B, 7.24B, 9e9, 350M, 1.5T, 4k (decimal). -EINVAL, or -ERANGE beyond 2^63, with a message that says what is wrong. */
int uma_parse_count(const char *s, uint64_t *ret_count, struct uma_error *err);
/* A number of tokens: as a count, but 32K is 32,768 and 1M 1,048,576, as context lengths are said. */
int uma_parse_tokens(const char *s, uint64_t *ret_count, struct uma_error *err);
/* A duration: 90, 90s, 5m, 2h, 0.5 (seconds). */
int uma_parse_duration(const char *s, double *ret_seconds, struct uma_error *err);

/* A number with 0 to 3 decimals, rounded half away from zero, always with '.'; "-0" never. For |value| < 1e15. */
void uma_text_fixed(struct uma_text *text, double value, unsigned decimals);
/* "12.3 GiB", "850 MiB", "0 B": three significant digits, binary units, at most 10 columns. */
void uma_text_bytes(struct uma_text *text, uint64_t bytes);
/* Always in GiB with one decimal: "101.0 GiB". For columns that are compared. */
void uma_text_gib(struct uma_text *text, uint64_t bytes);
/* "3.2 s", "5 m 12 s", "2 h 03 m". */
void uma_text_duration(struct uma_text *text, double seconds);

/* Wall clock cut to microseconds, as snapshots keep it; monotonic clock in full; the same and on while the machine sleeps. */
int64_t uma_now_ns(void);
int64_t uma_monotonic_ns(void);
int64_t uma_boottime_ns(void);
