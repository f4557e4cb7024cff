/* SPDX-License-Identifier: MIT */
/*
 * json_scan.h - reading JSON as it streams by, one value at a time, from memory or from a part of a file. Nothing is kept but one window of
 * the text: a safetensors header may be 100 MB long and an index 10 MB, and a tree of either costs ten times its text. Values are checked as
 * RFC 8259 has them (UTF-8, escapes, numbers, commas); errors name the file and the byte. Nesting is bounded, and nothing here recurses.
 *
 * After a function has failed the scan is at no place in particular: give it up.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* serde_json, which writes and reads every safetensors header, stops at 128. */
enum { UMA_JSON_SCAN_DEPTH_MAX = 128 };

struct uma_json_scan {
    const char *at, *end;   /* what of the window is not read yet */
    const char *begin;      /* the window */
    uint64_t window_offset; /* where in the file the window begins */
    uint64_t stop;          /* where in the file the JSON ends */
    int fd;                 /* -1: everything is in the window */
    char *buffer;           /* the window's memory when there is a file */
    size_t capacity;
    const char *file; /* for messages */
};

/* A text in memory. */
void uma_json_scan_memory(struct uma_json_scan *scan, const char *file, const char *text, size_t length);
/*
 * Bytes `offset` to `stop` of a file, read with pread(2) into `buffer` (at least 16 bytes; the caller's, for as long as the scan lasts). The
 * first `there` bytes of the buffer already hold the file's bytes from `offset` on.
 */
void uma_json_scan_file(struct uma_json_scan *scan, const char *file, int fd, uint64_t offset, uint64_t stop, char *buffer, size_t capacity,
                        size_t there);

/* The next character that is not white space, not taken; 0 at the end (a NUL in the text is an error). Negative errno. */
int uma_json_scan_peek(struct uma_json_scan *scan, struct uma_error *err);
/* Take this one character. */
int uma_json_scan_take(struct uma_json_scan *scan, char wanted, struct uma_error *err);
/*
 * Begin an object, then ask for members until it gives 0: `*first` starts as true. The key is unescaped into `key`, NUL-terminated and cut at
 * its size; ret_length (may be NULL) is its whole length. After 1 the member's value must be read.
 */
int uma_json_scan_member(struct uma_json_scan *scan, bool *first, char *key, size_t key_size, size_t *ret_length, struct uma_error *err);
/* The same for an array: 1: read an element, 0: it has ended. */
int uma_json_scan_element(struct uma_json_scan *scan, bool *first, struct uma_error *err);
/* A string, unescaped, NUL-terminated, cut at `size`; ret_length (may be NULL) is its whole length. */
int uma_json_scan_string(struct uma_json_scan *scan, char *into, size_t size, size_t *ret_length, struct uma_error *err);
/* An integer from 0 to 2^64-1 without fraction or exponent. */
int uma_json_scan_u64(struct uma_json_scan *scan, uint64_t *ret_value, struct uma_error *err);
/*
 * Any number; ret_whole (may be NULL) is its whole part without the exponent, saturated, 0 when negative: a total_size may be written
 * "15000000000.0", and a count of bits "4.0".
 */
int uma_json_scan_number(struct uma_json_scan *scan, uint64_t *ret_whole, struct uma_error *err);
/* Any value, checked and left out. ret_values (may be NULL) is increased by the values in it. */
int uma_json_scan_skip(struct uma_json_scan *scan, uint64_t *ret_values, struct uma_error *err);
/* Only white space may follow. */
int uma_json_scan_finish(struct uma_json_scan *scan, struct uma_error *err);

/* Bytes of the file before the next one to be read. */
uint64_t uma_json_scan_place(const struct uma_json_scan *scan);
/* -EINVAL with "FILE: byte N: " and the message. */
int uma_json_scan_error(const struct uma_json_scan *scan, struct uma_error *err, const char *format, ...) UMA_PRINTF(3, 4);
