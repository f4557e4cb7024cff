/* SPDX-License-Identifier: MIT */
/*
 * policy_file.h - the policy as a file: INI with sections as in policy.h, and the keys of policy_keys.h. As systemd does it: /etc/umactl/guard.conf, or /usr/lib/umactl/guard.conf where that is not there; then
 * guard.conf.d/NAME.conf of both places in the order of their names, where one in /etc hides one of the same name in /usr/lib (a link to /dev/null: without another in its place). A later value takes the
 * place of an earlier one; patterns add up, and an empty value clears them.
 *
 * All or nothing: one mistake anywhere, and the policy stays as it was; the error names file, line and what was expected. Bounded: 64 KiB a file, 64 files, 512 bytes a line. Files that others than root
 * may write are refused when the reader is root. Reading allocates nothing (uma-guard reads it again at SIGHUP): about 36 KiB of stack.
 */
#pragma once

#include "base/error.h"
#include "guard/policy_keys.h"

enum { UMA_GUARD_POLICY_FILES = 64, UMA_GUARD_POLICY_PATH = 256, UMA_GUARD_POLICY_LINE = 512, UMA_GUARD_POLICY_BYTES = 65536 };
#define UMA_GUARD_POLICY_ADMIN "/etc/umactl"
#define UMA_GUARD_POLICY_VENDOR "/usr/lib/umactl"
#define UMA_GUARD_POLICY_NAME "guard.conf"

struct uma_guard_policy_source {
    char path[UMA_GUARD_POLICY_PATH];
    uint32_t line;
}; /* where a key was set last; line 0: the default */

struct uma_guard_policy_sources {
    struct uma_guard_policy_source list[UMA_GUARD_KEYS]; /* by the index of policy_keys.h */
    struct uma_guard_notify notify;                      /* what stands there for the helper */
    uint32_t n_files;
    char files[UMA_GUARD_POLICY_FILES + 1][UMA_GUARD_POLICY_PATH]; /* that were read, in that order */
};

/* `file` NULL: the standard places below `prefix` (""); a missing standard file is no error, a missing named one is. */
int uma_guard_policy_load(const char *prefix, const char *file, struct uma_guard_policy *ret_policy, struct uma_error *err);
/* The same, and who set what; ret_sources may be NULL. */
int uma_guard_policy_load_sources(const char *prefix, const char *file, struct uma_guard_policy *ret_policy,
                                  struct uma_guard_policy_sources *ret_sources, struct uma_error *err);
/* Section [Notify] of the same files, all or nothing as well: for the helper. */
int uma_guard_notify_load(const char *prefix, const char *file, struct uma_guard_notify *ret_notify, struct uma_error *err);
/* One file's text over a policy; [Notify] is checked, and not kept. Pure. */
int uma_guard_policy_parse(const char *text, size_t length, const char *name, struct uma_guard_policy *policy, struct uma_error *err);

/* The whole policy in the form of the file; what is printed reads back as the same policy. `reasons`: each key with its reason as a comment, and commented out where it has its default: share/guard.conf. */
struct uma_text;
void uma_guard_policy_print(const struct uma_guard_policy *policy, bool reasons, struct uma_text *into);
/* One key of it: its line or, of patterns, its lines, each beginning with `before`. */
void uma_guard_policy_print_key(const struct uma_guard_policy *policy, const struct uma_guard_key *key, const char *before,
                                struct uma_text *into);
/* Is it the same in both? A key of [Notify] is the default in every policy. */
bool uma_guard_policy_same(const struct uma_guard_policy *a, const struct uma_guard_policy *b, const struct uma_guard_key *key);
