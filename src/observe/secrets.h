/* SPDX-License-Identifier: MIT */
/*
 * secrets.h - command lines hold API keys and passwords ("--api-key X", "HF_TOKEN=X", "https://user:pass@host"), and umactl has no
 * use for them. They are replaced by *** where a command line is read, before anything is kept, shown or recorded.
 * It is a net, not a proof: a secret given as a bare argument is only known by its shape (hf_..., sk-...).
 */
#pragma once

#include "base/text.h"

/* Append text to `into` with secrets replaced. Arguments are separated by NUL, as in /proc/PID/cmdline; a title or a shell line with
 * spaces works as well. Doing it twice changes nothing. Linear in `length`. */
void uma_secrets_mask(const char *text, size_t length, struct uma_text *into);
/* Does a flag or variable of this name carry a secret? "--hf-token" yes, "--max-num-batched-tokens" and "--tokenizer" no. */
bool uma_secrets_name(const char *name, size_t length);
