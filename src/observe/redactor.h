/* SPDX-License-Identifier: MIT */
/* redactor.h - the memory of a redaction: which text has which stand-in. Everything it keeps is in the snapshot's arena. */
#pragma once

#include "base/arena.h"
#include "base/text.h"

enum uma_stand_in {
    UMA_STAND_IN_HOST,
    UMA_STAND_IN_USER,
    UMA_STAND_IN_PATH,
    UMA_STAND_IN_PART,
    UMA_STAND_IN_MODEL,
    UMA_STAND_IN_URL,
    UMA_STAND_IN_ADDRESS,
    UMA_STAND_IN_EMAIL,
    UMA_STAND_IN_ID,
    UMA_STAND_IN_CONTAINER,
    UMA_STAND_IN_IMAGE,
    UMA_STAND_IN_UNIT,
    UMA_STAND_IN_PROCESS,
    UMA_STAND_IN_TEXT,
    UMA_STAND_IN_OPTION,
    UMA_STAND_IN_VARIABLE,
    UMA_STAND_IN_UID,
    UMA_STAND_IN_MAX,
};

struct uma_redactor {
    struct uma_arena *arena;
    void *known; /* a tree (tsearch) by kind and text: hostile names cannot make it slow */
    unsigned used[UMA_STAND_IN_MAX];
    struct uma_text out; /* the string that is being put together */
    bool failed;         /* out of memory: the result must not be used */
};

struct uma_redactor *uma_redactor_new(struct uma_arena *arena);
struct uma_redactor *uma_redactor_free(struct uma_redactor *redactor);
/* The number of this text's stand-in, a new one when it is seen for the first time. */
unsigned uma_redactor_number(struct uma_redactor *redactor, enum uma_stand_in kind, const char *s, size_t n);
/* The same without a new one: 0 when the text has none. */
unsigned uma_redactor_find(struct uma_redactor *redactor, enum uma_stand_in kind, const char *s, size_t n);
/* A second text for a number: the short name of a host. */
void uma_redactor_alias(struct uma_redactor *redactor, enum uma_stand_in kind, const char *s, size_t n, unsigned number);
/* Append "path-1" to `out`. */
void uma_redactor_put(struct uma_redactor *redactor, enum uma_stand_in kind, const char *s, size_t n);
/* What was put together, as a string of the arena; never NULL. Begins the next one. */
const char *uma_redactor_take(struct uma_redactor *redactor);
/* Is it one already, of any kind but host? */
bool uma_redactor_stand_in(const char *s, size_t n);

static inline void uma_cleanup_redactor(struct uma_redactor **r) {
    (void)uma_redactor_free(*r);
}
#define _cleanup_redactor_ _cleanup_(uma_cleanup_redactor)
