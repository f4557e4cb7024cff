/* SPDX-License-Identifier: MIT */
/*
 * uma_page_cache.h - which files hold the page cache. Part of a snapshot (uma.h, whose promises hold here too).
 *
 * Bytes are whole pages, as the kernel counts them (cachestat(2), mincore(2)): a file's last page counts whole. What the kernel will not tell
 * this user is UMA_DENIED, never a number: mincore(2) then pretends that all is resident.
 */
#ifndef UMA_PAGE_CACHE_H
#define UMA_PAGE_CACHE_H

#include "uma_values.h"

enum uma_cached_kind {
    UMA_CACHED_FILE, /* a file of a file system with storage behind it: what is clean can be dropped */
    UMA_CACHED_MEMORY, /* tmpfs, memfd, ramfs, hugetlbfs: the pages ARE the file; not page cache that can be dropped, not counted as explained */
    UMA_CACHED_BLOCK_DEVICE, /* a device's own cache: a file system's metadata (Buffers of meminfo) */
    UMA_CACHED_KINDS,
};

struct uma_pid {
    int32_t pid;
};

/* One file, whatever number of names and views (container, overlay, hard link) it has. */
struct uma_cached_file {
    /*
     * Where this machine's reader can open it: "/models/a", "/proc/77/root/models/a" (another mount namespace), "/proc/77/fd/5" (deleted). Its bytes as they
     * are, because it is for opening: the one string that may be no UTF-8 (in a snapshot it is, as all strings are).
     */
    const char *path;
    const char
        *shown; /* what the process that uses it calls it, where `path` is a door in /proc or a layer of an overlay; NULL: path says it */
    const char *model;      /* the model it is a part of ("Qwen/Qwen3-32B", "llama3.1:8b"), or NULL */
    const char *filesystem; /* "ext4", "overlay", or NULL */
    const char *container;  /* name, else id, of the container whose view the path is in, or NULL */
    enum uma_cached_kind kind;
    bool deleted; /* no name is left: it lives while somebody has it open or mapped */
    uint64_t device, inode;
    struct uma_u64 size;     /* apparent */
    struct uma_u64 resident; /* in the page cache */
    struct uma_u64 dirty;    /* dirty or under writeback */
    const char *
        why; /* static text: why `resident` is unknown, where that is known in more words; NULL. Of this reading: snapshots do not hold it */
    int64_t used_ns; /* the later of last read (atime, which relatime keeps to a day) and last written; 0: unknown */
    size_t n_mapped_by;
    struct uma_pid *mapped_by;
    size_t n_open_by;
    struct uma_pid *open_by;
};
#define UMA_CACHED_FILES_MAX 131072 /* of one reading, the most resident: some 40 MB with their paths; what is beyond is in the sums */
/*
 * What is kept of a reading in a snapshot: its most resident files, and so many processes of each (a library is mapped by all of them). Models lie in few
 * large files; what 256 leave out is small, and its sums stay. A list of processes that is this long may have been longer.
 */
#define UMA_SNAPSHOT_CACHED_FILES 256
#define UMA_SNAPSHOT_CACHED_PIDS 32
#define UMA_CACHED_PIDS_MAX 4096 /* of one file */

struct uma_page_cache {
    struct uma_source source;  /* UMA_UNKNOWN: not asked. detail: what was left out and why */
    struct uma_u64 total;      /* the page cache of this machine: Cached + Buffers - Shmem of the same moment */
    struct uma_u64 explained;  /* resident bytes of all files that were looked at and are no memory files, listed below or left out */
    struct uma_u64 unreadable; /* files whose residency the kernel does not tell this user, listed or left out */
    struct uma_u64
        left_out;  /* files with pages in the cache that the list has no place for; UMA_UNKNOWN: nobody cut it (UMA_SNAPSHOT_CACHED_...) */
    bool complete; /* false: the time or the number of files ran out, and there may be more than all these say */
    size_t n_files;
    struct uma_cached_file *files; /* most resident first; unknown ones behind; then by size, then by path */
};

#endif
