/* SPDX-License-Identifier: MIT */
/* A holder in words: what it is, what caps it, where it runs. Names are not escaped here. */
#include "cmd/status.h"

#include "account/gpu_share.h"
#include "account/holders.h"
#include "base/units.h"
#include "cmd/layout.h"

#include <string.h>

/* What an engine caps itself to; else the limit of its container or service; "?" where there may be a cap and it cannot be read. */
void uma_holder_cap_text(struct uma_text *text, const struct uma_holder *h) {
    const struct uma_cap *cap = &h->cap;
    if (!cap->present && !cap->source && uma_usable(h->container_limit.validity)) {
        uma_text_append(text, "limit ");
        uma_layout_gib(text, h->container_limit.value);
    } else if (!cap->present && !cap->source)
        uma_text_append(text, "none");
    else if (uma_usable(cap->fraction.validity)) {
        uma_layout_number(text, cap->fraction, 2);
        if (uma_usable(cap->bytes.validity)) {
            uma_text_append(text, " = ");
            if (cap->bytes.value >= 100 * UMA_GIB) /* without the decimal, to fit its column */
                uma_text_printf(text, "%llu", (unsigned long long)((cap->bytes.value + UMA_GIB / 2) / UMA_GIB));
            else
                uma_layout_gib(text, cap->bytes.value);
        }
    } else if (uma_usable(cap->bytes.validity))
        uma_layout_gib(text, cap->bytes.value);
    else
        uma_text_append(text, "?");
}

/* "vllm serve"; the role is left out where both do not fit. */
void uma_holder_kind_text(struct uma_text *text, const struct uma_holder *h, size_t columns) {
    const char *kind = h->kind ? h->kind : "other", *role = uma_role_name(h->role);
    uma_text_append(text, kind);
    if (role && strlen(kind) + 1 + strlen(role) <= columns)
        uma_text_printf(text, " %s", role);
}

/* The container or service it runs in; a login session or a user's manager says nothing about it. */
static const char *place(const struct uma_holder *h) {
    if (h->container || !h->unit)
        return h->container;
    const char *end = strrchr(h->unit, '.');
    return end && strcmp(end, ".service") == 0 && strncmp(h->unit, "user@", 5) != 0 ? h->unit : NULL;
}

/* Whether it has ended, then what a person knows it by: "embeddings: VLLM::EngineCor, Qwen/Qwen3-Embedding-8B". */
void uma_holder_name_text(struct uma_text *text, const struct uma_holder *h) {
    const char *where = place(h);
    if (h->exited)
        uma_text_append(text, "exited: ");
    if (where)
        uma_text_printf(text, "%s: ", where);
    uma_text_append(text, h->name && *h->name ? h->name : "?");
    if (h->model)
        uma_text_printf(text, ", %s", h->model);
}

void uma_holder_phrase(struct uma_text *text, const struct uma_holder *holder, size_t columns) {
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_gib(&t, uma_holder_rank_bytes(holder));
    uma_text_append(&t, "  ");
    uma_holder_kind_text(&t, holder, SIZE_MAX);
    uma_text_printf(&t, ", pid %d: ", holder->pid);
    uma_holder_name_text(&t, holder);
    (void)uma_text_safe(text, t.data ? t.data : "?", columns);
}

/* A GPU on the pool, whoever made it: one that answered, or one that ought to. */
static bool gpu_on_pool(const struct uma_snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->gpus.n; i++)
        if (uma_gpu_in_pool(snapshot, &snapshot->gpus.list[i]))
            return true;
    return snapshot->platform.unified == UMA_YES || (snapshot->gpus.n == 0 && uma_nvidia_evident(snapshot));
}

static const char *why_not_listed(const struct uma_snapshot *snapshot) {
    const struct uma_gpus *gpus = &snapshot->gpus;
    if (gpus->n == 0 && gpus->source.detail)
        return gpus->source.detail;
    if (gpus->n == 0 && gpus->source.validity == UMA_UNKNOWN)
        return "the GPU was not asked";
    return snapshot->platform.in_container == UMA_YES ? "the driver's list is not complete in a container"
                                                      : "the driver does not list them";
}

bool uma_gpu_beside_text(struct uma_text *text, const struct uma_snapshot *snapshot, const struct uma_account *account) {
    uint64_t listed = 0, row = account->ledger.bytes[UMA_LEDGER_GPU];
    for (size_t i = 0; i < account->n_holders; i++)
        listed += uma_usable(account->holders[i].gpu_bytes.validity) ? account->holders[i].gpu_bytes.value : 0;
    if (account->ledger.gpu_whole && row > listed && row - listed >= 64 * UMA_MIB) {
        uma_text_bytes(text, row - listed);
        uma_text_append(text, " of GPU memory that its driver does not divide by process");
        return true;
    }
    if (account->gpu_listed || account->ledger.gpu_whole || !gpu_on_pool(snapshot))
        return false;
    uma_text_printf(text, "holders of GPU memory are not known (%s)", why_not_listed(snapshot));
    if (account->ledger.known) {
        uma_text_append(text, "; ");
        uma_text_bytes(text, account->ledger.bytes[UMA_LEDGER_UNEXPLAINED]);
        uma_text_append(text, " are unexplained");
    }
    return true;
}
