/* SPDX-License-Identifier: MIT */
#include "observe/files/file_ids.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct slot {
    uint64_t device, inode; /* both 0: free; no file system numbers a file 0 */
    uint32_t value;
};

/* Open addressing, at most half full. */
struct uma_file_ids {
    size_t n, n_slots; /* slots: a power of two */
    struct slot *slots;
    bool zero; /* (0, 0) itself, of what the kernel gave no numbers */
    uint32_t zero_value;
};

enum { FIRST_SLOTS = 1024 };

struct uma_file_ids *uma_file_ids_new(void) {
    struct uma_file_ids *ids = calloc(1, sizeof(*ids));
    if (!ids)
        return NULL;
    ids->n_slots = FIRST_SLOTS;
    ids->slots = calloc(ids->n_slots, sizeof(*ids->slots));
    return ids->slots ? ids : uma_file_ids_free(ids);
}

struct uma_file_ids *uma_file_ids_free(struct uma_file_ids *ids) {
    if (ids)
        free(ids->slots);
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

static bool is_taken(const struct slot *slot) {
    return slot->device || slot->inode;
}

/* The slot where it is, or where it would be. */
static struct slot *slot_of(struct slot *slots, size_t n_slots, uint64_t device, uint64_t inode) {
    size_t i = mix(inode ^ mix(device)) & (n_slots - 1);
    while (is_taken(&slots[i]) && (slots[i].device != device || slots[i].inode != inode))
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

static int grow(struct uma_file_ids *ids) {
    size_t n_slots = ids->n_slots * 2;
    struct slot *slots = calloc(n_slots, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    for (size_t i = 0; i < ids->n_slots; i++)
        if (is_taken(&ids->slots[i]))
            *slot_of(slots, n_slots, ids->slots[i].device, ids->slots[i].inode) = ids->slots[i];
    free(ids->slots);
    ids->slots = slots;
    ids->n_slots = n_slots;
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
    *slot_of(ids->slots, ids->n_slots, device, inode) = (struct slot){ device, inode, value };
    ids->n++;
    return 1;
}

uint32_t *uma_file_ids_find(struct uma_file_ids *ids, uint64_t device, uint64_t inode) {
    if (!device && !inode)
        return ids->zero ? &ids->zero_value : NULL;
    struct slot *slot = slot_of(ids->slots, ids->n_slots, device, inode);
    return is_taken(slot) ? &slot->value : NULL;
}
