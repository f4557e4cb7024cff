/* SPDX-License-Identifier: MIT */
/*
 * cached_table.h - the files of one reading of the page cache while it is made: each once by device and inode, the most resident kept, sums of all. Memory is
 * bounded by `files_max` for what is kept and by 24 bytes for each file that was seen. Touches no file.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "uma.h"

struct uma_cached_table;
/* `resident_only`: files of which nothing is resident are counted and not kept. */
struct uma_cached_table *uma_cached_table_new(size_t files_max, bool resident_only);
struct uma_cached_table *uma_cached_table_free(struct uma_cached_table *table);

/* The processes that use a file, ascending; the lists are the caller's and outlive the table. */
struct uma_cached_users {
    size_t n_mapped_by, n_open_by;
    const int32_t *mapped_by, *open_by;
};

/* A file is there: 1 it is new, 0 it was seen before, -ENOMEM. */
int uma_cached_table_claim(struct uma_cached_table *table, uint64_t device, uint64_t inode);
/*
 * What was found out about a file that was claimed (or that has no inode: 0). `path` and `shown` are copied, `filesystem` and `container` outlive the table; its
 * lists of processes and its model are not looked at.
 */
int uma_cached_table_add(struct uma_cached_table *table, const struct uma_cached_file *file, const struct uma_cached_users *users);
/* The same file again by another way: more users; `path` (or NULL) when it is a better one than a door in /proc. */
int uma_cached_table_again(struct uma_cached_table *table, uint64_t device, uint64_t inode, const char *path, const char *filesystem,
                           const struct uma_cached_users *users);

struct uma_cached_sums {
    uint64_t files, resident; /* resident: of files and block devices, not of memory files */
    uint64_t unreadable;      /* the kernel does not say */
    uint64_t left_out;        /* had pages in the cache, and there was no room for them */
};
const struct uma_cached_sums *uma_cached_table_sums(const struct uma_cached_table *table);

/* Call `each` for what is kept, in no order; non-zero ends it and is returned. */
int uma_cached_table_each(const struct uma_cached_table *table, int (*each)(void *userdata, const struct uma_cached_file *file),
                          void *userdata);
/*
 * What was kept, in the order that uma_page_cache.h promises, with strings, lists and models (by `name`, asked once for each file) in `arena`. The table is
 * empty then.
 */
int uma_cached_table_finish(struct uma_cached_table *table,
                            const char *(*name)(void *userdata, const struct uma_cached_file *file, struct uma_arena *scratch),
                            void *userdata, struct uma_arena *arena, size_t *ret_n, struct uma_cached_file **ret_files);

static inline void uma_cleanup_cached_table(struct uma_cached_table **t) {
    (void)uma_cached_table_free(*t);
}
#define _cleanup_cached_table_ _cleanup_(uma_cleanup_cached_table)
