/* SPDX-License-Identifier: MIT */
#include "cmd/plan.h"

#include <string.h>

int uma_plan_invalid(struct uma_error *err, const char *value, const char *expected) {
    return uma_error_text(err, EINVAL, "\"%.64s\": expected %s", value, expected);
}

struct target {
    const char *name;
    uint64_t bits;
};

#define BIT(role) UMA_LINEAR_BIT(UMA_LINEAR_##role)

/* As PEFT takes them, by the ends of the modules' names: up_proj is in the dense layers, the shared experts and the routed ones. */
static const struct target targets[] = {
    { "q", BIT(Q) | BIT(Q_B) },
    { "k", BIT(K) },
    { "v", BIT(V) },
    { "o", BIT(O) },
    { "qkv", BIT(Q) | BIT(K) | BIT(V) },
    { "qkvo", BIT(Q) | BIT(K) | BIT(V) | BIT(O) },
    { "attention", BIT(Q) | BIT(K) | BIT(V) | BIT(O) | BIT(Q_A) | BIT(Q_B) | BIT(KV_A) | BIT(KV_B) },
    { "q_a", BIT(Q_A) },
    { "q_b", BIT(Q_B) },
    { "kv_a", BIT(KV_A) },
    { "kv_b", BIT(KV_B) },
    { "gate", BIT(GATE) | BIT(SHARED_GATE) | BIT(EXPERT_GATE) },
    { "up", BIT(UP) | BIT(SHARED_UP) | BIT(EXPERT_UP) },
    { "down", BIT(DOWN) | BIT(SHARED_DOWN) | BIT(EXPERT_DOWN) },
    { "mlp", BIT(GATE) | BIT(UP) | BIT(DOWN) | BIT(SHARED_GATE) | BIT(SHARED_UP) | BIT(SHARED_DOWN) | BIT(EXPERT_GATE) | BIT(EXPERT_UP) |
                 BIT(EXPERT_DOWN) },
    { "experts", BIT(EXPERT_GATE) | BIT(EXPERT_UP) | BIT(EXPERT_DOWN) },
    { "router", BIT(ROUTER) },
    { "mixer", BIT(MIXER_IN) | BIT(MIXER_GATE) | BIT(MIXER_OUT) },
    { "all-linear", ~(uint64_t)BIT(ROUTER) & (UMA_LINEAR_BIT(UMA_LINEAR_ROLE_COUNT) - 1) },
    { "all", ~(uint64_t)BIT(ROUTER) & (UMA_LINEAR_BIT(UMA_LINEAR_ROLE_COUNT) - 1) },
};

static const struct target *target_find(const char *word, size_t length) {
    if (length > 5 && strncmp(word + length - 5, "_proj", 5) == 0) /* q_proj, as configurations write it */
        length -= 5;
    for (size_t i = 0; i < ELEMENTS(targets); i++)
        if (strlen(targets[i].name) == length && strncmp(targets[i].name, word, length) == 0)
            return &targets[i];
    return NULL;
}

int uma_plan_targets_set(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    uint64_t bits = 0;
    for (const char *at = value;;) {
        size_t length = strcspn(at, ",+");
        const struct target *target = target_find(at, length);
        if (!target)
            return uma_error_text(
                err, EINVAL, "\"%.*s\": expected q, k, v, o, gate, up, down, qkvo, attention, mlp, experts, router, mixer or all-linear",
                (int)MIN_OF(length, (size_t)64), at);
        bits |= target->bits;
        if (!at[length])
            break;
        at += length + 1;
    }
    request->job.train.targets = bits;
    return 0;
}

int uma_plan_recompute_set(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    static const char *const modules[] = { "core_attn", "mlp", "moe", "moe_act", "layernorm", "mla_up_proj", "shared_experts" };
    uint32_t bits = 0; /* bit i is UMA_RECOMPUTE_* of the i-th */
    for (const char *at = value;;) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < ELEMENTS(modules) && (strlen(modules[i]) != length || strncmp(modules[i], at, length) != 0))
            i++;
        if (i == ELEMENTS(modules))
            return uma_plan_invalid(err, value, "a list of core_attn, mlp, moe, moe_act, layernorm, mla_up_proj, shared_experts");
        bits |= 1u << i;
        if (!at[length])
            break;
        at += length + 1;
    }
    request->job.train.recompute_modules = bits;
    return 0;
}

/* One name for each matrix of the layers, so that what is listed can be given again. */
void uma_plan_targets_list(uint64_t bits, void (*each)(void *userdata, const char *name), void *userdata) {
    static const struct target single[] = {
        { "q", BIT(Q) },
        { "k", BIT(K) },
        { "v", BIT(V) },
        { "o", BIT(O) },
        { "q_a", BIT(Q_A) },
        { "q_b", BIT(Q_B) },
        { "kv_a", BIT(KV_A) },
        { "kv_b", BIT(KV_B) },
        { "gate", BIT(GATE) | BIT(SHARED_GATE) },
        { "up", BIT(UP) | BIT(SHARED_UP) },
        { "down", BIT(DOWN) | BIT(SHARED_DOWN) },
        { "experts", BIT(EXPERT_GATE) | BIT(EXPERT_UP) | BIT(EXPERT_DOWN) },
        { "router", BIT(ROUTER) },
        { "mixer", BIT(MIXER_IN) | BIT(MIXER_GATE) | BIT(MIXER_OUT) },
    };
    for (size_t i = 0; i < ELEMENTS(single); i++)
        if (bits & single[i].bits)
            each(userdata, single[i].name);
}
