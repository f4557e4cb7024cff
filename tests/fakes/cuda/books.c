/* SPDX-License-Identifier: MIT */
#include "fake.h"

#include "../limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUCKETS = 1 << 14 };

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic uint64_t fake_calls;
static struct fake_thing *buckets[BUCKETS];
static _Atomic int64_t bytes[FAKE_KINDS];
static _Atomic uint64_t taking, refused, next_key, refuse_at, refuse_left;
static _Atomic bool refuse_known;

static struct fake_thing **bucket_of(uint64_t key) {
    return &buckets[(key ^ key >> 9 ^ key >> 21) % BUCKETS];
}

/* Aligned as the driver's pointers, and none inside of another's memory. */
static uint64_t step_of(uint64_t size) {
    return (size + 511) / 512 * 512 + 512;
}

/* Keys that were given back, of the scenario that gives them again. */
enum { SPARE = 64 };
static struct { uint64_t key, step; } spare[SPARE];
static unsigned n_spare;
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t spare_key(uint64_t step) {
    uint64_t key = 0;
    (void)pthread_mutex_lock(&spare_lock);
    for (unsigned i = n_spare; i > 0 && !key; i--)
        if (spare[i - 1].step == step) {
            key = spare[i - 1].key;
            spare[i - 1] = spare[--n_spare];
        }
    (void)pthread_mutex_unlock(&spare_lock);
    return key;
}

uint64_t fake_new_key(uint64_t size) {
    uint64_t step = step_of(size), key = fake_cuda_scenario()->reuse ? spare_key(step) : 0;
    return key ? key : UINT64_C(0x7f0000000000) + atomic_fetch_add(&next_key, step);
}

void fake_old_key(uint64_t key, uint64_t size) {
    if (!fake_cuda_scenario()->reuse)
        return;
    (void)pthread_mutex_lock(&spare_lock);
    if (n_spare < SPARE) {
        spare[n_spare].key = key;
        spare[n_spare++].step = step_of(size);
    }
    (void)pthread_mutex_unlock(&spare_lock);
}

/* ---- refusals ---- */

void uma_fake_cuda_refuse(uint64_t nth, uint64_t n) {
    atomic_store(&refuse_left, nth ? n : 0);
    atomic_store(&refuse_at, nth ? atomic_load(&taking) + nth : 0);
    atomic_store(&refuse_known, true);
}

static bool scripted(uint64_t number) {
    if (!atomic_exchange(&refuse_known, true)) {
        atomic_store(&refuse_at, fake_cuda_scenario()->refuse);
        atomic_store(&refuse_left, fake_cuda_scenario()->refuse_n);
    }
    uint64_t at = atomic_load(&refuse_at);
    return at && number >= at && number < at + atomic_load(&refuse_left);
}

static uint64_t all_bytes(void) {
    int64_t sum = 0;
    for (int i = 1; i < FAKE_KINDS; i++)
        sum += atomic_load(&bytes[i]);
    return sum > 0 ? (uint64_t)sum : 0;
}

CUresult fake_gate(uint64_t size) {
    const struct fake_scenario_cuda *s = fake_cuda_scenario();
    bool no = scripted(atomic_fetch_add(&taking, 1) + 1);
    if (s->latency_us) {
        struct timespec t = { .tv_sec = (time_t)(s->latency_us / 1000000), .tv_nsec = (long)(s->latency_us % 1000000) * 1000 };
        (void)nanosleep(&t, NULL);
    }
    no = no || (s->largest && size > s->largest);
    if (s->least_free) {
        uint64_t free = fake_meminfo("MemFree");
        no = no || free < size || free - size < s->least_free;
    }
    if (s->total && !no)
        no = size > s->total || all_bytes() > s->total - size;
    if (s->limits[0] && !no)
        no = size > UINT64_MAX / 2 || !fake_limits_allow(s->limits, all_bytes() + size);
    if (no)
        (void)atomic_fetch_add(&refused, 1);
    return no ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* ---- things ---- */

void fake_count(enum fake_kind kind, int64_t change) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *limits = fake_cuda_scenario()->limits;
    (void)atomic_fetch_add(&bytes[kind], change);
    if (!limits[0])
        return;
    (void)pthread_mutex_lock(&lock);
    fake_limits_note(limits, all_bytes());
    (void)pthread_mutex_unlock(&lock);
}

struct fake_thing *fake_take(enum fake_kind kind, uint64_t size, CUcontext context, uint64_t wanted) {
    struct fake_thing *thing = calloc(1, sizeof(*thing));
    if (!thing || !fake_backing_take(size, &thing->backing)) {
        free(thing);
        (void)atomic_fetch_add(&refused, 1);
        return NULL;
    }
    thing->kind = kind;
    thing->key = wanted ? wanted : fake_new_key(size);
    thing->context = context;
    thing->users = 1;
    fake_count(kind, (int64_t)size);
    (void)pthread_mutex_lock(&fake_lock);
    struct fake_thing **bucket = bucket_of(thing->key);
    thing->next = *bucket;
    *bucket = thing;
    (void)pthread_mutex_unlock(&fake_lock);
    return thing;
}

struct fake_thing *fake_find(enum fake_kind kind, uint64_t key) {
    for (struct fake_thing *t = *bucket_of(key); t; t = t->next)
        if (t->key == key && t->kind == kind)
            return t;
    return NULL;
}

static void end(struct fake_thing *thing) {
    fake_backing_give(&thing->backing);
    fake_count(thing->kind, -(int64_t)thing->backing.size);
    if (thing->kind != FAKE_KIND_CONTEXT) /* whose key is its address */
        fake_old_key(thing->key, thing->backing.size);
    free(thing);
}

void fake_give_if_unused(uint64_t handle) {
    (void)pthread_mutex_lock(&fake_lock);
    const struct fake_thing *thing = fake_find(FAKE_KIND_HANDLE, handle);
    bool unused = thing && thing->users == 0 && thing->mappings == 0;
    (void)pthread_mutex_unlock(&fake_lock);
    if (unused)
        (void)fake_give(FAKE_KIND_HANDLE, handle);
}

bool fake_give(enum fake_kind kind, uint64_t key) {
    struct fake_thing *thing = NULL;
    (void)pthread_mutex_lock(&fake_lock);
    for (struct fake_thing **t = bucket_of(key); *t && !thing;)
        if ((*t)->key == key && (*t)->kind == kind) {
            thing = *t;
            *t = thing->next;
        } else
            t = &(*t)->next;
    (void)pthread_mutex_unlock(&fake_lock);
    if (thing)
        end(thing);
    return thing;
}

void fake_give_all_of(CUcontext context) {
    struct fake_thing *all = NULL;
    (void)pthread_mutex_lock(&fake_lock);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct fake_thing **t = &buckets[i]; *t;)
            if ((*t)->context == context) {
                struct fake_thing *thing = *t;
                *t = thing->next;
                thing->next = all;
                all = thing;
            } else
                t = &(*t)->next;
    (void)pthread_mutex_unlock(&fake_lock);
    while (all) {
        struct fake_thing *next = all->next;
        end(all);
        all = next;
    }
}

/* ---- telling ---- */

void uma_fake_cuda_books(struct fake_books *ret_books) {
    for (int i = 0; i < FAKE_KINDS; i++)
        ret_books->bytes[i] = (uint64_t)atomic_load(&bytes[i]);
    ret_books->taking = atomic_load(&taking);
    ret_books->refused = atomic_load(&refused);
    ret_books->calls = atomic_load(&fake_calls);
}

__attribute__((destructor)) static void report(void) {
    static const char *const names[FAKE_KINDS] = { "",      "device", "host",    "handle", "pool",   "graph",
                                                   "array", "mipmap", "context", "module", "library" };
    char path[300];
    const struct fake_scenario_cuda *s = fake_cuda_scenario();
    if (!s->report[0] || atomic_load(&fake_calls) == 0 ||
        snprintf(path, sizeof(path), "%s.%d", s->report, (int)getpid()) >= (int)sizeof(path))
        return;
    FILE *f = fopen(path, "we");
    for (int i = 1; f && i < FAKE_KINDS; i++)
        (void)fprintf(f, "%s %lld\n", names[i], (long long)atomic_load(&bytes[i]));
    if (f)
        (void)fprintf(f, "taking %llu\nrefused %llu\n", (unsigned long long)atomic_load(&taking),
                      (unsigned long long)atomic_load(&refused));
    if (f)
        (void)fclose(f);
}

/* A child holds nothing: what its parent has is the parent's. */
static void before_fork(void) {
    (void)pthread_mutex_lock(&fake_lock);
}
static void after_fork(void) {
    (void)pthread_mutex_unlock(&fake_lock);
}
static void in_child(void) {
    (void)memset(buckets, 0, sizeof(buckets));
    n_spare = 0;
    (void)pthread_mutex_init(&spare_lock, NULL);
    for (int i = 0; i < FAKE_KINDS; i++)
        atomic_store(&bytes[i], 0);
    atomic_store(&fake_calls, 0);
    fake_backing_forget();
    fake_contexts_forget();
    fake_pools_forget();
    fake_graphs_forget();
    fake_mappings_forget();
    (void)pthread_mutex_unlock(&fake_lock);
}
__attribute__((constructor)) static void watch_forks(void) {
    (void)pthread_atfork(before_fork, after_fork, in_child);
}
