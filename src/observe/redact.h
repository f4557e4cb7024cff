/* SPDX-License-Identifier: MIT */
/*
 * redact.h - inside uma_snapshot_redact(): what becomes of one string. It works by what is allowed to stay (redact_words.c), never by what
 * is known to be secret; only in sentences, whose words cannot be listed, the names that were found elsewhere in the snapshot are taken
 * out. The same text always gets the same stand-in: "path-1", "model-2.gguf".
 */
#pragma once

#include "observe/redactor.h"
#include "observe/snapshot_fields.h"

enum uma_words {
    UMA_WORDS,
    UMA_WORDS_OPTIONS,
    UMA_WORDS_MODEL_OPTIONS,
    UMA_WORDS_SECRET_OPTIONS,
    UMA_WORDS_VARIABLES,
    UMA_WORDS_EXTENSIONS,
    UMA_WORDS_MAX
};

/* Is the text s[0..n) in the list? */
bool uma_redact_known(enum uma_words which, const char *s, size_t n);
/* Variables: also by the beginning. */
bool uma_redact_known_variable(const char *s, size_t n);
const char *const *uma_redact_table(enum uma_words which, size_t *ret_n);

/* A whole string of this class, as a new one; NULL stays NULL. Not for ARGUMENTS and USER. */
const char *uma_redact_string(struct uma_redactor *redactor, enum uma_privacy privacy, const char *s);
/* A command line's or environment's strings, in place: an option decides what the next string is. */
void uma_redact_arguments(struct uma_redactor *redactor, const char **strings, size_t n);
/* One such string, appended to redactor->out. */
void uma_redact_put_argument(struct uma_redactor *redactor, const char *s, size_t n);
