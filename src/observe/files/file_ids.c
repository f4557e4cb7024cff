/* SPDX-License-Identifier: MIT */
#include "observe/files/file_ids.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct key {
    uint64_t device, inode; /* both 0: a free slot; no file system numbers a file 0 */
};

/* Open addressing, at most half full. */
struct uma_file_ids {
    size_t n, n_slots; /* slots: a power of two */
    struct key *keys;
    uint32_t *values;
    bool zero; /* (0, 0) itself, of what the kernel gave no numbers */
    uint32_t zero_value;
};

enum { FIRST_SLOTS = 1024 };

static int make_slots(struct uma_file_ids *ids, size_t n_slots) {
    struct key *keys = calloc(n_slots, sizeof(*keys));
    uint32_t *values = calloc(n_slots, sizeof(*values));
    if (!keys || !values) {
        free(keys);
        free(values);
        return -ENOMEM;
    }
    ids->keys = keys;
    ids->values = values;
    ids->n_slots = n_slots;
    return 0;
}

struct uma_file_ids *uma_file_ids_new(void) {
    struct uma_file_ids *ids = calloc(1, sizeof(*ids));
    return !ids || make_slots(ids, FIRST_SLOTS) == 0 ? ids : uma_file_ids_free(ids);
}

struct uma_file_ids *uma_file_ids_free(struct uma_file_ids *ids) {
    if (!ids)
        return NULL;
    free(ids->keys);
    free(ids->values);
    free(ids);
    return NULL;
}

/* splitmix64's finalizer: inodes are small numbers in a row. */
static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static bool is_taken(const struct uma_file_ids *ids, size_t slot) {
    return ids->keys[slot].device || ids->keys[slot].inode;
}

/* The slot where it is, or where it would be. */
static size_t slot_of(const struct uma_file_ids *ids, uint64_t device, uint64_t inode) {
    size_t slot = mix(inode ^ mix(device)) & (ids->n_slots - 1);
    while (is_taken(ids, slot) && (ids->keys[slot].device != device || ids->keys[slot].inode != inode))
        slot = (slot + 1) & (ids->n_slots - 1);
    return slot;
}

static int grow(struct uma_file_ids *ids) {
    struct uma_file_ids old = *ids;
    if (make_slots(ids, old.n_slots * 2) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < old.n_slots; i++)
        if (is_taken(&old, i)) {
            size_t slot = slot_of(ids, old.keys[i].device, old.keys[i].inode);
            ids->keys[slot] = old.keys[i];
            ids->values[slot] = old.values[i];
        }
    free(old.keys);
    free(old.values);
    return 0;
}

int uma_file_ids_add(struct uma_file_ids *ids, uint64_t device, uint64_t inode, uint32_t value) {
    if (uma_file_ids_find(ids, device, inode))
        return 0;
    if (!device && !inode) {
        ids->zero = true;
        ids->zero_value = value;
        return 1;
    }
    if (ids->n + 1 > ids->n_slots / 2 && grow(ids) < 0)
        return -ENOMEM;
    size_t slot = slot_of(ids, device, inode);
    ids->keys[slot] = (struct key){ device, inode };
    ids->values[slot] = value;
    ids->n++;
    return 1;
}

uint32_t *uma_file_ids_find(struct uma_file_ids *ids, uint64_t device, uint64_t inode) {
    if (!device && !inode)
        return ids->zero ? &ids->zero_value : NULL;
    size_t slot = slot_of(ids, device, inode);
    return is_taken(ids, slot) ? &ids->values[slot] : NULL;
}
