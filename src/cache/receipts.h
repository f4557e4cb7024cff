/* SPDX-License-Identifier: MIT */
/* receipts.h - the receipts of an eviction: sums over all files, and so many single ones as are worth keeping (evict.h). */
#pragma once

#include "cache/evict.h"

/* Add one file's to the sums and to the list; `error_text` says what file->error is. -ENOMEM. */
int uma_receipts_add(struct uma_eviction *eviction, const struct uma_evicted_file *file, const char *path, const char *model,
                     const char *error_text, struct uma_error *err);
void uma_receipts_free(struct uma_eviction *eviction);
/* Which processes map files of the list that were kept: by device and inode. Pure. -ENOMEM. */
struct uma_used_files;
int uma_receipts_map(struct uma_eviction *eviction, const struct uma_used_files *used, struct uma_error *err);
