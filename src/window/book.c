/* SPDX-License-Identifier: MIT */
#include "window/book.h"

void window_book_add(struct window_book *book, struct window_mapping mapping) {
    window_book_remove(book, mapping.start, mapping.end);
    if (mapping.start < mapping.end && book->n < WINDOW_BOOK_MAX)
        book->mappings[book->n++] = mapping;
}

void window_book_remove(struct window_book *book, uint64_t start, uint64_t end) {
    for (uint32_t i = 0; i < book->n;) {
        struct window_mapping *m = &book->mappings[i];
        if (m->start >= end || m->end <= start) {
            i++;
            continue;
        }
        struct window_mapping before = *m, after = *m;
        if (before.end > start)
            before.end = start;
        if (after.start < end) {
            after.offset += end - after.start;
            after.start = end;
        }
        bool has_before = before.start < before.end, has_after = after.start < after.end;
        if (!has_before && !has_after) {
            *m = book->mappings[--book->n];
            continue;
        }
        *m = has_before ? before : after;
        if (has_before && has_after && book->n < WINDOW_BOOK_MAX)
            book->mappings[book->n++] = after; /* lies outside [start, end): the loop passes over it */
        i++;
    }
}

const struct window_mapping *window_book_find(const struct window_book *book, uint64_t start, uint64_t end) {
    for (uint32_t i = 0; i < book->n; i++)
        if (start < end && book->mappings[i].start <= start && end <= book->mappings[i].end)
            return &book->mappings[i];
    return NULL;
}
