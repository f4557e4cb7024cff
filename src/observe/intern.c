/* SPDX-License-Identifier: MIT */
#include "observe/intern.h"

#include <string.h>

/* FNV-1a, 64 bits. Names come from this machine's own administrators; with at most some thousands of them even all in one chain is fast. */
static uint64_t hash_of(const char *key, size_t length) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)key[i]) * 0x100000001b3u;
    return h;
}

static size_t slot_of(const struct uma_intern *intern, uint64_t hash, const char *key, size_t length) {
    size_t i = (size_t)hash & (intern->n_slots - 1);
    for (; intern->slots[i] >= 0; i = (i + 1) & (intern->n_slots - 1)) {
        const struct uma_intern_entry *e = &intern->entries[intern->slots[i]];
        if (e->hash == hash && e->length == length && memcmp(e->key, key, length) == 0)
            break;
    }
    return i;
}

int32_t uma_intern_find(const struct uma_intern *intern, const char *key, size_t length) {
    return intern->n_slots ? intern->slots[slot_of(intern, hash_of(key, length), key, length)] : -1;
}

static int widen(struct uma_intern *intern) {
    size_t n_slots = intern->n_slots ? intern->n_slots * 2 : 64;
    int32_t *slots = malloc(n_slots * sizeof(*slots));
    struct uma_intern_entry *entries = realloc(intern->entries, n_slots / 2 * sizeof(*entries));
    if (entries)
        intern->entries = entries;
    if (!entries || !slots) {
        free(slots);
        return -1;
    }
    (void)memset(slots, 0xff, n_slots * sizeof(*slots));
    free(intern->slots);
    intern->slots = slots;
    intern->n_slots = n_slots;
    intern->capacity = n_slots / 2;
    for (size_t i = 0; i < intern->n; i++)
        intern->slots[slot_of(intern, entries[i].hash, entries[i].key, entries[i].length)] = (int32_t)i;
    return 0;
}

int32_t uma_intern_add(struct uma_intern *intern, const char *key, size_t length, size_t limit) {
    if (intern->n >= limit || (intern->n == intern->capacity && widen(intern) < 0))
        return -1;
    uint64_t hash = hash_of(key, length);
    int32_t number = (int32_t)intern->n++;
    intern->entries[number] = (struct uma_intern_entry){ .hash = hash, .key = key, .length = length };
    intern->slots[slot_of(intern, hash, key, length)] = number;
    return number;
}

void uma_intern_reset(struct uma_intern *intern) {
    intern->n = 0;
    if (intern->slots)
        (void)memset(intern->slots, 0xff, intern->n_slots * sizeof(*intern->slots));
}

void uma_intern_done(struct uma_intern *intern) {
    free(intern->entries);
    free(intern->slots);
    *intern = (struct uma_intern){ 0 };
}
