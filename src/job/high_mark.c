/* SPDX-License-Identifier: MIT */
#include "job/high_mark.h"

#include "base/cleanup.h"
#include "base/values.h"

/* What the group is charged for beyond memory: page cache and the kernel's own. A group that was not read yet was empty. */
static uint64_t other(const struct uma_high_mark *m) {
    bool known = m->group.validity == UMA_KNOWN && m->memory.validity == UMA_KNOWN && m->group.value > m->memory.value;
    return known ? m->group.value - m->memory.value : 0;
}

static uint64_t without(uint64_t peak, uint64_t others) {
    return peak > others ? peak - others : 0;
}

struct uma_u64 uma_high_mark_group_most(const struct uma_high_mark *before, const struct uma_high_mark *now) {
    if (now->group_peak.validity != UMA_KNOWN || now->group.validity != UMA_KNOWN || now->memory.validity != UMA_KNOWN)
        return (struct uma_u64){ 0 };
    return uma_known_u64(MAX_OF(now->memory.value, without(now->group_peak.value, MIN_OF(other(before), other(now)))));
}

void uma_high_mark(const struct uma_high_mark *before, const struct uma_high_mark *now, struct uma_u64 *ret_least,
                   struct uma_u64 *ret_most) {
    struct uma_u64 group_most = uma_high_mark_group_most(before, now);
    if (now->memory.validity != UMA_KNOWN) {
        *ret_least = *ret_most = now->memory;
        return;
    }
    uint64_t least = now->memory.value, most = now->memory.value + now->fall;
    if (group_most.validity == UMA_KNOWN) {
        bool rose = before->group_peak.validity != UMA_KNOWN || now->group_peak.value > before->group_peak.value;
        most = MIN_OF(most, group_most.value);
        if (rose)
            least = MAX_OF(least, MIN_OF(group_most.value, without(now->group_peak.value, MAX_OF(other(before), other(now)))));
    }
    *ret_least = uma_known_u64(least);
    *ret_most = uma_known_u64(MAX_OF(least, most));
}
