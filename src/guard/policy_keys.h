/* SPDX-License-Identifier: MIT */
/*
 * policy_keys.h - the one table of what stands in the guard's policy file: section, key, kind of value, place in struct uma_guard_policy, bounds, and the reason that is told beside it. The parser, what
 * is printed, share/guard.conf and the test of the manual page all go by it, so that none of them knows a key that another does not. Section [Notify] is the helper's (struct uma_guard_notify). Constant data.
 */
#pragma once

#include "guard/notify_policy.h"
#include "guard/policy.h"

enum uma_guard_key_kind {
    UMA_GUARD_KEY_SIZE,     /* uint64_t, bytes: 4G, 4GiB, 4GB */
    UMA_GUARD_KEY_SECONDS,  /* double: 0.5, 500ms, 90, 5m; kept to the millisecond */
    UMA_GUARD_KEY_MULTIPLE, /* double: 1.25; kept to the thousandth */
    UMA_GUARD_KEY_COUNT,    /* uint32_t */
    UMA_GUARD_KEY_SWITCH,   /* bool: yes or no, also true, on, 1, false, off, 0 */
    UMA_GUARD_KEY_PATTERNS, /* struct uma_guard_patterns: words; more lines add, an empty one clears */
    UMA_GUARD_KEY_COMMAND,  /* char[UMA_GUARD_NOTIFY_MAX]: the absolute path of a program; empty: none */
    UMA_GUARD_KEY_URL,      /* the same, http:// or https://; a secret: never printed */
};

struct uma_guard_key {
    const char *section, *name;
    enum uma_guard_key_kind kind;
    size_t offset;      /* of the member */
    double least, most; /* bounds of a number; a size may also be 0 where `automatic` */
    bool automatic;     /* 0 stands for "by the machine's size" */
    bool of_notify;     /* the member is of struct uma_guard_notify */
    const char *reason; /* sentences, ASCII */
};

enum { UMA_GUARD_KEYS = 27 };
extern const struct uma_guard_key uma_guard_keys[UMA_GUARD_KEYS]; /* those of one section follow each other */

/* Index of a key; -1: there is none of that name. */
int uma_guard_key_find(const char *section, const char *name);
/* The section of the i-th key is another than that of the one before. */
bool uma_guard_key_begins_section(unsigned i);
/* Index of the first key of a section; -1: there is no such section. */
int uma_guard_section_find(const char *section);
