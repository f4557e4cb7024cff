/* SPDX-License-Identifier: MIT */
/*
 * fake.h - a libcuda.so.1 without a GPU: the driver API's entry points with the driver's own signatures and error codes (CUDA Driver API reference), so that what stands before the driver can be
 * tested where there is none. It keeps books of its own, which a test compares with what it tests. README has the scenario's words.
 *
 * A process that has forked after cuInit cannot use CUDA in the child, as with the real driver. Thread-safe: one lock over the books, not held while memory is taken.
 */
#pragma once

#include "valve/hooks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FAKE_NOT_INITIALIZED = 3,
    FAKE_INVALID_DEVICE = 101,
    FAKE_INVALID_CONTEXT = 201,
    FAKE_FILE_NOT_FOUND = 301,
    FAKE_INVALID_HANDLE = 400,
    FAKE_NOT_FOUND = 500,
    FAKE_NOT_SUPPORTED = 801,
    FAKE_UNKNOWN = 999
};
enum { FAKE_DEVICES_MAX = 8, FAKE_GRANULARITY = 2 << 20 /* CU_MEM_ALLOC_GRANULARITY_MINIMUM of current GPUs */ };

/* ---- scenario.c ---- */

enum fake_memory { FAKE_COUNT, FAKE_RING, FAKE_DEVICE };
struct fake_scenario_cuda {
    enum fake_memory memory;
    int devices, integrated, driver;
    uint64_t total;            /* bytes of a device; 0: the machine's */
    uint64_t context, module;  /* what each takes */
    uint64_t block;            /* a pool grows by so much */
    uint64_t refuse, refuse_n; /* the call of this number that takes memory (from 1) is refused, and so many in all from it on */
    uint64_t least_free;       /* refuse what would leave less MemFree than this, whatever could be reclaimed */
    uint64_t largest;          /* a call for more in one piece finds no such piece; 0: none is too large */
    uint64_t latency_us;       /* of each call that takes memory */
    uint64_t stubborn;         /* each such call that gives back fails, and gives back nothing */
    bool nested;               /* the driver comes back through its own exported names */
    bool any;                  /* names that are not here have a function, too: it says that it is not supported */
    char asked[256];           /* a file for what cuGetProcAddress and cuGetExportTable were asked, one a line */
    char limits[256];          /* the file of a driver that holds cgroups to limits; "": it does not */
    bool reuse;                /* keys that were given back are given again, the last one first */
    char report[256];          /* a file for the books at exit, with ".PID" after it */
};
const struct fake_scenario_cuda *fake_cuda_scenario(void);
/* A line of /proc/meminfo, in bytes; 0: not there. */
uint64_t fake_meminfo(const char *name);

/* ---- backing.c: where the bytes come from ---- */

struct fake_backing {
    uint64_t size;
    uint64_t id; /* of the ring or the device, and 0 when they are only counted */
};
/* False: there is no more. */
bool fake_backing_take(uint64_t size, struct fake_backing *ret_backing);
void fake_backing_give(const struct fake_backing *backing);
void fake_backing_forget(void); /* in a child */

/* In a child of fork(2): what was made before is the parent's. */
void fake_contexts_forget(void);
void fake_pools_forget(void);
void fake_graphs_forget(void);
void fake_mappings_forget(void);

/* ---- books.c ---- */

/* What the books count by; the names in the report are in books.c. */
enum fake_kind {
    FAKE_KIND_DEVICE = 1, /* cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged */
    FAKE_KIND_HOST,
    FAKE_KIND_HANDLE,
    FAKE_KIND_POOL,
    FAKE_KIND_GRAPH,
    FAKE_KIND_ARRAY,
    FAKE_KIND_MIPMAP,
    FAKE_KIND_CONTEXT,
    FAKE_KIND_MODULE,
    FAKE_KIND_LIBRARY,
    FAKE_KINDS
};

struct fake_thing {
    struct fake_thing *next;
    enum fake_kind kind;
    uint64_t key;
    struct fake_backing backing;
    CUcontext context; /* it goes with this one; NULL: with none */
    unsigned users;    /* of a handle: references */
    unsigned mappings; /* of a handle */
};

extern pthread_mutex_t fake_lock;

/* May a call that takes `size` bytes go on, by the scenario? CUDA_ERROR_OUT_OF_MEMORY otherwise. Takes the call's time. */
CUresult fake_gate(uint64_t size);
/* Takes the memory and enters it. The key: `wanted`, or made up when 0. NULL: out of memory. */
struct fake_thing *fake_take(enum fake_kind kind, uint64_t size, CUcontext context, uint64_t wanted);
/* Returns the memory under this key. */
bool fake_give(enum fake_kind kind, uint64_t key);
/* Under fake_lock. */
struct fake_thing *fake_find(enum fake_kind kind, uint64_t key);
/* All that goes with a context. */
void fake_give_all_of(CUcontext context);
/* Frees it where it is neither referred to nor mapped any more. */
void fake_give_if_unused(uint64_t handle);
/* More or fewer bytes that have no thing (the reserve of a pool). */
void fake_count(enum fake_kind kind, int64_t change);
uint64_t fake_new_key(uint64_t size);
/* The key names nothing any more. */
void fake_old_key(uint64_t key, uint64_t size);

/* For tests, found by dlsym(3): bytes by kind, calls that would have taken memory, and refused ones. */
struct fake_books {
    uint64_t bytes[FAKE_KINDS];
    uint64_t taking, refused, calls;
};
__attribute__((visibility("default"))) void uma_fake_cuda_books(struct fake_books *ret_books);
/* The call of this number from now on is refused (0: none), so many in all. */
__attribute__((visibility("default"))) void uma_fake_cuda_refuse(uint64_t nth, uint64_t n);
/* The driver's own answer to cuGetProcAddress_v2, past whoever stands before that name. */
__attribute__((visibility("default"))) CUresult uma_fake_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
                                                                          unsigned long long flags, int *symbolStatus);
extern _Atomic uint64_t fake_calls; /* of entry points that are about memory, contexts and code */

/* ---- unknown.c ---- */

/* A line in the scenario's list of what was asked for. */
void fake_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A function that says that it is not supported, one for each name; NULL: it is no name of the driver's, or there are too many. */
void *fake_unknown(const char *symbol);

/* ---- contexts.c ---- */

/* CUDA_SUCCESS when this process may use the driver; counts the call. */
CUresult fake_ready(void);
/* The calling thread's; NULL: none. */
CUcontext fake_context(void);
CUdevice fake_context_device(CUcontext context);
bool fake_device_valid(CUdevice device);

/* Does this call, which would give something back, fail for reasons of its own? */
bool fake_is_stubborn(void);
#define FAKE_GIVES_BACK()                                                                                                                  \
    do {                                                                                                                                   \
        if (fake_is_stubborn())                                                                                                            \
            return FAKE_UNKNOWN;                                                                                                           \
    } while (0)

/* ready, and a context is current. */
#define FAKE_IN_CONTEXT()                                                                                                                  \
    do {                                                                                                                                   \
        CUresult ready_ = fake_ready();                                                                                                    \
        if (ready_ != CUDA_SUCCESS)                                                                                                        \
            return ready_;                                                                                                                 \
        if (!fake_context())                                                                                                               \
            return FAKE_INVALID_CONTEXT;                                                                                                   \
    } while (0)
#define FAKE_READY()                                                                                                                       \
    do {                                                                                                                                   \
        CUresult ready_ = fake_ready();                                                                                                    \
        if (ready_ != CUDA_SUCCESS)                                                                                                        \
            return ready_;                                                                                                                 \
    } while (0)

/* Streams have come to an end: pools give back what they need not keep (pools.c). */
void fake_pools_settle(void);
/* Frees a pointer that a pool gave; false: none did. */
bool fake_pool_free(CUdeviceptr pointer);

/* ---- graphs.c ---- */

/* The stream is captured, and its graph was told of the bytes: true. */
bool fake_capture(CUstream stream, uint64_t bytes, CUdeviceptr *ret_pointer);
