/* SPDX-License-Identifier: MIT */
/*
 * tune.h - setting what was advised, and taking it back. The order makes a kill at any moment harmless: what was before is on the disk, then a value is
 * set, then it is read back. The first "before" of a setting is kept however often it is set again; taking back touches only what still is as umactl left it.
 */
#pragma once

#include "act/tunable.h"
#include "base/arena.h"

#include <stdbool.h>

struct uma_tune_wish {
    const char *id, *path, *value;
    const char *counterpart; /* as in struct uma_advice; or NULL */
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
    UMA_TUNE_FAILED,    /* `error` says why; it may be as before */
};
const char *uma_tune_outcome_name(enum uma_tune_outcome outcome); /* "set", "already so", ... */

struct uma_tune_result {
    const char *id, *path;
    enum uma_tune_outcome outcome;
    const char *before, *set; /* NULL unknown */
    const char *now;          /* after; NULL when it could not be read */
    const char *error;        /* NULL when it went well */
};

struct uma_tune_results {
    size_t n;
    struct uma_tune_result *list;
    bool incomplete; /* something failed or was left alone */
};

/*
 * Set all of them. Before anything is recorded or changed each is read and the right to write it is asked for: -EACCES, -EPERM, -EROFS, -ENOENT name the
 * first that cannot be. -EINVAL: the record there is not one. After that it returns 0 and each result says how it went. Strings in the arena.
 */
int uma_tune_apply(const struct uma_tune_place *place, const struct uma_tune_wish *wishes, size_t n, struct uma_arena *arena,
                   struct uma_tune_results *ret_results, struct uma_error *err);
/* Take everything back that is recorded. No record: 0 and no result. */
int uma_tune_undo(const struct uma_tune_place *place, struct uma_arena *arena, struct uma_tune_results *ret_results, struct uma_error *err);
