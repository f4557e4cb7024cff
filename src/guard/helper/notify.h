/* SPDX-License-Identifier: MIT */
/*
 * notify.h - tell people of what the guard did, after it was done: by a program of theirs, by a webhook (curl), on their desktops (notify-send). One child at a time, each with a timeout; a short queue; and
 * rarely enough that nobody is flooded: what was left out is counted and told with the next. Single-threaded: the main thread has it.
 */
#pragma once

#include "base/units.h"
#include "guard/helper/child.h"
#include "guard/message.h"
#include "guard/notify_policy.h"

enum {
    UMA_HELPER_QUEUE = 16,   /* actions that wait to be told: one trouble has a handful */
    UMA_HELPER_DESKTOPS = 8, /* sessions that are told */
};
/* For one program. A webhook behind a slow line takes a second or two. */
#define UMA_HELPER_TELL_NS (10 * UMA_SECOND_NS)
/* One every 10 s in the long run, 8 at once. The last 4 of these are for what ends something: a tree that is stopped and let go all the time must not keep the news of a kill from anybody. */
#define UMA_HELPER_RATE_NS (10 * UMA_SECOND_NS)
enum { UMA_HELPER_BURST = 8, UMA_HELPER_KEPT_FOR_ENDS = 4 };

enum uma_helper_way { UMA_HELPER_COMMAND, UMA_HELPER_WEBHOOK, UMA_HELPER_DESKTOP, UMA_HELPER_WAYS };

struct uma_helper_desktop {
    uid_t uid;
    gid_t gid;
};

struct uma_helper_notify {
    struct uma_guard_notify policy;
    struct {
        struct uma_guard_message message;
        uint64_t left_out;
    } queue[UMA_HELPER_QUEUE];
    unsigned first, n;
    enum uma_helper_way way; /* of the first in the queue: the next one to try */
    unsigned desktop, n_desktops;
    struct uma_helper_desktop desktops[UMA_HELPER_DESKTOPS];
    const char *telling; /* static: what the child is; NULL: there is none */
    struct uma_helper_child child;
    int64_t credit_ns, credited; /* what has been saved up, and when that was reckoned */
    uint64_t left_out;
    char host[65];
};

void uma_helper_notify_begin(struct uma_helper_notify *notify, const struct uma_guard_notify *policy, int64_t now_ns);
/* From the next action on. */
void uma_helper_notify_change(struct uma_helper_notify *notify, const struct uma_guard_notify *policy);
/* The message of an action; whether it is worth telling is found out here. */
void uma_helper_notify_add(struct uma_helper_notify *notify, const struct uma_guard_message *message, int64_t now_ns);
/* Looks after the child and starts the next. When to call it again at the latest, or when its child's descriptor is readable; INT64_MAX: nothing is to do. */
int64_t uma_helper_notify_turn(struct uma_helper_notify *notify, int64_t now_ns);
/* Ends the child. */
void uma_helper_notify_end(struct uma_helper_notify *notify);

/* May one more be told now? Takes its credit. Pure but for `notify`. */
bool uma_helper_notify_allow(struct uma_helper_notify *notify, enum uma_guard_action_kind kind, int64_t now_ns);
