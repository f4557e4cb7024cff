/* SPDX-License-Identifier: MIT */
#include "job/high_mark.h"

#include "base/cleanup.h"
#include "base/values.h"

static uint64_t or_zero(struct uma_u64 v) {
    return v.validity == UMA_KNOWN ? v.value : 0;
}

struct uma_u64 uma_high_mark_least(const struct uma_high_mark *m) {
    uint64_t least = MAX_OF(MAX_OF(or_zero(m->counted), or_zero(m->largest)), m->between);
    return least ? uma_known_u64(least) : (struct uma_u64){ 0 };
}

struct uma_u64 uma_high_mark_group_most(const struct uma_high_mark *m) {
    return m->group_peak.validity == UMA_KNOWN ? uma_known_u64(MAX_OF(m->group_peak.value, or_zero(uma_high_mark_least(m))))
                                               : (struct uma_u64){ 0 };
}

struct uma_u64 uma_high_mark_most(const struct uma_high_mark *m) {
    if (m->group_peak.validity == UMA_KNOWN)
        return uma_high_mark_group_most(m);
    if (m->memory.validity != UMA_KNOWN)
        return m->memory;
    return uma_known_u64(MAX_OF(m->memory.value + m->fall, or_zero(uma_high_mark_least(m))));
}
