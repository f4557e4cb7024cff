/* SPDX-License-Identifier: MIT */
/*
 * mask.h - keeping secrets out of run records. A record is read by others (bug reports, shared home directories), so keys and tokens on a
 * command line or in the environment are replaced. It knows shapes, not meanings: a secret of unknown shape in a free argument is not found.
 */
#pragma once

#include "base/text.h"

#include <stdbool.h>

#define UMA_MASKED "***"

/* Is `name` (an option, a variable; n bytes) one whose value is a secret: has it a word key, token, secret, password ...? */
bool uma_mask_name(const char *name, size_t n);
/* Append argv[i] with what is secret in it replaced: the value after --api-key, --api-key=V, HF_TOKEN=V, user:password@ in addresses, and values with
 * the prefix of a known kind of token. A bare number is never a secret (--max-token 5). */
void uma_mask_argument(struct uma_text *text, char *const *argv, int i);
/* Does a variable of the environment belong into a record? Names that steer memory, devices and collectives; never secrets. */
bool uma_environment_matters(const char *assignment);
