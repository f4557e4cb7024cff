/* SPDX-License-Identifier: MIT */
#include "valve/held.h"

#include "valve/spin.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* Threads that allocate at the same time rarely meet in one of so many. */
enum { SHARDS = 16 };
enum { FIRST_SLOTS = 128 /* a page and a half of 40 bytes each */, MOST_SLOTS = 1 << 24 };

struct shard {
    struct uma_valve_spin lock;
    uint32_t n, n_slots; /* open addressing, at most half full; slots: a power of two */
    struct uma_valve_holding *slots;
};

struct uma_valve_held {
    struct shard shards[SHARDS];
    _Atomic uint64_t lost;
};

size_t uma_valve_held_size(void) {
    return sizeof(struct uma_valve_held);
}

uint64_t uma_valve_held_lost(const struct uma_valve_held *held) {
    return atomic_load(&held->lost);
}

static uint64_t hash_of(enum uma_valve_kind kind, uint64_t key) {
    return uma_valve_mix(key ^ (uint64_t)kind << 60);
}

/* The lock of the shard where it belongs is held then. NULL: it could not be had. */
static struct shard *enter(struct uma_valve_held *held, uint64_t hash) {
    struct shard *shard = &held->shards[hash % SHARDS];
    if (uma_valve_spin_lock(&shard->lock))
        return shard;
    (void)atomic_fetch_add(&held->lost, 1);
    return NULL;
}

static uint32_t first_of(const struct shard *shard, uint64_t hash) {
    return (uint32_t)(hash >> 8) & (shard->n_slots - 1);
}

/* Its slot, or the free one where it would be. */
static struct uma_valve_holding *slot_of(const struct shard *shard, uint64_t hash, enum uma_valve_kind kind, uint64_t key) {
    uint32_t i = first_of(shard, hash);
    while (shard->slots[i].key && (shard->slots[i].key != key || shard->slots[i].kind != kind))
        i = (i + 1) & (shard->n_slots - 1);
    return &shard->slots[i];
}

static struct uma_valve_holding *lookup(const struct shard *shard, uint64_t hash, enum uma_valve_kind kind, uint64_t key) {
    if (!shard->slots || !key)
        return NULL;
    struct uma_valve_holding *slot = slot_of(shard, hash, kind, key);
    return slot->key ? slot : NULL;
}

static bool grow(struct shard *shard) {
    uint32_t n_slots = shard->n_slots ? shard->n_slots * 2 : FIRST_SLOTS;
    if (n_slots > MOST_SLOTS)
        return false;
    struct shard bigger = { .n_slots = n_slots };
    bigger.slots = mmap(NULL, n_slots * sizeof(*bigger.slots), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bigger.slots == MAP_FAILED)
        return false;
    for (uint32_t i = 0; i < shard->n_slots; i++)
        if (shard->slots[i].key) {
            const struct uma_valve_holding *h = &shard->slots[i];
            *slot_of(&bigger, hash_of((enum uma_valve_kind)h->kind, h->key), (enum uma_valve_kind)h->kind, h->key) = *h;
        }
    if (shard->slots)
        (void)munmap(shard->slots, shard->n_slots * sizeof(*shard->slots));
    shard->slots = bigger.slots;
    shard->n_slots = n_slots;
    return true;
}

/* Those after it that would not be found any more move up (Knuth, The Art of Computer Programming 3, 6.4, algorithm R). */
static void erase(struct shard *shard, struct uma_valve_holding *slot) {
    uint32_t hole = (uint32_t)(slot - shard->slots), mask = shard->n_slots - 1;
    for (uint32_t i = (hole + 1) & mask; shard->slots[i].key; i = (i + 1) & mask) {
        uint32_t first = first_of(shard, hash_of((enum uma_valve_kind)shard->slots[i].kind, shard->slots[i].key));
        if (((i - first) & mask) >= ((i - hole) & mask)) {
            shard->slots[hole] = shard->slots[i];
            hole = i;
        }
    }
    (void)memset(&shard->slots[hole], 0, sizeof(shard->slots[hole]));
    shard->n--;
}

bool uma_valve_held_put(struct uma_valve_held *held, const struct uma_valve_holding *holding, uint64_t *ret_before) {
    enum uma_valve_kind kind = (enum uma_valve_kind)holding->kind;
    uint64_t hash = hash_of(kind, holding->key);
    *ret_before = 0;
    struct shard *shard = holding->key ? enter(held, hash) : NULL;
    if (!shard)
        return false;
    bool room = shard->n < shard->n_slots / 2 || grow(shard);
    if (room) {
        struct uma_valve_holding *slot = slot_of(shard, hash, kind, holding->key);
        *ret_before = slot->key ? slot->size : 0;
        shard->n += slot->key == 0;
        *slot = *holding;
    } else
        (void)atomic_fetch_add(&held->lost, 1);
    uma_valve_spin_unlock(&shard->lock);
    return room;
}

static bool get(struct uma_valve_held *held, enum uma_valve_kind kind, uint64_t key, bool out, struct uma_valve_holding *ret_holding) {
    uint64_t hash = hash_of(kind, key);
    struct shard *shard = enter(held, hash);
    if (!shard)
        return false;
    struct uma_valve_holding *slot = lookup(shard, hash, kind, key);
    if (slot)
        *ret_holding = *slot;
    if (slot && out)
        erase(shard, slot);
    uma_valve_spin_unlock(&shard->lock);
    return slot;
}

bool uma_valve_held_find(struct uma_valve_held *held, enum uma_valve_kind kind, uint64_t key, struct uma_valve_holding *ret_holding) {
    return get(held, kind, key, false, ret_holding);
}

bool uma_valve_held_take(struct uma_valve_held *held, enum uma_valve_kind kind, uint64_t key, struct uma_valve_holding *ret_holding) {
    return get(held, kind, key, true, ret_holding);
}

bool uma_valve_held_use(struct uma_valve_held *held, uint64_t handle, int change, uint64_t *ret_size) {
    uint64_t hash = hash_of(UMA_VALVE_HANDLE, handle);
    struct shard *shard = enter(held, hash);
    *ret_size = 0;
    if (!shard)
        return false;
    struct uma_valve_holding *slot = lookup(shard, hash, UMA_VALVE_HANDLE, handle);
    if (slot) {
        int users = slot->users + change;
        slot->users = (uint16_t)(users < 0 ? 0 : users > UINT16_MAX ? UINT16_MAX : users);
        if (slot->users == 0) {
            *ret_size = slot->size;
            erase(shard, slot);
        }
    }
    uma_valve_spin_unlock(&shard->lock);
    return slot;
}

bool uma_valve_held_resize(struct uma_valve_held *held, enum uma_valve_kind kind, uint64_t key, uint64_t size, uint64_t *ret_before) {
    uint64_t hash = hash_of(kind, key);
    struct shard *shard = enter(held, hash);
    *ret_before = 0;
    if (!shard)
        return false;
    struct uma_valve_holding *slot = lookup(shard, hash, kind, key);
    if (slot) {
        *ret_before = slot->size;
        slot->size = size;
    }
    uma_valve_spin_unlock(&shard->lock);
    return slot;
}

void uma_valve_held_move_context(struct uma_valve_held *held, uint32_t from, uint32_t to) {
    for (unsigned i = 0; from != 0 && i < SHARDS; i++) {
        struct shard *shard = &held->shards[i];
        if (!uma_valve_spin_lock(&shard->lock)) {
            (void)atomic_fetch_add(&held->lost, 1);
            continue;
        }
        for (uint32_t s = 0; s < shard->n_slots; s++)
            if (shard->slots[s].key && shard->slots[s].context == from)
                shard->slots[s].context = to;
        uma_valve_spin_unlock(&shard->lock);
    }
}

/* One pass; what moves up into a place that was left is looked at there. */
static bool drop_from(struct shard *shard, uint32_t context, struct uma_valve_dropped *dropped) {
    bool some = false;
    for (uint32_t i = 0; i < shard->n_slots;) {
        struct uma_valve_holding *slot = &shard->slots[i];
        if (!slot->key || slot->context != context) {
            i++;
            continue;
        }
        if (slot->kind == UMA_VALVE_MODULE)
            dropped->overhead += slot->size;
        else if (slot->kind != UMA_VALVE_MAPPING) /* which has no bytes of its own */
            dropped->bytes += slot->size;
        if (uma_valve_is_managed(slot))
            dropped->managed += slot->size;
        erase(shard, slot);
        some = true;
    }
    return some;
}

struct uma_valve_dropped uma_valve_held_drop_context(struct uma_valve_held *held, uint32_t context) {
    struct uma_valve_dropped dropped = { 0 };
    for (unsigned i = 0; context != 0 && i < SHARDS; i++) {
        struct shard *shard = &held->shards[i];
        if (!uma_valve_spin_lock(&shard->lock)) {
            (void)atomic_fetch_add(&held->lost, 1);
            continue;
        }
        /* again, for what moved from the front to an end that had been passed */
        while (drop_from(shard, context, &dropped))
            ;
        uma_valve_spin_unlock(&shard->lock);
    }
    return dropped;
}
