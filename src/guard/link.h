/* SPDX-License-Identifier: MIT */
/*
 * link.h - the guard's end of the socket to its helper (message.h). Opened once; sending never waits, never allocates and never opens a descriptor, so that it works when no memory and no descriptor is
 * left: a helper that was started anew is connected to through the same socket. Whatever cannot be sent is lost and counted. Not thread-safe.
 */
#pragma once

#include "guard/message.h"

#include <sys/un.h>

struct uma_guard_link {
    int fd; /* -1: no socket, and there never will be one */
    bool connected;
    struct sockaddr_un address;
    int64_t tried;       /* when connecting was last tried, CLOCK_MONOTONIC; 0: never */
    uint64_t sent, lost; /* messages */
};

/* How often a helper that is not there is looked for: it is restarted by systemd within about a second. */
#define UMA_GUARD_LINK_PAUSE_NS INT64_C(1000000000)

/* `path`: of the helper's socket (at most 107 bytes). 0, also while no helper is there; -ENAMETOOLONG, -EMFILE, ...: every message will be lost. `link` is usable in any case. */
int uma_guard_link_open(struct uma_guard_link *link, const char *path, int64_t now);
/* Does a helper listen now? One system call, for whoever asks: messages find out by themselves. */
bool uma_guard_link_there(struct uma_guard_link *link);
void uma_guard_link_close(struct uma_guard_link *link);
/*
 * 0: the helper has it; -ENOTCONN: there is none (and the next look for one is not due); -EAGAIN: it is behind; other -errno. `magic` and, where it is 0, `time` are filled in. `now`: CLOCK_MONOTONIC.
 * The kernel takes memory for the message (about 1 KiB): what the guard does itself comes first.
 */
int uma_guard_link_send(struct uma_guard_link *link, struct uma_guard_message *message, int64_t now);
