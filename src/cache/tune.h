/* SPDX-License-Identifier: MIT */
/*
 * tune.h - setting what was advised, and taking it back. The order makes a kill at any moment harmless: what was before is on the disk, then a value is
 * set, then it is read back. The first "before" of a setting is kept however often it is set again; taking back touches only what still is as umactl left it,
 * and says what holds afterwards. Of a setting with two faces (uma_tunable_counterpart) what was before is the pair.
 *
 * Each setting stands for itself: one that is missing, read-only or refused is told, the others go on, and what was not set is not recorded. SIGINT,
 * SIGTERM, SIGHUP and SIGQUIT wait from the record to the last change: what was begun is done whole.
 */
#pragma once

#include "act/tunable.h"
#include "base/arena.h"

#include <stdbool.h>

struct uma_tune_wish {
    const char *id, *path, *value;
};

struct uma_tune_place {
    const char *prefix;  /* "" for this machine */
    const char *state;   /* folder of the record: uma_tuning_state() */
    const char *boot_id; /* of this boot, "" unknown */
};

enum uma_tune_outcome {
    UMA_TUNE_SET,       /* set, and read back as such */
    UMA_TUNE_ALREADY,   /* it was that already: nothing was touched or recorded */
    UMA_TUNE_RESTORED,  /* it is as it was before */
    UMA_TUNE_UNTOUCHED, /* recorded, but it never was set, or somebody else took it back */
    UMA_TUNE_CHANGED,   /* somebody set another value since: left alone */
    UMA_TUNE_RESTARTED, /* the machine was restarted since: there is nothing to take back */
    UMA_TUNE_NONE,      /* no value is advised, or umactl does not set such things: `error` says which */
    UMA_TUNE_FAILED,    /* `error` says why; it may be as before */
};
const char *uma_tune_outcome_name(enum uma_tune_outcome outcome); /* "set", "already so", ... */

/* What a setting is: its own file's value, and that of its counterpart. NULL unknown; `counterpart` NULL also where it has none. */
struct uma_tune_value {
    const char *own, *counterpart;
};

struct uma_tune_result {
    const char *id, *path;
    const char *counterpart; /* path of the other face, or NULL */
    enum uma_tune_outcome outcome;
    const char *set;              /* what umactl set, or was to */
    struct uma_tune_value before; /* at the first change; of one that was already so, or failed to be set, before this call */
    struct uma_tune_value found;  /* by undo, before it wrote */
    struct uma_tune_value now;    /* after */
    const char *error;            /* NULL when it went well */
};

struct uma_tune_results {
    size_t n;
    struct uma_tune_result *list;
    bool incomplete; /* something failed or was left alone */
};

/*
 * Set all of them. -EACCES, -EPERM, -EROFS: none may be set, `err` names the first, and no folder was made; -EINVAL: the record there is not one, or belongs
 * to somebody else. Then nothing was changed. After that it returns 0 and each result says how it went. Strings in the arena.
 */
int uma_tune_apply(const struct uma_tune_place *place, const struct uma_tune_wish *wishes, size_t n, struct uma_arena *arena,
                   struct uma_tune_results *ret_results, struct uma_error *err);
/* Take everything back that is recorded; with `force` also what somebody set since. No record: 0 and no result. */
int uma_tune_undo(const struct uma_tune_place *place, bool force, struct uma_arena *arena, struct uma_tune_results *ret_results,
                  struct uma_error *err);
