/* SPDX-License-Identifier: MIT */
#include "guard/notify_policy.h"

#include <string.h>

/* A path or URL that needs none of these; so that it can stand in a file of another program's (curl's) as it is. */
static bool is_plain(const char *s) {
    for (; *s; s++)
        if (*s <= ' ' || *s > '~' || *s == '"' || *s == '\'' || *s == '\\')
            return false;
    return true;
}

bool uma_guard_notify_command_fine(const char *command) {
    return !command[0] || (command[0] == '/' && command[strlen(command) - 1] != '/' && is_plain(command));
}

static bool begins(const char *s, const char *with) {
    size_t n = strlen(with);
    return strncmp(s, with, n) == 0 && s[n] && s[n] != '/';
}

bool uma_guard_notify_webhook_fine(const char *url) {
    return !url[0] || ((begins(url, "http://") || begins(url, "https://")) && is_plain(url));
}
