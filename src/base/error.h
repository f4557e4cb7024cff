/* SPDX-License-Identifier: MIT */
/*
 * error.h - the error convention. A function that can fail returns 0 or a positive result, or a negative errno with *err set.
 * `err` may be NULL everywhere. The message says the whole of it, file, place and what was expected: nobody above has to add to it.
 * Text from files (names, paths) in an error is escaped when the error is *printed*, not when it is made.
 */
#pragma once

#include "base/cleanup.h"
#include "uma.h"

#include <errno.h>

/* Set *err from `code` (a positive errno) and a message; strerror is appended for codes that say something. Returns -code. */
int uma_error_set(struct uma_error *err, int code, const char *format, ...) UMA_PRINTF(3, 4);
/* The same without strerror: for malformed input, where the message says it all. Returns -code. */
int uma_error_text(struct uma_error *err, int code, const char *format, ...) UMA_PRINTF(3, 4);

/* The result as an expression of the code, so that whoever reads the caller, a static analyser too, sees that it is negative. */
#define uma_error_set(err, code, ...)                                                                                                      \
    __extension__({                                                                                                                        \
        int code_of_error_ = (code);                                                                                                       \
        (void)uma_error_set(err, code_of_error_, __VA_ARGS__);                                                                             \
        -code_of_error_;                                                                                                                   \
    })
#define uma_error_text(err, code, ...)                                                                                                     \
    __extension__({                                                                                                                        \
        int code_of_error_ = (code);                                                                                                       \
        (void)uma_error_text(err, code_of_error_, __VA_ARGS__);                                                                            \
        -code_of_error_;                                                                                                                   \
    })
