/* SPDX-License-Identifier: MIT */
/*
 * book.h - which mappings the helper saw being made read-only and never saw changed. Only of these may pages be dropped from the page table without asking
 * what else they hold: nothing can have been written into them. Pure data in memory of a fixed size; whoever uses it from several threads locks it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A model in several hundred shards, each mapped once, with room for the pieces that partial unmapping leaves. What does not fit is not recorded: it is then
 * only paged out, never dropped. */
#define WINDOW_BOOK_MAX 1024

struct window_mapping {
    uint64_t start, end; /* addresses, whole pages */
    uint64_t offset;     /* of start in the file */
    uint32_t shared;     /* MAP_SHARED, else private */
    uint32_t reserved;
};

struct window_book {
    uint32_t n;
    uint32_t reserved;
    struct window_mapping mappings[WINDOW_BOOK_MAX];
};

void window_book_add(struct window_book *book, struct window_mapping mapping);
/* Forget whatever lies in [start, end); what is left of a mapping on either side stays. */
void window_book_remove(struct window_book *book, uint64_t start, uint64_t end);
/* The mapping that holds all of [start, end), NULL: none does. */
const struct window_mapping *window_book_find(const struct window_book *book, uint64_t start, uint64_t end);
