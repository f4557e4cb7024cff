/* SPDX-License-Identifier: MIT */
/* notify_policy.h - whom the helper tells of what the guard did, after it was done: section [Notify] of the policy file. Plain data; all empty tells nobody, which is the default. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { UMA_GUARD_NOTIFY_MAX = 512 }; /* of a command and of a URL, with its end; a line of the policy file is no longer */

struct uma_guard_notify {
    char command[UMA_GUARD_NOTIFY_MAX]; /* a program's absolute path, run without arguments and without a shell; "": none */
    char webhook
        [UMA_GUARD_NOTIFY_MAX]; /* http:// or https:// URL that JSON is posted to; "": none. May hold a secret: it is never said nor put on a command line */
    bool desktop; /* notify-send for whoever has a session bus */
};

/* May this be a command, a URL? Pure. What is printable ASCII without spaces, quotes and backslashes passes; "" passes. */
bool uma_guard_notify_command_fine(const char *command);
bool uma_guard_notify_webhook_fine(const char *url);
