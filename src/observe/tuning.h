/* SPDX-License-Identifier: MIT */
/*
 * tuning.h - the settings that decide what the kernel, the driver and the disks do with the page cache and with free memory: vm.*, transparent
 * huge pages, multi-generation LRU, zswap, zram, readahead, the kernel's command line, the NVIDIA driver's pools, the limit on locked memory.
 *
 * A setting that this kernel does not have is UMA_ABSENT, one that this user may not read UMA_DENIED, one that is not what its format says
 * UMA_MALFORMED: never 0. Reads some sixty small files; changes nothing, judges nothing. With a capture folder all of them are recorded, of the
 * kernel's command line and the driver's parameters only the words that are read here.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

/* X(field, file of /proc/sys/vm): Documentation/admin-guide/sysctl/vm.rst says what each is; units are the file's own. */
#define UMA_VM_SETTINGS(X)                                                                                                                 \
    X(min_free_kbytes, "min_free_kbytes")                                                                                                  \
    X(watermark_scale_factor, "watermark_scale_factor")                                                                                    \
    X(watermark_boost_factor, "watermark_boost_factor")                                                                                    \
    X(dirty_background_bytes, "dirty_background_bytes")                                                                                    \
    X(dirty_background_ratio, "dirty_background_ratio")                                                                                    \
    X(dirty_bytes, "dirty_bytes")                                                                                                          \
    X(dirty_ratio, "dirty_ratio")                                                                                                          \
    X(dirty_expire_centisecs, "dirty_expire_centisecs")                                                                                    \
    X(dirty_writeback_centisecs, "dirty_writeback_centisecs")                                                                              \
    X(swappiness, "swappiness")                                                                                                            \
    X(page_cluster, "page-cluster")                                                                                                        \
    X(vfs_cache_pressure, "vfs_cache_pressure")                                                                                            \
    X(overcommit_memory, "overcommit_memory")                                                                                              \
    X(overcommit_ratio, "overcommit_ratio")                                                                                                \
    X(zone_reclaim_mode, "zone_reclaim_mode")                                                                                              \
    X(compaction_proactiveness, "compaction_proactiveness")                                                                                \
    X(extfrag_threshold, "extfrag_threshold")                                                                                              \
    X(max_map_count, "max_map_count")                                                                                                      \
    X(nr_hugepages, "nr_hugepages")

/* A file that shows all it can be and marks what it is: "always [madvise] never". */
struct uma_choice {
    const char *selected; /* NULL unless known */
    enum uma_validity validity;
};

/* A disk that a file system is mounted from. */
struct uma_disk {
    const char *name;          /* "nvme0n1", "dm-0" */
    const char *mount;         /* the shortest of its mount points */
    struct uma_u64 read_ahead; /* bytes */
    enum uma_truth rotational;
};
#define UMA_DISKS_MAX 32

struct uma_zram {
    const char *name;           /* "zram0" */
    struct uma_u64 stored;      /* bytes that were swapped to it */
    struct uma_u64 memory_used; /* bytes of memory that they take now */
};
#define UMA_ZRAMS_MAX 16

struct uma_tuning {
#define UMA_X(field, file) struct uma_u64 field;
    UMA_VM_SETTINGS(UMA_X)
#undef UMA_X
    struct uma_choice thp_enabled, thp_defrag, thp_shmem; /* /sys/kernel/mm/transparent_hugepage */
    struct uma_u64 khugepaged_defrag;
    struct uma_u64 lru_gen_enabled; /* bits of /sys/kernel/mm/lru_gen/enabled */
    struct uma_u64 lru_gen_min_ttl_ms;
    enum uma_truth zswap;
    enum uma_validity command_line;                         /* of the kernel; the words below are of it, NULL where it has none */
    const char *kho, *init_on_alloc, *transparent_hugepage; /* the value behind "=" */
    struct uma_u64 nvidia_pools; /* EnableSystemMemoryPools of the NVIDIA driver, a set of page sizes; 0: no pools */
    struct uma_u64 memlock;      /* bytes that this user's processes may lock (the soft limit); UMA_UNLIMITED */
    enum uma_validity disks_validity;
    size_t n_disks;
    struct uma_disk *disks;
    size_t n_zrams;
    struct uma_zram *zrams;
};

/* Fill all of it; what cannot be read says so in its validity. 0, or -ENOMEM. Strings and lists are the arena's. */
int uma_tuning_read(struct uma_root *root, struct uma_arena *arena, struct uma_tuning *ret_tuning, struct uma_error *err);

/* The parsers, pure. */
/* The selected one of "always [madvise] never"; a file of one plain word is that word. False when it is neither. */
bool uma_choice_parse(const char *text, size_t length, const char **ret_start, size_t *ret_length);
/* The value of "name=value" on the kernel's command line, the last one, quotes removed; false when there is none. */
bool uma_command_line_find(const char *text, size_t length, const char *name, const char **ret_start, size_t *ret_length);
/* "EnableSystemMemoryPools: 529" of /proc/driver/nvidia/params. */
struct uma_u64 uma_nvidia_pools_parse(const char *text, size_t length);
/* The soft limit of "Max locked memory" of /proc/PID/limits. */
struct uma_u64 uma_memlock_parse(const char *text, size_t length);
/* orig_data_size and mem_used_total of /sys/block/zramN/mm_stat (Documentation/admin-guide/blockdev/zram.rst). */
bool uma_zram_stat_parse(const char *text, size_t length, uint64_t *ret_stored, uint64_t *ret_memory_used);
