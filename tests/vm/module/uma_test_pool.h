/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * uma_test_pool.h - the device /dev/uma_test_pool: memory as a GPU driver takes it on a machine with one pool, for tests in a guest.
 *
 * The kernel module (uma_test_pool.c) and the programs that use it (C and C++) share this file. An open file of the device is a client: what it
 * holds is its own, and goes when the last descriptor and the last mapping of it are closed, also when its process is killed.
 *
 * The memory has no row in /proc/meminfo, is in no process's RSS, is charged to no cgroup and is known to no OOM killer. It is taken with
 * GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN | __GFP_ZERO in blocks of 2^order pages. Mapping a piece of it (uma_test_pool_map_offset)
 * changes none of this.
 *
 * A call that fails sets errno: ENOMEM (out of memory, or refused as scripted), EINTR (the process is being killed), EINVAL (an unknown flag, an
 * order above UMA_TEST_POOL_LARGEST_ORDER, no bytes), ENOENT (no such id), EPERM (settings without CAP_SYS_ADMIN), EFAULT.
 */
#ifndef UMA_TEST_POOL_H
#define UMA_TEST_POOL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define UMA_TEST_POOL_DEVICE "/dev/uma_test_pool"
#define UMA_TEST_POOL_LARGEST_ORDER 10 /* the page allocator's own largest, with 4 KiB pages: blocks of 4 MiB */
#define UMA_TEST_POOL_ORDERS (UMA_TEST_POOL_LARGEST_ORDER + 1)

/* Flags of an allocation. */
#define UMA_TEST_POOL_FALL_BACK 0x1u /* where no block of an order is to be had, go on with the next lower one; else the allocation fails */
#define UMA_TEST_POOL_NO_POOL 0x2u   /* neither taken from the page pools nor given to them */

/* The request is rounded up to pages and cut into blocks: of 2^order pages as long as they fit, the rest into the largest that fit. */
struct uma_test_pool_alloc {
    __u64 bytes;
    __u32 order;
    __u32 flags;
    __u64 id;        /* out: > 0 */
    __u64 got_bytes; /* out: the request, rounded up to pages */
};

/* All counters but those that end in _bytes count since the module was loaded. */
struct uma_test_pool_stats {
    __u64 file_bytes;    /* held through this open file */
    __u64 process_bytes; /* held through all files that this process opened (its thread group, whoever uses the file now) */
    __u64 held_bytes;    /* held through all files */
    __u64 peak_bytes;    /* the most that held_bytes was */
    __u64 pooled_bytes;  /* given back by their holders, not yet by the module: in the page pools */
    __u64 pooled_blocks[UMA_TEST_POOL_ORDERS];
    __u64 allocations;    /* that succeeded */
    __u64 frees;          /* of whole allocations, for whatever reason */
    __u64 refused_script; /* failed because of fail_next */
    __u64 refused_floor;  /* failed because of minimum_free_bytes */
    __u64 refused_order;  /* failed because of largest_order */
    __u64 refused_kernel; /* failed because the kernel had no block */
    __u64 interrupted;    /* given up because the process was being killed */
    __u64 reused_blocks;  /* came out of a page pool */
    __u64 shrunk_blocks;  /* left a page pool because the kernel asked for memory */
    __u64 late_blocks;    /* left a page pool because their time was over */
};

/* What the device does, for all its users. A reading is changed and set as a whole. */
#define UMA_TEST_POOL_KEEP 0xffffffffu   /* return_delay_ms: only the kernel's asking empties the pools, as with the real driver */
#define UMA_TEST_POOL_POOL_ON_CLOSE 0x1u /* settings flag: memory of a closed file goes through the pools too, as with the real driver */
#define UMA_TEST_POOL_DEAF 0x2u /* settings flag: the pools give nothing to the kernel when it asks; only their time empties them */
#define UMA_TEST_POOL_DRIVER_POOLS 0x211u /* pool_orders of the real driver: 4 KiB, 64 KiB, 2 MiB */
struct uma_test_pool_settings {
    __u32 fail_next;       /* this many allocations that come next fail with ENOMEM; counts down */
    __u32 return_delay_ms; /* how long freed memory stays in a pool; 0: not at all */
    __u64
        minimum_free_bytes; /* an allocation that would take MemFree below this fails at once, whatever cache could be reclaimed; 0: none does */
    __u32 microseconds_per_mib; /* how long an allocation takes beside the kernel's own time */
    __u32 pool_orders;          /* bit n: blocks of order n have a pool */
    __u32 largest_order;        /* blocks above it are refused as though memory were in pieces */
    __u32 flags;
};

/* Who holds memory, as a management library would report it: one row per open file that holds any, in the order in which they were opened. */
struct uma_test_pool_holder {
    __u64 bytes;
    __s32 pid; /* of the process that opened the file, as the reader's PID namespace knows it; 0 when it does not */
    char name[20];
};
struct uma_test_pool_holders {
    __u64 rows;     /* in: address of an array of struct uma_test_pool_holder */
    __u32 capacity; /* in: its length, at most 4096 */
    __u32 count;    /* out: rows there are; those beyond the capacity were not written */
};

#define UMA_TEST_POOL_IOC_ALLOC _IOWR('u', 0x50, struct uma_test_pool_alloc)
#define UMA_TEST_POOL_IOC_FREE _IOW('u', 0x51, __u64) /* a pointer to the id */
#define UMA_TEST_POOL_IOC_STATS _IOR('u', 0x52, struct uma_test_pool_stats)
#define UMA_TEST_POOL_IOC_GET _IOR('u', 0x53, struct uma_test_pool_settings)
#define UMA_TEST_POOL_IOC_SET _IOW('u', 0x54, struct uma_test_pool_settings)
#define UMA_TEST_POOL_IOC_HOLDERS _IOWR('u', 0x55, struct uma_test_pool_holders)
/* Waits for so many milliseconds (a pointer to them; at most 10 minutes) where no signal reaches, SIGKILL included: a call into a driver that hangs. */
#define UMA_TEST_POOL_IOC_HANG _IOW('u', 0x56, __u64)
#define UMA_TEST_POOL_HANG_MOST 600000u

/* The offset for mmap(2) of allocation id: MAP_SHARED, at most got_bytes long. A mapping keeps its memory when the id is freed. */
static inline __u64 uma_test_pool_map_offset(__u64 id, __u64 page_size) {
    return id * page_size;
}

#endif
