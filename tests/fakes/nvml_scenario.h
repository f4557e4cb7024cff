/* SPDX-License-Identifier: MIT */
/* nvml_scenario.h - what the fake NVML answers: scenarios/README has the format. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_GPUS_MAX = 80, FAKE_FIELDS_MAX = 24, FAKE_PROCESSES_MAX = 256, FAKE_RULES_MAX = 64 };

struct fake_field {
    unsigned id, type;
    int code;
    double number, per_second, per_ask;
};

struct fake_process {
    unsigned pid;
    unsigned long long bytes;
    bool graphics;
};

enum fake_action { FAKE_RETURN, FAKE_DELAY, FAKE_HANG, FAKE_CRASH };
struct fake_rule {
    char symbol[80];
    int gpu; /* -1: every one, and calls without a device */
    enum fake_action action;
    int code;
    double seconds;
};

struct fake_gpu {
    char name[96], uuid[96], pci[32];
    bool has_memory, has_limits, has_claim;
    unsigned long long memory[3], limits[3];
    /* status 3 (not supported) unless given */
    struct {
        bool given;
        long long value;
    } numa, celsius, margin, power, power_limit, energy, sm_clock, memory_clock, sm_clock_max, utilization, memory_utilization, pstate,
        reasons;
    size_t n_fields, n_processes;
    struct fake_field fields[FAKE_FIELDS_MAX];
    struct fake_process processes[FAKE_PROCESSES_MAX];
    unsigned more_processes, claim;
};

struct fake_scenario {
    char driver[80];
    bool has_count;
    unsigned count;
    double reset;
    char limits_file[256], limits_dmem[256]; /* of a driver that has memory limits; "" */
    bool limits_ignored;                     /* it says yes, and does nothing */
    size_t n_gpus, n_rules;
    struct fake_gpu gpus[FAKE_GPUS_MAX];
    struct fake_rule rules[FAKE_RULES_MAX];
};

/* Seconds since the library was first called, and how often the GPUs were counted. */
double fake_age(void);
extern unsigned fake_asks;

/* Read the file of $UMA_FAKE_NVML as it holds now. A wrong line ends the process with a message: a test must not run on a misread
 * scenario. */
const struct fake_scenario *fake_scenario_now(void);
