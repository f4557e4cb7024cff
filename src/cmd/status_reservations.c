/* SPDX-License-Identifier: MIT */
/* status_reservations.c - what running jobs have reserved, in text and in JSON: the lines behind the sum's "reserved". */
#include "cmd/layout.h"
#include "cmd/status.h"

#include "base/units.h"

#include <string.h>

enum { NAME_COLUMNS = 24 };

static int by_unspent(const void *a, const void *b) {
    const struct uma_claim_seen *x = a, *y = b;
    return (x->unspent < y->unspent) - (x->unspent > y->unspent);
}

static void line(struct uma_text *text, const struct uma_claim_seen *claim) {
    uma_text_append(text, "  ");
    uma_text_bytes(text, claim->reserved);
    uma_text_append(text, "  ");
    (void)uma_text_safe(text, claim->name[0] ? claim->name : "?", NAME_COLUMNS);
    uma_text_printf(text, " (pid %u): ", claim->pid);
    uma_text_bytes(text, MIN_OF(claim->taken, claim->reserved));
    uma_text_append(text, " taken, ");
    uma_text_bytes(text, claim->unspent);
    uma_text_append(text, claim->own ? " to come; own\n" : " to come\n");
}

void uma_status_reservations(struct uma_text *text, const struct uma_claims *claims, const struct uma_status_style *style, size_t most) {
    size_t n = MIN_OF(claims->n, most);
    _cleanup_free_
    struct uma_claim_seen *order = claims->n ? calloc(claims->n, sizeof(*order)) : NULL;
    if (claims->n == 0)
        return;
    if (!order) {
        text->failed = true;
        return;
    }
    for (size_t i = 0; i < claims->n; i++)
        order[i] = claims->list[i];
    qsort(order, claims->n, sizeof(*order), by_unspent);
    uma_layout_ink(text, style, UMA_INK_BOLD);
    uma_text_append(text, "RESERVED BY RUNNING JOBS");
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    uma_text_char(text, '\n');
    for (size_t i = 0; i < n; i++)
        line(text, &order[i]);
    if (n < claims->n)
        uma_text_printf(text, "  and %zu more: umactl status --all\n", claims->n - n);
}

void uma_reservations_json(struct uma_json *json, const struct uma_claims *claims) {
    uma_json_begin_array(json, "reservations", false);
    for (size_t i = 0; i < claims->n; i++) {
        const struct uma_claim_seen *c = &claims->list[i];
        uma_json_begin_object(json, NULL, false);
        uma_json_string(json, "name", c->name);
        uma_json_unsigned(json, "pid", c->pid);
        uma_json_unsigned(json, "uid", c->uid);
        uma_json_unsigned(json, "reserved", c->reserved);
        uma_json_unsigned(json, "taken", c->taken);
        uma_json_unsigned(json, "unspent", c->unspent);
        uma_json_bool(json, "own", c->own);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
}
