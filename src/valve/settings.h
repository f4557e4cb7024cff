/* SPDX-License-Identifier: MIT */
/*
 * settings.h - what the valve is told by the environment: one variable, "key:value,key:value". `umactl run` and `umactl valve --env` write it. What is not understood is passed over with one
 * line in the log: a valve never keeps a program from running.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UMA_VALVE_VARIABLE "UMACTL_VALVE"

enum uma_valve_report {
    UMA_VALVE_REPORT_AUTO, /* pool where the device's memory is the machine's */
    UMA_VALVE_REPORT_POOL, /* cuMemGetInfo says what this job may still take */
    UMA_VALVE_REPORT_RAW,  /* what the driver says */
};

struct uma_valve_settings {
    bool off;                     /* "off": loaded, and does nothing */
    bool has_floor;               /* otherwise the default for the machine */
    uint64_t ceiling;             /* "ceiling:BYTES"; UMA_VALVE_NONE */
    uint64_t floor;               /* "floor:BYTES" */
    enum uma_valve_report report; /* "report:auto|pool|raw" */
    char token[33];               /* "token:HEX": processes that share an account have the same; "" */
};

/* `text`: the variable's value, or NULL. The first key that is not understood: `ret_unknown` (in `text`), `ret_length`; NULL when all were. */
void uma_valve_settings_parse(const char *text, struct uma_valve_settings *ret_settings, const char **ret_unknown, size_t *ret_length);
