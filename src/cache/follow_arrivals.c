/* SPDX-License-Identifier: MIT */
#include "cache/follow_arrivals.h"

#include "base/units.h"

#include <stdlib.h>

static int oldest_first(const void *a, const void *b) {
    const struct uma_follow_arrival *x = a, *y = b;
    if (x->since != y->since)
        return x->since < y->since ? -1 : 1;
    return (x->chunk > y->chunk) - (x->chunk < y->chunk); /* readahead lies behind what was read */
}

/* What is there and was not counted as held, as far as the budget pays for what was not read once by now. */
static uint64_t claim(struct uma_follow_window *window, struct uma_follow_file *file, const struct uma_follow_arrival *arrival,
                      uint64_t *budget, int64_t now_ns) {
    struct uma_follow_chunk *chunk = &file->chunks[arrival->chunk];
    uint32_t length = uma_follow_chunk_length(window, file, arrival->chunk), there = MIN_OF(arrival->bytes, length);
    if (there <= chunk->held)
        return 0;
    uint32_t fresh = there - chunk->held;
    uint64_t payable = uma_follow_unread(window, file, arrival->chunk), again = fresh - MIN_OF(payable, (uint64_t)fresh);
    uint64_t paid = MIN_OF(MIN_OF(payable, (uint64_t)fresh), *budget);
    uint32_t held = chunk->held + (uint32_t)(again + paid);
    *budget -= paid;
    if (held == chunk->held)
        return 0;
    if (!chunk->held) /* where in it is not known: all that is there has lain as long */
        return uma_follow_saw(window, file, arrival->chunk, held, 0, length, now_ns);
    /* Where some is known to be (a position moved over it), no more is added than is new. */
    uint32_t low = MIN_OF(chunk->low, length - held);
    return uma_follow_saw(window, file, arrival->chunk, held, low, MAX_OF(chunk->high, low + held), now_ns);
}

uint64_t uma_follow_attribute(struct uma_follow_window *window, struct uma_follow_file *file, struct uma_follow_arrival *list, size_t n,
                              uint64_t *budget, int64_t now_ns) {
    uint64_t grown = 0;
    file->looks++;
    for (size_t i = 0; i < n; i++) {
        struct uma_follow_chunk *chunk = &file->chunks[list[i].chunk];
        if (!chunk->arrived)
            chunk->arrived = file->looks;
        list[i].since = chunk->arrived;
    }
    if (n)
        qsort(list, n, sizeof *list, oldest_first);
    for (size_t i = 0; i < n && !file->in_place; i++)
        grown += claim(window, file, &list[i], budget, now_ns);
    return grown;
}
