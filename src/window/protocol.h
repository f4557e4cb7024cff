/* SPDX-License-Identifier: MIT */
/*
 * protocol.h - what passes between umactl and its helper inside a job (libuma-window.so, preloaded): umactl names ranges, the helper pages them out of its own process
 * and answers with what it did. Native byte order; both ends are of one build and one machine. libc only; no pointers.
 *
 * The socket is SOCK_SEQPACKET in a folder that only the job's user may enter; both ends check the other's user (SO_PEERCRED). One message, one answer.
 * A helper that does not understand a message closes; umactl then goes on without it.
 */
#pragma once

#include <stdint.h>

#define UMA_WINDOW_VARIABLE "UMACTL_WINDOW" /* the job's environment: path of the socket */
#define UMA_WINDOW_VERSION 1
/* Somewhere in the library, followed by its version in digits: by this umactl knows it before it is loaded into anything. */
#define UMA_WINDOW_MARK "umactl-window-helper version "
#define UMA_WINDOW_RANGES_MAX 64u

struct uma_window_hello { /* helper -> umactl, once */
    uint32_t version;
    int32_t pid; /* as the helper sees it; SO_PEERCRED says it as umactl sees it */
};

struct uma_window_range {
    uint64_t start, length; /* addresses in the job, whole pages */
};

struct uma_window_request { /* umactl -> helper */
    uint32_t version, n;
    struct uma_window_range ranges[UMA_WINDOW_RANGES_MAX];
};

enum uma_window_refusal { UMA_WINDOW_OK, UMA_WINDOW_NOT_MAPPED, UMA_WINDOW_PRIVATE_WRITABLE, UMA_WINDOW_LOCKED, UMA_WINDOW_FAILED };

struct uma_window_answer { /* helper -> umactl */
    uint32_t version, n;
    struct {
        uint64_t released; /* bytes of the range that the process does not map any more, or did not */
        int32_t error;     /* errno, 0 */
        uint32_t refusal;  /* enum uma_window_refusal */
    } ranges[UMA_WINDOW_RANGES_MAX];
};
