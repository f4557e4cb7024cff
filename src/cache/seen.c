/* SPDX-License-Identifier: MIT */
#include "cache/seen.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

struct entry {
    uint64_t device, inode; /* both 0: free; no file system numbers a file 0 */
};

struct uma_seen {
    size_t n, capacity; /* a power of two */
    struct entry *entries;
    bool zero; /* (0, 0) itself */
};

enum { CAPACITY_FIRST = 256 };

struct uma_seen *uma_seen_new(void) {
    struct uma_seen *seen = calloc(1, sizeof(*seen));
    if (!seen)
        return NULL;
    seen->capacity = CAPACITY_FIRST;
    seen->entries = calloc(seen->capacity, sizeof(*seen->entries));
    return seen->entries ? seen : uma_seen_free(seen);
}

struct uma_seen *uma_seen_free(struct uma_seen *seen) {
    if (seen)
        free(seen->entries);
    free(seen);
    return NULL;
}

/* Inodes are dense and devices few: multiplied by an odd constant (2^64 / golden ratio) the upper bits are spread. */
static size_t place_of(const struct entry *entries, size_t capacity, uint64_t device, uint64_t inode) {
    size_t i = (size_t)(((inode ^ (device << 32 | device >> 32)) * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (capacity - 1);
    while ((entries[i].device || entries[i].inode) && (entries[i].device != device || entries[i].inode != inode))
        i = (i + 1) & (capacity - 1);
    return i;
}

static int grow(struct uma_seen *seen) {
    size_t capacity = seen->capacity * 2;
    struct entry *entries = calloc(capacity, sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    for (size_t i = 0; i < seen->capacity; i++) {
        const struct entry *e = &seen->entries[i];
        if (e->device || e->inode)
            entries[place_of(entries, capacity, e->device, e->inode)] = *e;
    }
    free(seen->entries);
    seen->entries = entries;
    seen->capacity = capacity;
    return 0;
}

int uma_seen_add(struct uma_seen *seen, uint64_t device, uint64_t inode) {
    if (!device && !inode) {
        bool before = seen->zero;
        seen->zero = true;
        return !before;
    }
    if (seen->n * 2 >= seen->capacity && grow(seen) < 0)
        return -ENOMEM;
    struct entry *e = &seen->entries[place_of(seen->entries, seen->capacity, device, inode)];
    if (e->device == device && e->inode == inode)
        return 0;
    *e = (struct entry){ device, inode };
    seen->n++;
    return 1;
}
