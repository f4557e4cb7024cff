/* SPDX-License-Identifier: MIT */
#include "plan/sharding.h"

static uint32_t at_least_one(uint32_t n) {
    return n > 0 ? n : 1;
}

struct uma_sharding uma_sharding_of(const struct uma_train *train) {
    struct uma_sharding s = {
        .tp = at_least_one(train->tp),
        .pp = at_least_one(train->pp),
        .cp = at_least_one(train->cp),
        .ep = at_least_one(train->ep),
        .stages = at_least_one(train->virtual_stages),
    };
    uint64_t model = uma_times(uma_times(s.tp, s.pp), s.cp);
    uint64_t ranks = uma_times(at_least_one(train->nodes), at_least_one(train->gpus_per_node));
    uint64_t routed = uma_times(s.ep, s.pp);
    s.expert_tp = train->expert_tp > 0 ? train->expert_tp : s.tp;
    if (train->expert_tp == 0 && ranks >= model &&
        uma_times(routed, s.tp) > ranks) /* as tp, unless the ranks do not suffice (ms-swift: 1) */
        s.expert_tp = ranks > routed ? (uint32_t)(ranks / routed) : 1;
    uint64_t experts = uma_times(routed, s.expert_tp);
    if (ranks < model)
        ranks = model;
    if (ranks < experts)
        ranks = experts;
    s.ranks = ranks;
    s.dp = ranks / model;
    s.expert_dp = ranks / experts;
    return s;
}

struct uma_sharing uma_sharing_of(const struct uma_train *train, uint64_t data_parallel) {
    struct uma_sharing sharing = { 1, 1, 1 };
    bool parameters = train->shard == UMA_SHARD_FSDP || train->shard == UMA_SHARD_ZERO3;
    bool gradients = parameters || train->shard == UMA_SHARD_ZERO2;
    if (gradients || train->shard == UMA_SHARD_ZERO1 || train->distributed_optimizer)
        sharing.optimizer = data_parallel;
    if (gradients)
        sharing.gradients = data_parallel;
    if (parameters)
        sharing.parameters = data_parallel;
    return sharing;
}

bool uma_sharding_has_layer(const struct uma_sharding *sharding, uint32_t layers, uint32_t layer, uint32_t stage) {
    uint64_t chunks = uma_times(sharding->pp, sharding->stages);
    if (chunks <= 1)
        return true;
    uint64_t each = layers / chunks, rest = layers % chunks; /* the first `rest` chunks take one more */
    uint64_t longer = rest * (each + 1);
    uint64_t chunk = layer < longer ? layer / (each + 1) : rest + (layer - longer) / (each > 0 ? each : 1);
    return chunk % sharding->pp == stage - 1;
}

/* Parts of a matrix that tensor parallelism makes of it. */
static uint64_t division(const struct uma_sharding *s, const struct uma_model_layer *layer, enum uma_linear_role role) {
    switch (role) {
    case UMA_LINEAR_K:
    case UMA_LINEAR_V: /* fewer groups than ranks: each group is on several ranks */
        return layer->kv_heads > 0 && layer->kv_heads < s->tp ? layer->kv_heads : s->tp;
    case UMA_LINEAR_Q_A:
    case UMA_LINEAR_KV_A:
    case UMA_LINEAR_INDEX:
    case UMA_LINEAR_ROUTER:
    case UMA_LINEAR_LATENT_IN:
    case UMA_LINEAR_LATENT_OUT:
        return 1;
    case UMA_LINEAR_EXPERT_GATE:
    case UMA_LINEAR_EXPERT_UP:
    case UMA_LINEAR_EXPERT_DOWN:
        return s->expert_tp;
    case UMA_LINEAR_Q:
    case UMA_LINEAR_O:
    case UMA_LINEAR_Q_B:
    case UMA_LINEAR_KV_B:
    case UMA_LINEAR_GATE:
    case UMA_LINEAR_UP:
    case UMA_LINEAR_DOWN:
    case UMA_LINEAR_SHARED_GATE:
    case UMA_LINEAR_SHARED_UP:
    case UMA_LINEAR_SHARED_DOWN:
    case UMA_LINEAR_MIXER_IN:
    case UMA_LINEAR_MIXER_GATE:
    case UMA_LINEAR_MIXER_OUT:
    case UMA_LINEAR_REPLACEMENT:
    case UMA_LINEAR_ROLE_COUNT:
        break;
    }
    return s->tp;
}

/* A row-parallel matrix adds its bias after the sum over ranks: the whole bias is on each. */
static bool row_parallel(enum uma_linear_role role) {
    return role == UMA_LINEAR_O || role == UMA_LINEAR_DOWN || role == UMA_LINEAR_SHARED_DOWN || role == UMA_LINEAR_EXPERT_DOWN ||
           role == UMA_LINEAR_MIXER_OUT;
}

static bool has_bias(const struct uma_model *model, enum uma_linear_role role) {
    switch (role) {
    case UMA_LINEAR_Q:
        return model->qkv_bias;
    case UMA_LINEAR_K:
        return model->qkv_bias && !model->details.q_bias_only;
    case UMA_LINEAR_V:
        return model->qkv_bias;
    case UMA_LINEAR_O:
        return model->o_bias;
    case UMA_LINEAR_GATE:
    case UMA_LINEAR_UP:
    case UMA_LINEAR_DOWN:
    case UMA_LINEAR_SHARED_GATE:
    case UMA_LINEAR_SHARED_UP:
    case UMA_LINEAR_SHARED_DOWN:
        return model->mlp_bias;
    case UMA_LINEAR_EXPERT_GATE:
    case UMA_LINEAR_EXPERT_UP:
    case UMA_LINEAR_EXPERT_DOWN:
        return model->details.expert_bias;
    default:
        return false;
    }
}

struct uma_rank_params uma_sharding_layer_params(const struct uma_sharding *sharding, const struct uma_model *model, uint32_t index) {
    const struct uma_model_layer *layer = &model->layers[index];
    struct uma_rank_params params = { 0, 0 };
    struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
    size_t n = uma_model_linears(model, index, linears);
    for (size_t i = 0; i < n; i++) {
        const struct uma_linear *l = &linears[i];
        uint64_t parts = division(sharding, layer, l->role);
        uint64_t one = uma_divide_up(uma_times(l->in, l->out), parts);
        if (has_bias(model, l->role))
            one = uma_plus(one, row_parallel(l->role) ? l->out : uma_divide_up(l->out, parts));
        bool expert = l->class_ == UMA_CLASS_EXPERTS;
        uint64_t copies = expert ? uma_divide_up(l->copies, sharding->ep) : (l->copies > 0 ? l->copies : 1);
        uint64_t *sum = expert ? &params.experts : &params.dense;
        *sum = uma_plus(*sum, uma_times(one, copies));
    }
    uint64_t norms = model->details.norm_none ? 0 : model->details.norm_bias ? 2 : 1;
    uint64_t per_layer = (layer->mixer != UMA_MIXER_NONE ? 1U : 0U) + (layer->ffn != UMA_FFN_NONE ? 1U : 0U);
    if (model->norms_per_layer > 2) /* a norm behind each part as well */
        per_layer = uma_times(per_layer, 2);
    params.dense = uma_plus(params.dense, uma_times(uma_times(norms, per_layer), model->hidden));
    if (layer->mixer == UMA_MIXER_MLA)
        params.dense = uma_plus(params.dense, uma_plus(model->q_lora_rank, model->kv_lora_rank));
    if (layer->mixer == UMA_MIXER_ATTENTION && model->qk_norm)
        params.dense = uma_plus(params.dense, uma_times(norms, 2 * (uint64_t)layer->head_dim));
    if (layer->mixer == UMA_MIXER_MAMBA2) { /* convolution with its bias; A, D and dt of each head; the gated norm */
        uint64_t channels = uma_plus(model->ssm_inner, uma_times(2 * (uint64_t)model->ssm_groups, model->ssm_state));
        uint64_t small =
            uma_plus(uma_times(channels, (uint64_t)model->ssm_conv + 1), uma_plus(3 * (uint64_t)model->ssm_heads, model->ssm_inner));
        params.dense = uma_plus(params.dense, uma_divide_up(small, sharding->tp));
    }
    return params;
}

/* Megatron's modules have one name for dense feed-forward and experts (linear_fc1, linear_fc2): who names the one names the other. */
static uint64_t dense_name(enum uma_linear_role role) {
    switch (role) {
    case UMA_LINEAR_EXPERT_GATE:
    case UMA_LINEAR_SHARED_GATE:
        return UMA_LINEAR_BIT(UMA_LINEAR_GATE);
    case UMA_LINEAR_EXPERT_UP:
    case UMA_LINEAR_SHARED_UP:
        return UMA_LINEAR_BIT(UMA_LINEAR_UP);
    case UMA_LINEAR_EXPERT_DOWN:
    case UMA_LINEAR_SHARED_DOWN:
        return UMA_LINEAR_BIT(UMA_LINEAR_DOWN);
    default:
        return 0;
    }
}

uint64_t uma_sharding_layer_adapter(const struct uma_sharding *sharding, const struct uma_model *model, uint32_t index, uint32_t rank,
                                    uint64_t targets) {
    struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
    size_t n = uma_model_linears(model, index, linears);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const struct uma_linear *l = &linears[i];
        bool named = targets == 0 ? l->role != UMA_LINEAR_ROUTER : (targets & (UMA_LINEAR_BIT(l->role) | dense_name(l->role))) != 0;
        if (!named)
            continue;
        /* the side that tensor parallelism cuts is cut in the adapter as well: inputs of row-parallel matrices, outputs of the others */
        uint64_t parts = division(sharding, &model->layers[index], l->role);
        uint64_t in = row_parallel(l->role) ? uma_divide_up(l->in, parts) : l->in,
                 out = row_parallel(l->role) ? l->out : uma_divide_up(l->out, parts);
        uint64_t copies = l->class_ == UMA_CLASS_EXPERTS ? uma_divide_up(l->copies, sharding->ep) : l->copies > 0 ? l->copies : 1;
        sum = uma_plus(sum, uma_times(uma_times(uma_plus(in, out), rank), copies));
    }
    return sum;
}

uint64_t uma_sharding_vocab(uint64_t vocab, uint32_t multiple, uint32_t tp) {
    uint64_t unit = uma_times(multiple > 0 ? multiple : 1, tp > 0 ? tp : 1);
    uint64_t padded = uma_times(uma_divide_up(vocab, unit), unit);
    return padded;
}
