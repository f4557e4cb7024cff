/* SPDX-License-Identifier: MIT */
/*
 * valve_limits.h - the parts of umactl valve that are about the driver's own limit: --probe, which finds out by trying what holds a limit here, and --set, --get and --release
 * of one group. Part of the command: options in, one or two calls, text or JSON out.
 */
#pragma once

#include "cmd/command.h"

#include <stdint.h>

/* `nvml` as of uma_command_observe_options. Each returns the exit status. */
int uma_valve_probe(const struct uma_observe_options *observe, bool json);

enum uma_valve_limit_action { UMA_VALVE_LIMIT_SET, UMA_VALVE_LIMIT_GET, UMA_VALVE_LIMIT_RELEASE };
struct uma_valve_limit_options {
    enum uma_valve_limit_action action;
    const char *cgroup; /* NULL: that of the process */
    int pid;
    uint64_t limit;
};
int uma_valve_limit(const struct uma_observe_options *observe, const struct uma_valve_limit_options *options, bool json);
