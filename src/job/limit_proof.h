/* SPDX-License-Identifier: MIT */
/*
 * limit_proof.h - what `umactl valve --probe` measured of the driver's own limit, kept until the next boot so that `umactl run --limit` need not measure again (a CUDA context takes some hundred
 * milliseconds, and memory): a small file of root's in /run/umactl. It is believed only where it is root's, nobody else may write to it or to its folder, and boot and driver are the same.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct uma_limit_proof {
    char boot_id[40];
    char driver[80]; /* its version */
    bool holds;
};

/* $UMACTL_RUN, else /run/umactl. */
const char *uma_limit_proof_folder(void);
/* -ENOENT: there is none; -EPERM: another could have written it; -EINVAL: it is not one. */
int uma_limit_proof_load(const char *folder, struct uma_limit_proof *ret_proof, struct uma_error *err);
/* Replaces it at once. For root. */
int uma_limit_proof_save(const char *folder, const struct uma_limit_proof *proof, struct uma_error *err);
/* Pure. */
int uma_limit_proof_parse(const char *text, size_t length, struct uma_limit_proof *ret_proof, struct uma_error *err);
/* Does it say that this driver holds limits since this boot? NULL: not known, which is no. Pure. */
bool uma_limit_proof_holds(const struct uma_limit_proof *proof, const char *boot_id, const char *driver);
