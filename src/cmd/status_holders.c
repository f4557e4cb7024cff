/* SPDX-License-Identifier: MIT */
/* The part of status that names who holds the pool: a line for each, and what must be said beside the lines. */
#include "cmd/status.h"

#include "account/gpu_share.h"
#include "account/holders.h"
#include "base/units.h"
#include "cmd/layout.h"

#include <string.h>

enum {
    KIND_COLUMNS = 13,
    CAP_COLUMNS = 11,
    NAME_COLUMN = 55, /* where a holder's name begins */
    NOTE_COLUMN = 10,
    NAME_LINES = 8 /* of a name that is not cut: more than the longest path of a model that makes sense */
};

static void row(struct uma_text *text, const struct uma_status_style *style, const struct uma_holder *h, bool complete) {
    _cleanup_text_ struct uma_text kind = { 0 }, cap = { 0 }, name = { 0 };
    uma_holder_kind_text(&kind, h, KIND_COLUMNS);
    uma_holder_cap_text(&cap, h);
    uma_holder_name_text(&name, h);
    uma_text_printf(text, "%8d  ", h->pid);
    (void)uma_text_safe(text, kind.data ? kind.data : "?", KIND_COLUMNS);
    uma_layout_to_column(text, 23);
    const struct uma_u64 *const sizes[] = { &h->gpu_bytes, &h->anon_bytes, &h->shmem_bytes };
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        uma_text_char(text, ' ');
        uma_layout_gib_column(text, *sizes[i], 5);
    }
    uma_text_append(text, "  ");
    (void)uma_text_safe(text, cap.data ? cap.data : "?", CAP_COLUMNS);
    uma_layout_to_column(text, NAME_COLUMN);
    if (complete) {
        uma_layout_wrap(text, style, name.data ? name.data : "?", NAME_COLUMN, NAME_LINES);
        return;
    }
    (void)uma_text_safe(text, name.data ? name.data : "?", style->columns > NAME_COLUMN + 1 ? style->columns - NAME_COLUMN : 1);
    uma_text_char(text, '\n');
}

static void note(struct uma_text *text, const struct uma_status_style *style, const char *s) {
    uma_text_pad(text, NOTE_COLUMN);
    uma_layout_wrap(text, style, s, NOTE_COLUMN, style->rows && !style->all ? 2 : 0);
}

/* The cap column shows a number or "?": why there is none stands in the source. */
static bool cap_is_no_number(const struct uma_cap *cap) {
    return cap->source && !uma_usable(cap->fraction.validity) && !uma_usable(cap->bytes.validity);
}

static bool said_before(const struct uma_holder *holders, size_t i) {
    for (size_t before = 0; before < i; before++)
        if (cap_is_no_number(&holders[before].cap) && strcmp(holders[before].cap.source, holders[i].cap.source) == 0)
            return true;
    return false;
}

static void cap_notes(struct uma_text *text, const struct uma_status_style *style, const struct uma_holder *holders, size_t n, size_t most,
                      bool gpu) {
    bool limited = false;
    for (size_t i = 0; i < n; i++)
        limited |= !holders[i].cap.present && !holders[i].cap.source && uma_usable(holders[i].container_limit.validity);
    if (limited && most > 0) {
        note(text, style,
             gpu ? "limit: that of its container or service, which does not count GPU memory" : "limit: that of its container or service");
        most--;
    }
    for (size_t i = 0; i < n && most > 0; i++) {
        if (!cap_is_no_number(&holders[i].cap) || said_before(holders, i))
            continue;
        _cleanup_text_ struct uma_text t = { 0 };
        uma_text_printf(&t, "cap ? of %d: %s", holders[i].pid, holders[i].cap.source);
        note(text, style, t.data ? t.data : "?");
        most--;
    }
}

static void nobody(struct uma_text *text, const struct uma_snapshot *snapshot, const struct uma_status_style *style, const char *beside) {
    bool read = snapshot->processes.source.validity == UMA_KNOWN;
    uma_layout_ink(text, style, UMA_INK_BOLD);
    uma_text_append(text, "WHO HOLDS IT  ");
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    uma_layout_wrap(text, style, !read ? "? processes could not be read" : beside ? beside : "no process holds a part worth a line", 14, 0);
    if (!read && beside)
        note(text, style, beside);
}

void uma_status_holders(struct uma_text *text, const struct uma_snapshot *snapshot, const struct uma_account *account,
                        const struct uma_status_style *style, const struct uma_holders_shown *shown) {
    _cleanup_text_ struct uma_text title = { 0 }, beside = { 0 };
    bool more = uma_gpu_beside_text(&beside, snapshot, account) && beside.data;
    if (account->n_holders == 0) {
        nobody(text, snapshot, style, more ? beside.data : NULL);
        return;
    }
    uma_text_printf(&title, "%-23s%6s%6s%6s  %-12sNAME", "WHO HOLDS IT      GiB:", "GPU", "anon", "shm", "cap");
    uma_layout_ink(text, style, UMA_INK_BOLD);
    uma_text_append(text, title.data ? title.data : "");
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    uma_text_char(text, '\n');
    size_t n = MIN_OF(account->n_holders, shown->most);
    uint64_t hidden_bytes = 0;
    for (size_t i = 0; i < n; i++)
        row(text, style, &account->holders[i], shown->complete);
    for (size_t i = n; i < account->n_holders; i++)
        if (__builtin_add_overflow(hidden_bytes, uma_holder_rank_bytes(&account->holders[i]), &hidden_bytes))
            hidden_bytes = UINT64_MAX;
    if (n < account->n_holders) {
        uma_text_printf(text, "          and %zu more with ", account->n_holders - n);
        uma_text_gib(text, hidden_bytes);
        uma_text_char(text, '\n');
    }
    if (more)
        note(text, style, beside.data);
    cap_notes(text, style, account->holders, n, shown->notes, snapshot->gpus.n > 0 || uma_nvidia_evident(snapshot));
}
