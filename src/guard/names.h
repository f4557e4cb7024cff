/* SPDX-License-Identifier: MIT */
/*
 * names.h - programs and units by name: the patterns of a policy against the name of a process (comm) and the parts of its control group's path, and the names that are there by default. Pure; no recursion, and no
 * more steps than the pattern is long times the text. Names are hostile text: a process may call itself what it likes, so that a name protects from accidents and not from malice.
 */
#pragma once

#include "guard/policy.h"

/* `*`: any bytes, `?`: one; all else is itself. */
bool uma_guard_pattern_matches(const char *pattern, const char *text, size_t length);

/* The name of a process, ended, or UMA_GUARD_NAME_MAX bytes long. One of 15 bytes may have been cut by the kernel: then a pattern matches whose literal rest it may have lost ("uma-guard-helper" the process "uma-guard-helpe"). */
bool uma_guard_names_have(const struct uma_guard_patterns *patterns, const char *name);

/* "unit:NAME": any part of the path is of that name: "/system.slice/ssh.service" is in "unit:ssh.service" and in "unit:system.slice". */
bool uma_guard_units_have(const struct uma_guard_patterns *patterns, const char *path, size_t length);

/* Of a command interpreter that people sit at. */
bool uma_guard_is_shell(const char *name);

/* The lists of [Victims] as they are without a policy file; each name's reason is in names.c. Whatever the four lists had is gone. */
void uma_guard_names_default(struct uma_guard_policy *policy);
