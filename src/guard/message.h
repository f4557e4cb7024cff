/* SPDX-License-Identifier: MIT */
/*
 * message.h - what the guard says to its helper (uma-guard-helper): one datagram of fixed size over a UNIX socket, never waited for; a helper that is not there or is behind loses messages, and the
 * guard goes on. The helper does what takes a fork, a driver, a file or a network: it makes room (evicts clean pages of weight files, compacts), writes a job's warning, and tells people after the action.
 * Only root and the helper's own user may send. Native byte order, no pointers: both are of one build.
 *
 * A message of kind NOTHING with its evidence is a hint that the machine is near its floor: the helper asks the driver more often for the next UMA_GUARD_NEAR_NS. One a second is enough.
 */
#pragma once

#include "guard/decide.h"

#define UMA_GUARD_RUN_FOLDER "/run/umactl-guard"       /* RuntimeDirectory= of the unit; --run-folder in tests */
#define UMA_GUARD_STATE_FOLDER "/var/lib/umactl-guard" /* StateDirectory= */
#define UMA_GUARD_GPU_NAME "gpu"                       /* in the run folder */
#define UMA_GUARD_SOCKET_NAME "helper"                 /* datagram socket of the helper, in the run folder */
#define UMA_GUARD_STATE_NAME "state"                   /* the guard's state, in the run folder */
#define UMA_GUARD_CONTROL_NAME "control" /* datagram socket of the guard: "release" and "status" from umactl guard, in the run folder */
#define UMA_GUARD_RING_NAME "readings"   /* in the state folder */
#define UMA_GUARD_TRAIL_NAME "trail"     /* in the state folder */

/* How long a message counts as "near the floor": a guard that sends one a second may lose a few and stays near; one that is far again is believed soon. */
#define UMA_GUARD_NEAR_NS 5000000000ll

#define UMA_GUARD_MESSAGE_MAGIC 0x3147534d47414d55ull

struct uma_guard_message {
    uint64_t magic;
    int64_t time; /* CLOCK_REALTIME, nanoseconds */
    uint32_t dry_run, reserved_;
    int32_t result; /* of the action: 0 or -errno */
    int32_t order;
    struct uma_guard_action action;
    struct uma_guard_candidate whom; /* kind != ROOM: the tree that was acted on */
    struct uma_guard_evidence evidence;
};
/*
 * Is it a message? Checks length, magic, kinds, ranges, terminators and finite numbers (of the evidence, what is not known is NAN, and the time to the floor may be INFINITY). `data` need not be aligned.
 * Who acts may still not believe its process numbers: a process is looked up by pid and start. Pure.
 */
bool uma_guard_message_fine(const void *data, size_t length);
