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
