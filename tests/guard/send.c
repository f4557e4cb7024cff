/* SPDX-License-Identifier: MIT */
/*
 * What uma-guard would say to its helper, from a test: send SOCKET KEY=VALUE...; kind, reason, pid, start, bytes, order, name, headroom, floor, rate, result, dry_run, times (how often), magic.
 * 0: sent; 1: lost, with the reason on stderr; 2: usage.
 */
#include "guard/link.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long long times = 1;

static bool take(struct uma_guard_message *m, const char *key, const char *value) {
    long long n = strtoll(value, NULL, 0);
    if (strcmp(key, "kind") == 0)
        m->action.kind = (enum uma_guard_action_kind)n;
    else if (strcmp(key, "reason") == 0)
        m->action.reason = (enum uma_guard_reason)n;
    else if (strcmp(key, "pid") == 0)
        m->action.pid = m->whom.pid = (int32_t)n;
    else if (strcmp(key, "start") == 0)
        m->action.start = m->whom.start = (uint64_t)n;
    else if (strcmp(key, "bytes") == 0)
        m->action.bytes = (uint64_t)n;
    else if (strcmp(key, "order") == 0)
        m->action.order = (int32_t)n;
    else if (strcmp(key, "headroom") == 0)
        m->evidence.headroom = (uint64_t)n;
    else if (strcmp(key, "floor") == 0)
        m->evidence.floor = (uint64_t)n;
    else if (strcmp(key, "rate") == 0)
        m->evidence.rate = strtod(value, NULL);
    else if (strcmp(key, "result") == 0)
        m->result = (int32_t)n;
    else if (strcmp(key, "dry_run") == 0)
        m->dry_run = (uint32_t)n;
    else if (strcmp(key, "times") == 0)
        times = n;
    else if (strcmp(key, "name") == 0)
        memcpy(m->whom.name, value, strnlen(value, sizeof(m->whom.name))); /* one without an end is a case */
    else
        return false;
    return true;
}

int main(int argc, char **argv) {
    struct uma_guard_link link;
    struct uma_guard_message m = { .order = -1,
                                   .action.order = -1,
                                   .evidence = { .time_to_floor = INFINITY, .psi_some = NAN, .psi_full = NAN, .allocstall = NAN } };
    for (int i = 2; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals)
            return 2;
        *equals = '\0';
        if (!take(&m, argv[i], equals + 1))
            return 2;
    }
    if (argc < 2)
        return 2;
    int r = uma_guard_link_open(&link, argv[1], 1);
    for (; r == 0 && times > 0; times--)
        r = uma_guard_link_send(&link, &m, 1);
    if (r < 0)
        (void)fprintf(stderr, "%s\n", strerror(-r));
    uma_guard_link_close(&link);
    return r < 0;
}
