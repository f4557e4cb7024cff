/* SPDX-License-Identifier: MIT */
/* receipts.h - the receipts of an eviction: sums over all files, and so many single ones as are worth keeping (evict.h). */
#pragma once

#include "cache/evict.h"

/* What a file is called; all but the path may be NULL. `error`: what file->error is. */
struct uma_receipt_names {
    const char *path, *shown, *model, *error;
};
/* Add one file's to the sums and to the list, with copies of the names. -ENOMEM. */
int uma_receipts_add(struct uma_eviction *eviction, const struct uma_evicted_file *file, const struct uma_receipt_names *names,
                     struct uma_error *err);
void uma_receipts_free(struct uma_eviction *eviction);
/* Which processes map files of the list that were kept: by device and inode. Pure. -ENOMEM. */
struct uma_used_files;
int uma_receipts_map(struct uma_eviction *eviction, const struct uma_used_files *used, struct uma_error *err);
/* Who of those has locked some of it: each process that maps something that was kept is asked, until `deadline_ns`. */
int uma_receipts_lock(struct uma_eviction *eviction, struct uma_root *root, int64_t deadline_ns, struct uma_error *err);
