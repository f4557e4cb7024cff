/* SPDX-License-Identifier: MIT */
/*
 * memory.h - what the kernel says about the pool: meminfo, vmstat, PSI, zones, swaps, NUMA nodes. Files stay open between readings, so that
 * a tick is a handful of pread(2). The parsers are pure, take any bytes and never read past `length`.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

struct uma_memory_reader;
/* `root` must outlive it. NULL: out of memory. */
struct uma_memory_reader *uma_memory_reader_new(struct uma_root *root);
struct uma_memory_reader *uma_memory_reader_free(struct uma_memory_reader *reader);
/* Fills meminfo, vmstat, the three pressures, zones, swaps and nodes of the snapshot, each with its source. */
void uma_memory_read(struct uma_memory_reader *reader, struct uma_snapshot *snapshot);

/*
 * The parsers. Each returns 0, or the number of places (fields or lines) that are about something known and are not what the format
 * says: those are UMA_MALFORMED or left out, the rest is good, and err->text names the first. Other lines are skipped. CRLF, a byte order
 * mark, indentation, a cut-off last line and missing fields are fine. -EINVAL when the text is not such a file at all. `file` names the
 * text in messages; ret_... keep names in the arena. `source` members are the caller's.
 */
/* -EINVAL when neither MemTotal nor MemFree is there; without MemTotal the rest is kept, and that it is missing is the first complaint. */
int uma_meminfo_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_meminfo *ret_meminfo,
                      struct uma_error *err);
int uma_vmstat_parse(const char *text, size_t length, const char *file, struct uma_vmstat *ret_vmstat, struct uma_error *err);
/* An empty text is PSI that is there but disabled: -EOPNOTSUPP. */
int uma_pressure_parse(const char *text, size_t length, const char *file, struct uma_pressure *ret_pressure, struct uma_error *err);
/* Both add to `zones` (matched by node and name), in either order. */
int uma_zoneinfo_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_zones *zones,
                       struct uma_error *err);
int uma_buddyinfo_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_zones *zones,
                        struct uma_error *err);
int uma_swaps_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, size_t *ret_n, struct uma_swap **ret_swaps,
                    struct uma_error *err);
/* Fills all but `id` and `has_cpu`. */
int uma_node_meminfo_parse(const char *text, size_t length, const char *file, struct uma_node *node, struct uma_error *err);

/* The page cache: Cached and Buffers, less Shmem, which Cached counts though its pages are memory. Unknown when one of the three is. Pure. */
struct uma_u64 uma_meminfo_page_cache(const struct uma_meminfo *meminfo);
