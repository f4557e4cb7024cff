/* SPDX-License-Identifier: MIT */
/*
 * What forward keeps for backward, per token, counted tensor by tensor as the frameworks' modules save them. Backward of one layer is the widest
 * where the gated feed-forward's product is differentiated: its three inputs and their three gradients are there at once.
 *
 * Checked on fms-acceleration's one-GPU rows: 63.0 h bytes for Llama-3 with NF4 or GPTQ (63.05 measured), 62.5 h for Llama-2-70B (62.55), + 8 h
 * without fused kernels (the fp32 copies of two RMSNorms; 8.0 measured), + 3 h for Mistral (repeat_kv before the flash kernel; 3.0 measured).
 */
#include "plan/training_parts.h"

#include <string.h>

struct per_layer {      /* bytes per token */
    uint64_t kept;      /* by forward, until this layer's backward */
    uint64_t down;      /* of it: the input of the last matrix, gone before the widest moment */
    uint64_t temporary; /* gradients in flight at the widest moment */
};

static bool architecture_is(const struct uma_model *model, const char *name) {
    return model->architecture && strncmp(model->architecture, name, strlen(name)) == 0;
}

/* A frozen linear keeps nothing; one that is trained keeps its input (one tensor for all that share it); an adapter its own copy of it. */
static uint64_t input_kept(const struct uma_training_job *job, const struct uma_linear *linear, bool shared_is_kept, uint64_t width) {
    if (job->train->method == UMA_METHOD_FULL)
        return shared_is_kept ? 0 : uma_times(job->element, width);
    uint64_t kept = uma_training_adapted(job, linear) ? uma_times(job->element, width) : 0;
    /* Lightning's bitsandbytes layers keep the input of every matrix, frozen or not, and its cast: litgpt's QLoRA rows lie 24 h (Llama-2-7B) and
     * 27 h (Mistral-7B) bytes a token and layer above its LoRA rows; four bytes for each input are 23 h and 26 h. */
    if (job->train->framework == UMA_FRAMEWORK_LITGPT && job->states.quantised && !shared_is_kept)
        kept = uma_plus(kept, uma_times(4, width));
    return kept;
}

static const struct uma_linear *role_of(const struct uma_linear *linears, size_t n, enum uma_linear_role role) {
    for (size_t i = 0; i < n; i++)
        if (linears[i].role == role)
            return &linears[i];
    return NULL;
}

/* The flash kernel keeps q, k, v and its output (and a float per head); the plain one the scores of every pair as well, twice in 16 bits (softmax
 * and its dropout's input) and once in fp32. */
static void attention_kept(const struct uma_training_job *job, const struct uma_model_layer *layer, struct per_layer *into) {
    const struct uma_model *model = job->model;
    uint64_t e = job->element, head = layer->head_dim, value = layer->v_head_dim > 0 ? layer->v_head_dim : head;
    uint64_t kv_heads = layer->kv_heads > 0 ? layer->kv_heads : layer->heads;
    if (layer->mixer == UMA_MIXER_MLA) { /* expanded to full heads in training; the latents are kept as inputs of what expands them */
        head = uma_plus(model->qk_nope_dim, model->qk_rope_dim);
        kv_heads = layer->heads;
        into->kept = uma_plus(into->kept, uma_times(e, uma_plus(model->q_lora_rank, uma_times(2, model->kv_lora_rank))));
    }
    /* MistralFlashAttention2 repeats k and v to all heads before the kernel (transformers 4.3x to 4.47, modeling_mistral.py) */
    if (architecture_is(model, "mistral") && job->autocast && !job->older)
        kv_heads = layer->heads;
    uint64_t width = uma_plus(uma_times(layer->heads, uma_plus(head, value)), uma_times(kv_heads, uma_plus(head, value)));
    into->kept = uma_plus(into->kept, uma_times(e, width));
    into->kept = uma_plus(into->kept, uma_times(4, layer->heads));
    if (model->qk_norm) /* norm of each head: its input stays, before the rotation */
        into->kept = uma_plus(into->kept, uma_times(e, uma_times(uma_plus(layer->heads, kv_heads), head)));
    if (layer->output_gate)
        into->kept = uma_plus(into->kept, uma_times(2 * e, uma_times(layer->heads, value)));
    if (job->train->attention == UMA_ATTENTION_EAGER) {
        uint64_t pairs = uma_times(layer->heads, layer->window > 0 && layer->window < job->sequence ? layer->window : job->sequence);
        into->kept = uma_plus(into->kept, uma_times(uma_plus(4, 2 * e), pairs));
    }
}

/* Linear attention and Mamba: projections, convolution input and output, the gated output and its norm. The states that
 * chunked kernels keep every 64 tokens are not counted: a layer's state over 64 tokens is a small part of its projections. */
static void mixer_kept(const struct uma_training_job *job, const struct uma_linear *linears, size_t n, struct per_layer *into) {
    uint64_t in = 0, out = 0;
    for (size_t i = 0; i < n; i++) {
        if (linears[i].role == UMA_LINEAR_MIXER_IN || linears[i].role == UMA_LINEAR_MIXER_GATE)
            in = uma_plus(in, linears[i].out);
        else if (linears[i].role == UMA_LINEAR_MIXER_OUT)
            out = uma_plus(out, linears[i].in);
    }
    uint64_t width = uma_plus(uma_times(2, in), uma_times(3, out));
    into->kept = uma_plus(into->kept, uma_times(job->element, width));
}

static uint64_t feed_forward_parts(const struct uma_training_job *job, const struct uma_model_layer *layer) {
    /* gate, up and silu(gate); fused SwiGLU kernels and torch.compile compute the last again */
    if (!layer->ffn_gated)
        return 1;
    return job->train->framework == UMA_FRAMEWORK_UNSLOTH || job->train->compile == UMA_YES ? 2 : 3;
}

static void feed_forward_kept(const struct uma_training_job *job, const struct uma_model_layer *layer, const struct uma_linear *linears,
                              size_t n, struct per_layer *into) {
    uint64_t e = job->element, h = job->model->hidden, parts = feed_forward_parts(job, layer);
    uint64_t dense = layer->ffn == UMA_FFN_DENSE ? layer->ffn_size : layer->ffn == UMA_FFN_MOE ? layer->shared_ffn_size : 0;
    const struct uma_linear *down = role_of(linears, n, layer->ffn == UMA_FFN_MOE ? UMA_LINEAR_SHARED_DOWN : UMA_LINEAR_DOWN);
    into->kept = uma_plus(into->kept, uma_times(uma_times(e, parts), dense));
    into->temporary = uma_plus(into->temporary, uma_times(uma_times(e, layer->ffn_gated ? 3 : 2), dense));
    if (down)
        into->down = uma_plus(into->down, input_kept(job, down, false, dense));
    if (layer->ffn != UMA_FFN_MOE)
        return;
    /* each token goes through experts_per_token experts: gathered inputs, the experts' inner tensors, their outputs before weighting. They are
     * worked on one expert (or one group) after the other: gradients in flight are those of the busiest, twice the mean share. */
    uint64_t active = layer->experts_per_token > 0 ? layer->experts_per_token : 1, experts = layer->experts > 0 ? layer->experts : 1;
    uint64_t inner = uma_times(active, layer->ffn_size), width = layer->expert_input > 0 ? layer->expert_input : h;
    into->kept = uma_plus(into->kept, uma_times(uma_times(e, parts), inner));
    into->kept = uma_plus(into->kept, uma_times(2 * e, uma_times(active, width)));
    into->temporary = uma_plus(into->temporary, uma_divide_up(uma_times(uma_times(3 * e, inner), experts < 2 ? 1 : 2), experts));
    const struct uma_linear *expert = role_of(linears, n, UMA_LINEAR_EXPERT_DOWN);
    if (expert)
        into->down = uma_plus(into->down, input_kept(job, expert, false, inner));
    into->kept = uma_plus(into->kept, uma_times(8, experts)); /* the router's logits and probabilities in fp32 */
}

/*
 * Bytes for each hidden unit that the norms of a layer keep beside their output. RMSNorm in plain torch squares an fp32 copy and keeps it; where
 * its weights are trained, the normalised states as well, in 16 bits (transformers, torchtune: they are cast before the product) or in fp32
 * (litgpt/model.py casts after it). LayerNorm is one kernel and keeps its input in 16 bits. Fused kernels keep the residual stream, counted
 * elsewhere; compiled code drops the fp32 copies, but not the normalised states that a trained weight's gradient asks for: torchtune's two rows of
 * Llama 3.2 3B with and without compile are 13.7 h bytes a token and layer apart, of which 8 h are these copies and 5.3 h the product of SiLU.
 */
static uint64_t norm_kept(const struct uma_training_job *job) {
    uint64_t norms = job->model->norms_per_layer > 2 ? job->model->norms_per_layer : 2;
    bool compiled =
        job->train->compile == UMA_YES && job->train->loss != UMA_LOSS_FUSED_LINEAR && job->train->framework != UMA_FRAMEWORK_UNSLOTH;
    if (job->fused_kernels && !compiled)
        return 0;
    if (job->model->details.norm_bias)
        return job->fused_kernels ? 0 : uma_times(norms, job->element);
    uint64_t normalised = job->train->method != UMA_METHOD_FULL ? 0 : job->train->framework == UMA_FRAMEWORK_LITGPT ? 4 : job->element;
    return uma_times(norms, (compiled ? 0 : 4) + normalised);
}

static struct per_layer one_layer(const struct uma_training_job *job, uint32_t index) {
    const struct uma_model *model = job->model;
    const struct uma_model_layer *layer = &model->layers[index];
    struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
    size_t n = uma_model_linears(model, index, linears);
    struct per_layer sum = { 0 };
    uint64_t e = job->element, h = model->hidden;
    bool full = job->train->method == UMA_METHOD_FULL;

    if (layer->mixer == UMA_MIXER_ATTENTION || layer->mixer == UMA_MIXER_MLA)
        attention_kept(job, layer, &sum);
    else if (layer->mixer != UMA_MIXER_NONE && layer->mixer != UMA_MIXER_LINEAR)
        mixer_kept(job, linears, n, &sum);
    feed_forward_kept(job, layer, linears, n, &sum);

    if (layer->mixer != UMA_MIXER_NONE && layer->ffn != UMA_FFN_NONE)
        sum.kept = uma_plus(sum.kept, uma_times(job->residual, h)); /* the residual stream between the two halves */
    /* inputs of linears: the normalised hidden states */
    bool attention_in = false, feed_in = false;
    for (size_t i = 0; i < n; i++) {
        enum uma_linear_role role = linears[i].role;
        if (role == UMA_LINEAR_DOWN || role == UMA_LINEAR_SHARED_DOWN || linears[i].copies > 1 || role == UMA_LINEAR_EXPERT_GATE ||
            role == UMA_LINEAR_EXPERT_UP || role == UMA_LINEAR_EXPERT_DOWN || role == UMA_LINEAR_ROUTER)
            continue;
        if (full && (role == UMA_LINEAR_O || role == UMA_LINEAR_MIXER_OUT))
            continue; /* the kernel's output, kept already */
        bool *kept = linears[i].class_ == UMA_CLASS_MLP ? &feed_in : &attention_in;
        bool normed = linears[i].in == h && role != UMA_LINEAR_O && role != UMA_LINEAR_MIXER_OUT; /* those two take what the mixer gave */
        sum.kept = uma_plus(sum.kept, input_kept(job, &linears[i], *kept && normed, linears[i].in));
        *kept = *kept || normed;
    }
    sum.kept = uma_plus(sum.kept, uma_times(norm_kept(job), h));
    /* gradients of the residual stream, of the block's output and of its input; an adapter adds one of its own to be summed */
    uint64_t flying = full ? uma_divide_up(uma_times(5 * e, h), 2) : uma_times(3 * e, h);
    if (!full && !job->states.quantised)
        flying = uma_plus(flying, uma_times(e, h));
    sum.temporary = uma_plus(sum.temporary, flying);
    return sum;
}

void uma_training_activations_of(struct uma_training_job *job) {
    struct uma_training_activations *activations = &job->activations;
    const struct uma_model *model = job->model;
    *activations = (struct uma_training_activations){ .checkpoint = uma_times(job->residual, model->hidden) };
    for (uint32_t i = 0; i < model->layer_count; i++) {
        struct per_layer layer = one_layer(job, i);
        activations->checkpoints = uma_plus(activations->checkpoints, activations->checkpoint);
        activations->saved = uma_plus(activations->saved, uma_plus(uma_plus(layer.kept, layer.down), activations->checkpoint));
        uint64_t working = uma_plus(layer.kept, layer.temporary);
        if (working >= activations->working) {
            activations->working = working;
            activations->temporary = layer.temporary;
            activations->widest = i;
            activations->saved_layer = uma_plus(uma_plus(layer.kept, layer.down), activations->checkpoint);
        }
    }
    /*
     * FSDP with frozen parameters frees a unit's weights from a hook on the gradients of its inputs (register_multi_grad_hook in
     * torch/distributed/fsdp/_runtime_utils.py), which holds these gradients: at the end of backward one per layer. fms-acceleration's LoRA rows
     * on 2 and 4 GPUs show 60 h bytes beyond the one-GPU rows for 32 layers (2 h x 30), full fine-tuning none.
     */
    if (job->train->shard == UMA_SHARD_FSDP && job->train->method != UMA_METHOD_FULL && model->layer_count > 2)
        activations->retained = uma_times(uma_times(job->element, model->hidden), model->layer_count - 2);
}
