/* SPDX-License-Identifier: MIT */
#include "cmd/require.h"

#include "base/units.h"

#define DELAY_MOST 1.0
/* Less than this between two looks is the noise of a busy machine: a mean of 107 MiB in 5 s has been measured (MiaAI memwatch). */
#define STANDS_STILL (32 * UMA_MIB)

struct uma_u64 uma_contiguous_free(const struct uma_headroom *headroom, struct uma_u64 page_size, uint64_t size) {
    struct uma_u64 free_bytes = { 0 };
    uint32_t orders = MIN_OF(headroom->n_orders, (uint32_t)UMA_ORDERS_MAX);
    if (orders == 0 || !uma_usable(page_size.validity) || page_size.value == 0 || page_size.value > UMA_GIB)
        return free_bytes;
    free_bytes.validity = UMA_KNOWN;
    uint32_t order = 0;
    while (order + 1 < orders && page_size.value << order < size)
        order++;
    for (; order < orders; order++)
        if (__builtin_add_overflow(free_bytes.value, headroom->free_by_order[order], &free_bytes.value))
            free_bytes.value = UINT64_MAX;
    return free_bytes;
}

enum uma_truth uma_require_verdict(const struct uma_headroom *headroom, struct uma_u64 page_size, const struct uma_requirement *need) {
    enum uma_truth budget = !uma_usable(headroom->budget.validity) ? UMA_MAYBE : headroom->budget.value >= need->bytes ? UMA_YES : UMA_NO;
    if (need->contiguous == 0 || budget == UMA_NO)
        return budget;
    struct uma_u64 pieces = uma_contiguous_free(headroom, page_size, need->contiguous);
    if (!uma_usable(pieces.validity))
        return UMA_MAYBE;
    return pieces.value < need->contiguous ? UMA_NO : budget;
}

bool uma_require_never(const struct uma_headroom *headroom, const struct uma_requirement *need) {
    if (!uma_usable(headroom->total.validity))
        return false;
    uint64_t total = headroom->total.value, reserve = uma_usable(headroom->reserve.validity) ? headroom->reserve.value : 0;
    return need->bytes > total - MIN_OF(reserve, total) || need->contiguous > total;
}

double uma_require_delay(double previous_delay, uint64_t previous_budget, uint64_t budget) {
    uint64_t moved = budget > previous_budget ? budget - previous_budget : previous_budget - budget;
    if (moved > STANDS_STILL)
        return UMA_REQUIRE_DELAY_LEAST;
    return MIN_OF(MAX_OF(previous_delay * 1.5, UMA_REQUIRE_DELAY_LEAST), DELAY_MOST);
}
