/* SPDX-License-Identifier: MIT */
/* A history written by hand for the guard's decision: readings and tables of processes, step by step. */
#pragma once

#include "guard/danger.h"

#include "test.h"

#include <math.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define MS INT64_C(1000000)
#define SPARK (UINT64_C(127600816) * 1024) /* 121.7 GiB; its floor is 3.8 GiB, the hard floor 0.95 */

enum { SCRIPT_PROCESSES = 80 };

static struct script {
    struct uma_guard_history history;
    struct uma_guard_state state;
    struct uma_guard_policy policy;
    struct uma_guard_reading now;
    struct uma_guard_process list[SCRIPT_PROCESSES];
    size_t n;
    struct uma_guard_envelope envelope;
    struct uma_guard_view view;
    struct uma_guard_decision decision;
    bool no_table; /* the table cannot be taken */
    int64_t table_time;
} script;

static inline int script_begin(void **state) {
    (void)state;
    memset(&script, 0, sizeof(script));
    uma_guard_policy_default(&script.policy);
    uma_guard_policy_settle(&script.policy, SPARK);
    script.policy.room = false; /* another subject, mostly */
    script.now = (struct uma_guard_reading){ .time = 1000000 * MS,
                                             .boot = 1000000 * MS,
                                             .known = UMA_GUARD_KNOWS_MEMINFO | UMA_GUARD_KNOWS_VMSTAT | UMA_GUARD_KNOWS_PRESSURE |
                                                      UMA_GUARD_KNOWS_GPU,
                                             .total = SPARK,
                                             .free = 60 * GIB,
                                             .available = 60 * GIB };
    return 0;
}

static inline struct uma_guard_process *script_process(const char *name, uint64_t anon, uint64_t gpu) {
    struct uma_guard_process *p = &script.list[script.n];
    *p = (struct uma_guard_process){ .pid = 100 + (int32_t)script.n,
                                     .start = 5000 + script.n,
                                     .tree = (int32_t)script.n,
                                     .envelope = -1,
                                     .anon = anon,
                                     .gpu = gpu,
                                     .gpu_known = true,
                                     .flags = gpu ? UMA_GUARD_HOLDS_GPU : 0 };
    strncpy(p->name, name, sizeof(p->name) - 1);
    script.n++;
    return p;
}

/* After `ms`: a reading with this available memory; anon is what the processes have. */
static inline void script_read(int64_t ms, uint64_t available) {
    struct uma_guard_reading *r = &script.now;
    r->time += ms * MS;
    r->boot += ms * MS;
    r->available = available;
    if (r->free > available)
        r->free = available;
    r->anon = 0;
    for (size_t i = 0; i < script.n; i++)
        r->anon += script.list[i].anon;
    uma_guard_history_add(&script.history, r);
}

/* ... and the decision from it, with a table where it wants one. */
static inline const struct uma_guard_decision *script_step(int64_t ms, uint64_t available) {
    script_read(ms, available);
    script.view = (struct uma_guard_view){ .now = &script.now,
                                           .processes = script.table_time ? script.list : NULL,
                                           .n_processes = script.n,
                                           .processes_time = script.table_time,
                                           .envelopes = &script.envelope,
                                           .n_envelopes = script.envelope.need > 0 };
    uma_guard_decide(&script.state, &script.history, &script.policy, &script.view, &script.decision);
    if (script.decision.want_processes && !script.no_table && script.n > 0) {
        script.table_time = script.now.time;
        script.view.processes = script.list;
        script.view.processes_time = script.table_time;
        struct uma_guard_decision second;
        uma_guard_decide(&script.state, &script.history, &script.policy, &script.view, &second);
        if (script.decision.n == 0)
            script.decision = second;
    }
    return &script.decision;
}

static inline const struct uma_guard_action *script_action(enum uma_guard_action_kind kind) {
    for (uint32_t i = 0; i < script.decision.n; i++)
        if (script.decision.actions[i].kind == kind)
            return &script.decision.actions[i];
    return NULL;
}
