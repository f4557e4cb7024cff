/* SPDX-License-Identifier: MIT */
/*
 * intern.h - from a string to a small number: so that a cgroup that holds a hundred processes is read once. Numbers count up from 0.
 * The memory is kept between readings. Bounded by the caller's `limit`.
 */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct uma_intern_entry {
    uint64_t hash;
    const char *key; /* owned by the caller; not NUL-terminated */
    size_t length;
};

struct uma_intern {
    struct uma_intern_entry *entries;
    size_t n, capacity;
    int32_t *slots; /* index into entries, -1 free; a power of two, at most half full */
    size_t n_slots;
};

/* The number of a key that is there, else -1. */
int32_t uma_intern_find(const struct uma_intern *intern, const char *key, size_t length);
/* Add a key that is not there; it must live until the reset. Its number, or -1: `limit` reached or out of memory. */
int32_t uma_intern_add(struct uma_intern *intern, const char *key, size_t length, size_t limit);
void uma_intern_reset(struct uma_intern *intern);
void uma_intern_done(struct uma_intern *intern);
