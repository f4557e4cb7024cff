/* SPDX-License-Identifier: MIT */
/*
 * limit_probe.h - which of the two backends holds a job's limit on this machine, found out by trying: a child allocates more than a small limit allows, behind the valve, and in a scratch cgroup
 * that the driver was told to limit. Each step has a name and a result, so that "set" is never taken for "held". All that was set is taken back, and the group removed; what a killed
 * probe leaves goes with the next one's sweep.
 */
#pragma once

#include "base/error.h"
#include "base/root.h"
#include "observe/dmem.h"
#include "uma.h"

#include <stdbool.h>
#include <stdint.h>

enum uma_limit_state {
    UMA_LIMIT_UNTESTED = 0, /* there is no CUDA to try it with */
    UMA_LIMIT_HOLDS,
    UMA_LIMIT_NOT_ENFORCED,   /* set, and more was given all the same */
    UMA_LIMIT_NOT_READ_BACK,  /* taken, and another limit, or none, is read back */
    UMA_LIMIT_NOT_TAKEN_BACK, /* it holds, but does not go away */
    UMA_LIMIT_UNSUPPORTED,
    UMA_LIMIT_NO_SYMBOLS, /* a driver from before r615 */
    UMA_LIMIT_NO_PERMISSION,
    UMA_LIMIT_NO_GROUP, /* no cgroup v2, or none could be made */
    UMA_LIMIT_NO_LIBRARY,
    UMA_LIMIT_NO_DRIVER,
    UMA_LIMIT_HUNG,
    UMA_LIMIT_FAILED,
};
/* "holds", "not-enforced", ... */
const char *uma_limit_state_word(enum uma_limit_state state);

/* What a child is given at first, without a limit, and is to be refused; the limit is below that, by more than what rounding does. */
#define UMA_LIMIT_PROBE_TAKE (96ull << 20)
#define UMA_LIMIT_PROBE_LIMIT (64ull << 20)
/* The same for the valve, which lets no context begin where 256 MiB would not fit. */
#define UMA_LIMIT_PROBE_VALVE_TAKE (320ull << 20)
#define UMA_LIMIT_PROBE_VALVE_LIMIT (304ull << 20)
#define UMA_LIMIT_PROBE_STEP (2ull << 20) /* CUDA's pieces: a limit that is a multiple of them needs no rounding */

enum { UMA_LIMIT_STEPS_MAX = 10 };
struct uma_limit_step {
    const char *name;
    enum uma_truth passed; /* UMA_MAYBE: it could not be tried */
    char detail[256];
};
struct uma_limit_backend {
    enum uma_limit_state state;
    unsigned n_steps;
    struct uma_limit_step steps[UMA_LIMIT_STEPS_MAX];
};
struct uma_limit_probe {
    struct uma_limit_backend interposer, driver;
    char driver_version[80]; /* "": unknown */
    bool has_dmem;
    struct uma_dmem_reading dmem; /* while the limit stood */
    unsigned swept;               /* groups of killed umactls that were removed */
};

/* `library`: NVML, NULL: the loader's search. `root`: where dmem.* is read. Needs no right; what needs one says so. */
void uma_limit_probe_run(const char *library, struct uma_root *root, struct uma_limit_probe *ret_probe);

/* Groups of killed umactls: their limits are taken back, and they are removed. */
unsigned uma_limit_probe_sweep(const char *library);

/*
 * What the driver's answers mean, from (the results of) the steps after the group was made: was the limit set and read back, what did an allocation beyond it say (CUresult; -1: not tried), and one after
 * the limit was taken back. Pure.
 */
struct uma_limit_findings {
    bool set, read_back;
    int refused, afterwards; /* CUresult, -1: not tried */
    bool taken_back;
};
enum uma_limit_state uma_limit_judge(const struct uma_limit_findings *findings);
