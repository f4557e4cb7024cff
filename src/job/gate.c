/* SPDX-License-Identifier: MIT */
#include "job/gate.h"

#include "account/headroom.h"
#include "account/holders.h"
#include "base/units.h"

#include <string.h>

enum { HOLDERS_SHOWN = 8 }; /* what explains a refusal fits on a screen; the rest is summed up */

/* What the pool could give a job if nobody else were there. */
static struct uma_u64 most(const struct uma_headroom *headroom) {
    struct uma_u64 total = headroom->total;
    if (uma_usable(total.validity) && uma_usable(headroom->reserve.validity))
        total.value -= MIN_OF(headroom->reserve.value, total.value);
    return total;
}

void uma_gate_decide(const struct uma_account *account, struct uma_u64 need, struct uma_gate *ret_gate) {
    struct uma_gate gate = { .need = need, .budget = account->headroom.budget };
    if (need.validity != UMA_KNOWN) {
        gate.verdict = UMA_GATE_NO_NEED;
    } else if (!uma_usable(gate.budget.validity)) {
        gate.verdict = UMA_GATE_UNKNOWN;
    } else if (gate.budget.value >= need.value) {
        gate.verdict = UMA_GATE_FITS;
    } else {
        gate.verdict = UMA_GATE_REFUSED;
        gate.missing = need.value - gate.budget.value;
        struct uma_u64 limit = most(&account->headroom);
        gate.never = uma_usable(limit.validity) && need.value > limit.value;
    }
    *ret_gate = gate;
}

const char *uma_gate_verdict_name(enum uma_gate_verdict verdict) {
    static const char *const names[] = { "no need given", "fits", "refused", "unknown" };
    return names[verdict];
}

static void part(struct uma_text *text, const char *name, struct uma_u64 bytes, bool *first) {
    if (!uma_usable(bytes.validity) || bytes.value < UMA_MIB)
        return;
    uma_text_append(text, *first ? " (" : ", ");
    uma_text_append(text, name);
    uma_text_char(text, ' ');
    uma_text_bytes(text, bytes.value);
    *first = false;
}

static void holder_line(struct uma_text *text, const struct uma_holder *holder) {
    bool first = true;
    uma_text_printf(text, "  pid %-7d ", (int)holder->pid);
    (void)uma_text_safe(text, holder->name ? holder->name : "?", 32);
    if (holder->kind && holder->kind[0] && strcmp(holder->kind, "other") != 0)
        uma_text_printf(text, " [%s]", holder->kind);
    uma_text_append(text, "  ");
    uma_text_bytes(text, uma_holder_rank_bytes(holder));
    part(text, "gpu", holder->gpu_bytes, &first);
    part(text, "anon", holder->anon_bytes, &first);
    part(text, "shared", holder->shmem_bytes, &first);
    if (!first)
        uma_text_char(text, ')');
    if (holder->container) {
        uma_text_append(text, "  container ");
        (void)uma_text_safe(text, holder->container, 32);
    } else if (holder->unit) {
        uma_text_append(text, "  unit ");
        (void)uma_text_safe(text, holder->unit, 32);
    }
    if (holder->exited)
        uma_text_append(text, "  (ended; the driver has not let go yet)");
    uma_text_char(text, '\n');
}

/* The fewest that make room: the smallest one that suffices alone, else the largest together. Returns how many; 0 when all of them would not. */
static size_t would_have_to_go(const struct uma_account *account, uint64_t missing, size_t *ret_first) {
    uint64_t sum = 0;
    size_t alone = SIZE_MAX;
    for (size_t i = 0; i < account->n_holders; i++)
        if (uma_holder_rank_bytes(&account->holders[i]) >= missing &&
            (alone == SIZE_MAX || uma_holder_rank_bytes(&account->holders[i]) < uma_holder_rank_bytes(&account->holders[alone])))
            alone = i;
    if (alone != SIZE_MAX) {
        *ret_first = alone;
        return 1;
    }
    *ret_first = 0;
    for (size_t i = 0; i < account->n_holders; i++) {
        if (__builtin_add_overflow(sum, uma_holder_rank_bytes(&account->holders[i]), &sum))
            sum = UINT64_MAX;
        if (sum >= missing)
            return i + 1;
    }
    return 0;
}

static void remedy(struct uma_text *text, const struct uma_gate *gate, const struct uma_account *account) {
    size_t first, n = would_have_to_go(account, gate->missing, &first);
    if (gate->never) {
        uma_text_append(text, "  it can never fit: the whole pool is ");
        uma_text_bytes(text, account->headroom.total.value);
        if (uma_usable(account->headroom.reserve.validity)) {
            uma_text_append(text, ", of which the system keeps ");
            uma_text_bytes(text, account->headroom.reserve.value);
        }
        uma_text_char(text, '\n');
        return;
    }
    if (n == 0) {
        uma_text_append(text, "  ending all of them would not be enough (see umactl status)\n");
        return;
    }
    uma_text_append(text, "  would have to go: ");
    for (size_t i = first; i < first + n && i < first + HOLDERS_SHOWN; i++) {
        uma_text_printf(text, "%spid %d ", i > first ? ", " : "", (int)account->holders[i].pid);
        (void)uma_text_safe(text, account->holders[i].name ? account->holders[i].name : "?", 32);
    }
    if (n > HOLDERS_SHOWN)
        uma_text_printf(text, " and %zu more", n - HOLDERS_SHOWN);
    uma_text_char(text, '\n');
}

void uma_gate_explain(const struct uma_gate *gate, const struct uma_account *account, struct uma_text *text) {
    uma_text_append(text, "the job needs ");
    uma_text_bytes(text, gate->need.value);
    if (gate->verdict == UMA_GATE_UNKNOWN) {
        uma_text_append(text, ", and what can be had is unknown: the memory of this machine could not be read\n");
        return;
    }
    uma_text_append(text, ", a new job can have ");
    uma_text_bytes(text, gate->budget.value);
    _cleanup_text_ struct uma_text note = { 0 };
    if (uma_headroom_note(&note, account) && note.data)
        uma_text_printf(text, " %s", note.data);
    if (gate->verdict != UMA_GATE_REFUSED) {
        uma_text_char(text, '\n');
        return;
    }
    uma_text_append(text, ": ");
    uma_text_bytes(text, gate->missing);
    uma_text_append(text, " short\n");
    struct uma_u64 reserved = account->headroom.reserved;
    if (uma_usable(reserved.validity) && reserved.value) {
        uma_text_append(text, "  running jobs have reserved ");
        uma_text_bytes(text, reserved.value);
        uma_text_append(text, " that they have not taken yet (umactl status shows whose)\n");
    }
    if (account->n_holders)
        uma_text_append(text, "held by\n");
    for (size_t i = 0; i < account->n_holders && i < HOLDERS_SHOWN; i++)
        holder_line(text, &account->holders[i]);
    if (account->n_holders > HOLDERS_SHOWN) {
        uint64_t rest = 0;
        for (size_t i = HOLDERS_SHOWN; i < account->n_holders; i++)
            rest += uma_holder_rank_bytes(&account->holders[i]);
        uma_text_printf(text, "  and %zu more with ", account->n_holders - HOLDERS_SHOWN);
        uma_text_bytes(text, rest);
        uma_text_char(text, '\n');
    }
    remedy(text, gate, account);
}
