/* SPDX-License-Identifier: MIT */
#include "act/driver_limit.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

/* CUDA hands out memory in pieces of 2 MiB (CU_MEM_ALLOC_GRANULARITY_MINIMUM), the kernel's counter in pages. */
#define ROUNDING (2 * UMA_MIB)

bool uma_driver_limit_is(const struct uma_driver_limits *limits, uint64_t limit) {
    if (limits->state != UMA_DRIVER_LIMITS_DONE || limits->n == 0)
        return false;
    for (unsigned i = 0; i < limits->n; i++) {
        uint64_t hard = limits->gpus[i].hard;
        if (hard > limit || (limit == UMA_DRIVER_LIMIT_NONE ? hard != limit : limit - hard >= ROUNDING))
            return false;
    }
    return true;
}

static const char *remedy_of(enum uma_driver_limits_state state) {
    switch (state) {
    case UMA_DRIVER_LIMITS_DENIED:
        return "the driver takes limits from root alone (CAP_SYS_ADMIN where it runs in a container)";
    case UMA_DRIVER_LIMITS_NO_SYMBOLS:
        return "limits come with driver r615";
    case UMA_DRIVER_LIMITS_UNSUPPORTED:
        return "this GPU, or the driver as it is set up (RmMemacctMode, MIG), holds none";
    case UMA_DRIVER_LIMITS_UNSET:
        return "with the dmem controller, the group must have dmem files: its parent's cgroup.subtree_control needs +dmem";
    default:
        return NULL;
    }
}

void uma_driver_limit_explain(const struct uma_driver_limits *limits, char *ret_text, size_t size) {
    const char *remedy = remedy_of(limits->state);
    (void)snprintf(ret_text, size, "%s%s%s", limits->detail[0] ? limits->detail : uma_driver_limits_word(limits->state), remedy ? ": " : "",
                   remedy ? remedy : "");
}

static int refused(const struct uma_driver_limits *limits, int code, const char *what, struct uma_error *err) {
    char why[400];
    uma_driver_limit_explain(limits, why, sizeof(why));
    return uma_error_text(err, code, "%s: %s", what, why);
}

static void ask(const struct uma_driver_limit_place *place, uint64_t soft_most, uint64_t hard, struct uma_driver_limits *ret_limits) {
    struct uma_driver_limits_question question = {
        .library = place->library, .cgroup = place->cgroup, .set = true, .soft_most = soft_most, .hard = hard
    };
    uma_driver_limits_ask(&question, UMA_DRIVER_LIMITS_DEADLINE, ret_limits);
}

/* A limit that only some of the GPUs took, or that is not the one that was asked for, is worse than none: nobody knows of it. */
static void undo(const struct uma_driver_limit_place *place, const struct uma_driver_limits *before) {
    struct uma_driver_limits ignored;
    bool taken = false;
    for (unsigned i = 0; i < before->n; i++)
        taken = taken || before->gpus[i].state == UMA_DRIVER_LIMITS_DONE;
    if (taken)
        ask(place, UMA_DRIVER_LIMIT_NONE, before->gpus[0].hard, &ignored);
}

int uma_driver_limit_set(const struct uma_driver_limit_place *place, uint64_t limit, struct uma_driver_limits *ret_limits,
                         struct uma_error *err) {
    struct uma_driver_limits before, now;
    ask(place, limit, limit, &before); /* a soft limit that another set stays, as far as the new hard one allows */
    if (before.state != UMA_DRIVER_LIMITS_DONE) {
        undo(place, &before);
        *ret_limits = before;
        return refused(&before, EIO, "the driver did not take the limit", err);
    }
    uma_driver_limits_read(place->library, place->cgroup, &now);
    *ret_limits = now;
    if (now.state != UMA_DRIVER_LIMITS_DONE) {
        undo(place, &before);
        return refused(&now, EBADMSG, "the driver took the limit, and does not say that it has it", err);
    }
    if (!uma_driver_limit_is(&now, limit)) {
        undo(place, &before);
        return uma_error_text(err, EBADMSG, "the driver took a limit of %llu bytes, and says %llu", (unsigned long long)limit,
                              (unsigned long long)now.gpus[0].hard);
    }
    return 0;
}

int uma_driver_limit_release(const struct uma_driver_limit_place *place, struct uma_driver_limits *ret_limits, struct uma_error *err) {
    struct uma_driver_limits limits;
    ask(place, 0, UMA_DRIVER_LIMIT_NONE, &limits);
    *ret_limits = limits;
    return limits.state == UMA_DRIVER_LIMITS_DONE ? 0 : refused(&limits, EIO, "the driver did not take its limit back", err);
}
