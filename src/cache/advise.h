/* SPDX-License-Identifier: MIT */
/*
 * advise.h - what the settings of a machine do to models on one pool of memory: a verdict for each, why, from which public source and how sure that
 * is, and the value that helps. Pure: a function of what was read, so that a machine's folder gives the same advice anywhere.
 *
 * It recommends a value only where what it does is known (the kernel's documents and source, a measurement). Where reports from the field
 * disagree it says "disputed", names both sides, and recommends nothing. It never changes anything.
 */
#pragma once

#include "base/arena.h"
#include "observe/tuning.h"
#include "uma.h"

enum uma_verdict {
    UMA_VERDICT_HURTS,    /* what is set now is known to hurt here: somebody or something set it, so it is changed only when it is named */
    UMA_VERDICT_HELPS,    /* another value helps here */
    UMA_VERDICT_DISPUTED, /* reports disagree, or it depends on the workload */
    UMA_VERDICT_UNKNOWN,  /* it could not be read */
    UMA_VERDICT_OK,       /* nothing to gain */
    UMA_VERDICT_MAX,
};
const char *uma_verdict_name(enum uma_verdict verdict); /* "hurts" */

enum uma_certainty {
    UMA_CERTAIN_MEASURED, /* by this project: docs/measurements.md */
    UMA_CERTAIN_KERNEL,   /* the kernel's documents or source */
    UMA_CERTAIN_VENDOR,   /* the vendor's or the engine's own document or source */
    UMA_CERTAIN_FIELD,    /* a report by somebody who runs such a machine: mostly one unit, not reproduced here */
    UMA_CERTAIN_MAX,
};
const char *uma_certainty_name(enum uma_certainty certainty); /* "field report" */

struct uma_evidence {
    enum uma_certainty certainty;
    const char *says;
    const char *source; /* where anybody can read it */
};

struct uma_advice {
    const char *id;      /* "dirty-background", "readahead-nvme0n1", "loader-5100": what --apply names */
    const char *subject; /* "vm.dirty_background_bytes" */
    const char *now;     /* for people: "10 % = 11.3 GiB"; "?" unknown */
    enum uma_verdict verdict;
    const char *recommended; /* the value, as it is written; NULL: none */
    const char *path;        /* the file below the root that takes it; NULL: not a thing that umactl sets */
    const char *why;
    const char *command; /* by hand; NULL: none */
    size_t n_evidence;
    const struct uma_evidence *evidence;
};

/* Is it set when nothing is named: it helps, and umactl sets such things? What hurts was set by somebody, who is asked by name. Pure. */
bool uma_advice_is_default(const struct uma_advice *advice);

struct uma_advice_list {
    size_t n;
    struct uma_advice *list; /* hurts, helps, disputed, unknown, ok; within each as documented */
};
#define UMA_ADVICE_MAX 256

/* `snapshot`: its memory, platform and processes; what it lacks is unknown. Strings are the arena's, or the tuning's and snapshot's. 0 or -ENOMEM. */
int uma_advise(const struct uma_tuning *tuning, const struct uma_snapshot *snapshot, struct uma_arena *arena,
               struct uma_advice_list *ret_advice, struct uma_error *err);
