/* SPDX-License-Identifier: MIT */
/* Which matrices a quantiser's list of modules speaks of: names, globs and regular expressions of checkpoints, read by the words in them. */
#include "plan/model/config_quant.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <string.h>

#define BIT(role) ((uint32_t)UMA_LINEAR_BIT(UMA_LINEAR_##role))

static bool has(const char *name, const char *word) {
    return strstr(name, word) != NULL;
}

static bool ends(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    while (n > 0 && strchr("*$.", name[n - 1])) /* the end of a glob or an expression */
        n--;
    return n >= m && memcmp(name + n - m, ending, m) == 0;
}

static uint32_t projections(const char *name) {
    static const struct {
        const char *word;
        uint32_t roles;
    } words[] = {
        { "q_a_proj", BIT(Q_A) },
        { "q_b_proj", BIT(Q_B) },
        { "kv_a_proj", BIT(KV_A) },
        { "kv_b_proj", BIT(KV_B) },
        { "fused_qkv_a", BIT(Q_A) | BIT(KV_A) },
        { "qkv_proj", BIT(Q) | BIT(K) | BIT(V) },
        { "qkv.", BIT(Q) | BIT(K) | BIT(V) },
        { "o_proj", BIT(O) },
        { "wo", BIT(O) },
        { "q_proj", BIT(Q) },
        { "k_proj", BIT(K) },
        { "v_proj", BIT(V) },
    };
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (has(name, words[i].word))
            return words[i].roles;
    return 0;
}

static uint32_t feed_forward(const char *name, uint32_t gate, uint32_t up, uint32_t down) {
    uint32_t roles = (has(name, "gate") ? gate : 0) | (has(name, "up") ? up : 0) | (has(name, "down") ? down : 0);
    return roles ? roles : gate | up | down;
}

static uint32_t state_space(const char *name) {
    if (has(name, "conv1d"))
        return 0;
    if (has(name, "in_proj_z"))
        return BIT(MIXER_GATE);
    if (has(name, "in_proj_qkvz"))
        return BIT(MIXER_IN) | BIT(MIXER_GATE);
    if (has(name, "in_proj"))
        return BIT(MIXER_IN);
    if (has(name, "out_proj"))
        return BIT(MIXER_OUT);
    return BIT(MIXER_IN) | BIT(MIXER_GATE) | BIT(MIXER_OUT);
}

/* Does a name end with a layer's number, and so mean all of that layer? */
static bool whole_layer(const char *name) {
    const char *at = strstr(name, "layers");
    if (!at)
        return false;
    at += strlen("layers");
    while (*at && strchr("\\.*$0123456789", *at))
        at++;
    return *at == 0;
}

uint32_t uma_config_module_roles(const char *name, bool experts_apart) {
    uint32_t own = projections(name);
    if (has(name, "norm") || has(name, "correction_bias") || ends(name, ".bias"))
        return 0;
    if (has(name, "shared_expert"))
        return ends(name, "shared_expert_gate") ? 0 : BIT(SHARED_GATE) | BIT(SHARED_UP) | BIT(SHARED_DOWN);
    if (has(name, "experts"))
        return BIT(EXPERT_GATE) | BIT(EXPERT_UP) | BIT(EXPERT_DOWN);
    if (has(name, "indexer"))
        return BIT(INDEX);
    if (has(name, "latent"))
        return BIT(LATENT_IN) | BIT(LATENT_OUT);
    if (has(name, "linear_attn") || has(name, "mamba"))
        return state_space(name);
    if (own)
        return own;
    if (has(name, "attn") || has(name, "attention"))
        return UMA_ATTENTION_ROLES;
    if (has(name, "router") || ends(name, ".gate") || has(name, ".gate.") || strcmp(name, "gate") == 0)
        return BIT(ROUTER);
    if (has(name, "mixer"))
        return has(name, "_proj") ? state_space(name) : ends(name, "mixer") ? UINT32_MAX : 0;
    bool block = has(name, "mlp") || has(name, "feed_forward") || has(name, "ffn") || has(name, "block_sparse_moe");
    if (block && has(name, "_proj"))
        return feed_forward(name, BIT(GATE) | (experts_apart ? BIT(SHARED_GATE) : 0), BIT(UP) | (experts_apart ? BIT(SHARED_UP) : 0),
                            BIT(DOWN) | (experts_apart ? BIT(SHARED_DOWN) : 0));
    if (block)
        return experts_apart ? UMA_FFN_ROLES & ~(BIT(EXPERT_GATE) | BIT(EXPERT_UP) | BIT(EXPERT_DOWN) | BIT(ROUTER)) : UMA_FFN_ROLES;
    if (has(name, "gate_proj") || has(name, "up_proj") || has(name, "down_proj"))
        return feed_forward(name, BIT(GATE) | BIT(SHARED_GATE) | BIT(EXPERT_GATE), BIT(UP) | BIT(SHARED_UP) | BIT(EXPERT_UP),
                            BIT(DOWN) | BIT(SHARED_DOWN) | BIT(EXPERT_DOWN));
    return whole_layer(name) ? UINT32_MAX : 0;
}

bool uma_config_module_is_tower(const char *name) {
    static const char *const words[] = { "visual",      "vision",      "audio",     "mm_projector", "multi_modal",
                                         "patch_embed", "patch_merge", "projector", "talker",       "code2wav" };
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (has(name, words[i]))
            return true;
    return false;
}

int64_t uma_config_module_layer(const char *name) {
    const char *at = strstr(name, "layers");
    if (!at)
        return -1;
    at += strlen("layers");
    while (*at == '\\' || *at == '.')
        at++;
    uint64_t layer;
    return uma_parse_u64(at, at + strlen(at), &layer) && layer < UMA_MODEL_LAYERS_MAX * 2 ? (int64_t)layer : -1;
}
