/* SPDX-License-Identifier: MIT */
/*
 * policy_parse.h - the text of a policy file, line by line, for policy_file.c: the caller hands over one line after the other, from wherever they come. Allocates nothing, reads nothing.
 */
#pragma once

#include "guard/policy_file.h"

struct uma_guard_policy_parser {
    const char *name; /* of the file, for messages and sources */
    uint32_t line;    /* of the last line handed over */
    int section;      /* index of its first key; -1: none yet */
    struct uma_guard_policy *policy;
    struct uma_guard_notify *notify;
    struct uma_guard_policy_sources *sources; /* NULL: not asked for */
};

/* A line without its newline. 0; -EINVAL with file, line and what was expected. */
int uma_guard_policy_parse_line(struct uma_guard_policy_parser *parser, const char *line, size_t length, struct uma_error *err);
