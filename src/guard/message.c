/* SPDX-License-Identifier: MIT */
#include "guard/message.h"

#include <math.h>
#include <string.h>

enum { ERRNO_MAX = 4095 /* of the kernel (include/linux/err.h): a result is 0 or the negative of one */ };

/* A bool that came from outside may hold any byte, and is looked at as one. */
static bool is_bool(const void *data, size_t offset) {
    return ((const uint8_t *)data)[offset] <= 1;
}

static bool order_fine(int32_t order) {
    return order >= -1 && order < UMA_GUARD_ORDERS;
}

static bool action_fine(const struct uma_guard_action *action) {
    return (uint32_t)action->kind <= UMA_GUARD_LAST_RESORT && (uint32_t)action->reason <= UMA_GUARD_NOT_RELEASED && action->pid >= 0 &&
           order_fine(action->order);
}

static bool whom_fine(const struct uma_guard_candidate *whom) {
    return whom->pid >= 0 && isfinite(whom->score) && memchr(whom->name, '\0', sizeof(whom->name));
}

/* Not known, or a number from 0 up. */
static bool share_fine(double share) {
    return isnan(share) || (isfinite(share) && share >= 0);
}

static bool evidence_fine(const struct uma_guard_evidence *evidence) {
    return !isinf(evidence->rate) && !(evidence->time_to_floor < 0) && share_fine(evidence->psi_some) && share_fine(evidence->psi_full) &&
           share_fine(evidence->allocstall);
}

bool uma_guard_message_fine(const void *data, size_t length) {
    struct uma_guard_message message;
    if (length != sizeof(message) ||
        !is_bool(data, offsetof(struct uma_guard_message, whom) + offsetof(struct uma_guard_candidate, gpu_known)))
        return false;
    memcpy(&message, data, sizeof(message));
    return message.magic == UMA_GUARD_MESSAGE_MAGIC && message.time >= 0 && message.dry_run <= 1 && message.reserved_ == 0 &&
           message.result <= 0 && message.result >= -ERRNO_MAX && order_fine(message.order) && action_fine(&message.action) &&
           whom_fine(&message.whom) && evidence_fine(&message.evidence);
}
