/* SPDX-License-Identifier: MIT */
/* manager.h - what the service manager is told (sd_notify(3)'s protocol, over the socket that NOTIFY_SOCKET names): ready, status, still alive. Never waited for; nothing where there is no such socket. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct uma_guard_manager {
    int fd; /* -1: nobody to tell */
    socklen_t length;
    struct sockaddr_un to;
    int64_t alive_every, alive_at; /* nanoseconds, CLOCK_MONOTONIC; 0: no watchdog */
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. */
void uma_guard_manager_open(struct uma_guard_manager *manager);
void uma_guard_manager_close(struct uma_guard_manager *manager);
/* "READY=1\nSTATUS=..." */
void uma_guard_manager_say(struct uma_guard_manager *manager, const char *text);
void uma_guard_manager_status(struct uma_guard_manager *manager, const char *status, size_t length);
/* RELOADING=1 with its time, which Type=notify-reload asks for. */
void uma_guard_manager_reloading(struct uma_guard_manager *manager, int64_t now);
/* WATCHDOG=1 when it is due: at half of the time that the manager waits, as sd_watchdog_enabled(3) advises. */
void uma_guard_manager_alive(struct uma_guard_manager *manager, int64_t now);
