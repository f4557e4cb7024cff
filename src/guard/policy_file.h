/* SPDX-License-Identifier: MIT */
/*
 * policy_file.h - the policy as a file: INI with sections as in policy.h, /etc/umactl/guard.conf, then /etc/umactl/guard.conf.d/NAME.conf in the order of their names (and /usr/lib/umactl before /etc, as systemd does
 * it). All or nothing: one mistake anywhere, and the policy stays as it was; the error names file, line and what was expected. Bounded: 64 KiB a file, 64 files, 512 bytes a line. Files that others than root may write are refused
 * when the reader is root.
 */
#pragma once

#include "base/error.h"
#include "guard/policy.h"

struct uma_guard_policy_source {
    char path[256];
    uint32_t line;
}; /* where a key was set last; line 0: the default */

/* `file` NULL: the standard places below `prefix`; a missing standard file is no error, a missing named one is. */
int uma_guard_policy_load(const char *prefix, const char *file, struct uma_guard_policy *ret_policy, struct uma_error *err);
/* One file's text over a policy. Pure. */
int uma_guard_policy_parse(const char *text, size_t length, const char *name, struct uma_guard_policy *policy, struct uma_error *err);
/* The whole policy in the form of the file, each key with its reason as a comment where `reasons`. */
struct uma_text;
void uma_guard_policy_print(const struct uma_guard_policy *policy, bool reasons, struct uma_text *into);
