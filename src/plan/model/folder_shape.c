/* SPDX-License-Identifier: MIT */
/*
 * The shape of a model out of its tensors' shapes, for a folder without config.json and for a configuration of an architecture that nobody has
 * described here. Matrices are stored [outputs, inputs]; packed ones are not looked at, and most models keep some that are not.
 */
#include "plan/model/folder.h"

#include "plan/estimate.h"
#include "plan/model/structure.h"

#include <string.h>

static bool has(const struct uma_safetensors_tensor *t, const char *part) {
    return memmem(t->name, t->name_length, part, strlen(part)) != NULL;
}

static void at_least(uint64_t *value, uint64_t seen) {
    *value = MAX_OF(*value, seen);
}

static void see_attention(struct uma_folder_shape *shape, const struct uma_safetensors_tensor *t) {
    if (has(t, "kv_a_proj"))
        at_least(&shape->kv_a, t->shape[0]);
    else if (has(t, "q_a_proj"))
        at_least(&shape->q_a, t->shape[0]);
    else if (has(t, ".q_proj") || has(t, ".wq."))
        at_least(&shape->q, t->shape[0]);
    else if (has(t, ".k_proj") || has(t, ".wk."))
        at_least(&shape->k, t->shape[0]);
    else if (has(t, ".v_proj") || has(t, ".wv."))
        at_least(&shape->v, t->shape[0]);
    else if (has(t, ".o_proj") || has(t, ".wo.") || has(t, ".out_proj"))
        at_least(&shape->o, t->shape[1]);
}

static void see_ffn(struct uma_folder_shape *shape, const struct uma_safetensors_tensor *t, enum uma_class class_) {
    bool down = has(t, "down_proj") || has(t, ".w2.") || has(t, "c_proj") || has(t, "4h_to_h") || has(t, "fc2");
    shape->gated = shape->gated || has(t, "gate_proj") || has(t, ".w3.") || has(t, "gate_up");
    if (!down)
        return;
    if (class_ == UMA_CLASS_EXPERTS && t->dims == 3) { /* fused: [experts, one side, other side] */
        shape->experts = (uint32_t)MIN_OF(t->shape[0], (uint64_t)UINT32_MAX);
        at_least(&shape->expert_ffn, shape->hidden && t->shape[1] == shape->hidden ? t->shape[2] : t->shape[1]);
    } else if (class_ == UMA_CLASS_EXPERTS)
        at_least(&shape->expert_ffn, t->shape[1]);
    else if (has(t, "shared"))
        at_least(&shape->shared_ffn, t->shape[1]);
    else
        at_least(&shape->ffn, t->shape[1]);
}

/* "experts.17." */
static void see_expert_number(struct uma_folder_shape *shape, const struct uma_safetensors_tensor *t) {
    const char *at = strstr(t->name, "experts.");
    uint32_t n = 0;
    if (!at)
        return;
    for (at += strlen("experts."); *at >= '0' && *at <= '9' && n < 1000000; at++)
        n = n * 10 + (uint32_t)(*at - '0');
    if (at[-1] >= '0' && at[-1] <= '9')
        shape->experts = MAX_OF(shape->experts, n + 1);
}

void uma_folder_shape_see(struct uma_folder_shape *shape, const struct uma_safetensors_tensor *t, enum uma_class class_,
                          const struct uma_tensor_storage *storage) {
    if (class_ == UMA_CLASS_VISION || class_ == UMA_CLASS_MTP)
        return;
    int64_t layer = uma_tensor_layer(t->name, t->name_length);
    if (layer >= 0 && layer < UMA_MODEL_LAYERS_MAX)
        shape->layers = MAX_OF(shape->layers, (uint32_t)layer + 1);
    if (class_ == UMA_CLASS_EXPERTS)
        see_expert_number(shape, t);
    if (storage->part != UMA_PART_VALUES)
        return;
    if (class_ == UMA_CLASS_EMBEDDING && t->dims == 2 && t->shape[0] > shape->vocab) {
        shape->vocab = t->shape[0];
        shape->hidden = t->shape[1];
    } else if (class_ == UMA_CLASS_NORM && t->dims == 1) {
        if (has(t, "k_norm") || has(t, "q_norm"))
            at_least(&shape->head_dim, t->shape[0]);
        else if (has(t, "kv_a_layernorm"))
            at_least(&shape->kv_latent, t->shape[0]);
    } else if (t->dims >= 2 && class_ == UMA_CLASS_ATTENTION)
        see_attention(shape, t);
    else if (t->dims >= 2 && (class_ == UMA_CLASS_MLP || class_ == UMA_CLASS_EXPERTS))
        see_ffn(shape, t, class_);
}

/* ---- a model of it ------------------------------------------------------------------------------------------ */

static uint32_t narrow(uint64_t value) {
    return (uint32_t)MIN_OF(value, (uint64_t)UINT32_MAX);
}

static void fill_layer(const struct uma_folder_shape *shape, struct uma_model_layer *layer) {
    uint64_t q = shape->o ? shape->o : shape->q ? shape->q : shape->hidden;
    /* a norm of q that is as wide as q is one over all heads; 128 is what nearly all models have whose heads nothing tells */
    uint64_t head = shape->head_dim && shape->head_dim < q ? shape->head_dim : q % 128 == 0 && q >= 1024 ? 128 : 64;
    layer->mixer = shape->kv_latent ? UMA_MIXER_MLA : UMA_MIXER_ATTENTION;
    layer->head_dim = layer->v_head_dim = narrow(head);
    layer->heads = narrow(MAX_OF(q / head, (uint64_t)1));
    layer->kv_heads = shape->k ? narrow(MAX_OF(shape->k / head, (uint64_t)1)) : layer->heads;
    layer->output_gate = shape->o && shape->q == 2 * shape->o;
    layer->ffn_gated = shape->gated;
    layer->ffn = shape->experts ? UMA_FFN_MOE : UMA_FFN_DENSE;
    layer->ffn_size = shape->experts ? shape->expert_ffn : shape->ffn;
    layer->experts = shape->experts;
    /* not in any tensor; 8 of many is what most have, 2 of eight was Mixtral's */
    layer->experts_per_token = shape->experts > 16 ? 8 : shape->experts ? 2 : 0;
    layer->shared_ffn_size = shape->shared_ffn;
}

static int make_model(const struct uma_folder_shape *shape, struct uma_model **model, struct uma_error *err) {
    _cleanup_model_ struct uma_model *made = uma_model_new(shape->layers);
    if (!made || uma_model_string(&made->architecture, "unknown") < 0)
        return uma_error_set(err, ENOMEM, "the model's layers");
    for (uint32_t i = 0; i < made->layer_count; i++)
        fill_layer(shape, &made->layers[i]);
    if (shape->kv_latent) {
        made->kv_lora_rank = narrow(shape->kv_latent);
        made->qk_rope_dim = narrow(uma_minus(shape->kv_a, shape->kv_latent));
        made->q_lora_rank = narrow(shape->q_a);
        made->qk_nope_dim = made->layer_count ? made->layers[0].head_dim : 0;
    }
    made->qk_norm = shape->head_dim > 0;
    *model = TAKE_PTR(made);
    return 0;
}

int uma_folder_shape_apply(const struct uma_folder_shape *shape, struct uma_model **model, struct uma_error *err) {
    if (!*model || (*model)->layer_count == 0) {
        struct uma_model *made = NULL;
        int r = make_model(shape, &made, err);
        if (r < 0)
            return r;
        if (*model) { /* keep what the configuration did say */
            struct uma_model_layer *layers = made->layers;
            (*model)->layer_count = made->layer_count;
            made->layers = (*model)->layers;
            (*model)->layers = layers;
            (void)uma_model_free(made);
        } else
            *model = made;
    }
    if ((*model)->hidden == 0)
        (*model)->hidden = narrow(shape->hidden);
    if ((*model)->vocab == 0)
        (*model)->vocab = shape->vocab;
    return 0;
}
