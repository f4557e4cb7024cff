/* SPDX-License-Identifier: MIT */
#include "plan/training_megatron.h"

struct uma_megatron_job uma_megatron_job_of(const struct uma_model *model, const struct uma_train *train) {
    struct uma_megatron_job job = { .model = model, .train = train, .sharding = uma_sharding_of(train) };
    uint64_t seq = train->seq > 0 ? train->seq : 2048;
    uint64_t tokens = train->tokens > 0 ? train->tokens : uma_times(train->batch > 0 ? train->batch : 1, seq);
    if (train->objective == UMA_OBJECTIVE_DPO || train->objective == UMA_OBJECTIVE_ORPO)
        tokens = uma_times(tokens, 2); /* the chosen and the rejected answer */
    job.seq = seq;
    job.tokens = uma_divide_up(tokens, job.sharding.cp);
    job.sequence_shards = train->sequence_parallel ? job.sharding.tp : 1;
    job.transformer_engine = train->transformer_engine != UMA_NO;
    job.scores_kept =
        (train->attention == UMA_ATTENTION_EAGER || !job.transformer_engine) && train->checkpointing != UMA_CHECKPOINTING_SELECTIVE;
    /* Megatron's arguments default to 0.1 for hidden states and attention; configurations of gated models all set 0. */
    bool gated = model->layer_count > 0 && model->layers[model->layer_count - 1].ffn_gated;
    job.dropout = train->dropout == UMA_MAYBE ? !gated && model->details.norm_bias : train->dropout == UMA_YES;
    job.fp8 = train->compute == UMA_FORMAT_FP8 || train->compute == UMA_FORMAT_MXFP8 || train->compute == UMA_FORMAT_FP8_BLOCK128;
    job.half = train->compute == UMA_FORMAT_F16;
    return job;
}

static bool recomputed(const struct uma_megatron_job *job, uint32_t part) {
    if (job->train->checkpointing != UMA_CHECKPOINTING_SELECTIVE)
        return false;
    uint32_t parts = job->train->recompute_modules > 0 ? job->train->recompute_modules : (uint32_t)UMA_RECOMPUTE_ATTENTION;
    return (parts & part) != 0;
}

/* A norm: its input is kept in 16 bits; its output is kept as the next matrix's input, in the format of the multiplication. */
static double norm_bytes(const struct uma_megatron_job *job, double hidden) {
    double output = job->fp8 ? 1 : 2;
    if (recomputed(job, UMA_RECOMPUTE_NORM))
        output = 0;
    return (2 + output) * hidden / job->sequence_shards;
}

/* Bytes per token of softmax attention or MLA. */
static double attention_bytes(const struct uma_megatron_job *job, const struct uma_model_layer *layer) {
    const struct uma_model *m = job->model;
    double tp = job->sharding.tp, heads = layer->heads, bytes = norm_bytes(job, m->hidden);
    double kv_parts = layer->kv_heads > 0 && layer->kv_heads < job->sharding.tp ? layer->kv_heads : tp;
    double linear = job->fp8 ? 1 : 2; /* the input of a matrix multiplication */
    double q, v;
    if (layer->mixer == UMA_MIXER_MLA) {
        double key = (double)m->qk_nope_dim + m->qk_rope_dim, value = layer->v_head_dim;
        q = heads * key;
        v = heads * value;
        /* the compressed q and kv before and after their norms */
        bytes += (4.0 * m->q_lora_rank + 4.0 * m->kv_lora_rank + 2.0 * m->qk_rope_dim) / job->sequence_shards;
        if (!recomputed(job,
                        UMA_RECOMPUTE_MLA_UP)) /* q and k with their rotary parts joined, and kv as it left its matrix, beside k and v */
            bytes += 2 * (2 * q + v + heads * (m->qk_nope_dim + value)) / tp;
    } else {
        double value = layer->v_head_dim > 0 ? layer->v_head_dim : layer->head_dim;
        q = heads * layer->head_dim;
        v = heads * value;
        bytes += 2 * q * (layer->output_gate ? 2 : 1) / tp + 2 * layer->kv_heads * (layer->head_dim + value) / kv_parts;
    }
    if (job->scores_kept) /* softmax, and with dropout its mask (1 byte) and its result: 5 a s (arXiv:2205.05198) */
        bytes += (job->dropout ? 5.0 : 2.0) * heads * (double)job->seq / tp;
    else /* one fp32 of the softmax statistics per head and token */
        bytes += 4 * heads / tp;
    bytes += (linear == 2 ? 2 : 3) * v / tp; /* attention's result, which the output matrix reads (8-bit: both are kept) */
    if (job->dropout)
        bytes += m->hidden / (double)job->sequence_shards;
    return bytes;
}

static double dense_bytes(const struct uma_megatron_job *job, const struct uma_model_layer *layer) {
    double linear = job->fp8 ? 1 : 2, ffn = (double)layer->ffn_size, bytes = norm_bytes(job, job->model->hidden);
    if (recomputed(job, UMA_RECOMPUTE_MLP))
        return bytes;
    bytes += (2.0 * (layer->ffn_gated ? 2 : 1) + linear) * ffn / job->sharding.tp;
    if (job->dropout)
        bytes += job->model->hidden / (double)job->sequence_shards;
    return bytes;
}

/* Bytes per token that follow the routed tokens: what is sent, what experts read, compute and give back. */
static double routed_bytes(const struct uma_megatron_job *job, const struct uma_model_layer *layer) {
    if (recomputed(job, UMA_RECOMPUTE_MOE))
        return 0;
    double hidden = layer->expert_input > 0 ? layer->expert_input : job->model->hidden, ffn = (double)layer->ffn_size;
    double linear = job->fp8 ? 1 : 2;
    double slot = 2 * hidden                                  /* permuted */
                  + linear * hidden * job->sharding.expert_tp /* the experts' input, gathered over their tensor-parallel ranks */
                  + 2 * hidden                                /* their result, for the gradient of the router's weights */
                  + 2 * ffn * (layer->ffn_gated ? 2 : 1);     /* of the first matrix; ranks x a part of each = the whole */
    if (!recomputed(job, UMA_RECOMPUTE_EXPERT_ACTIVATION))
        slot += linear * ffn + (layer->ffn_gated ? 0 : 2 * ffn); /* times the router's weight: a fused step only for gated activations */
    return slot * layer->experts_per_token / job->sequence_shards;
}

static double mixture_bytes(const struct uma_megatron_job *job, const struct uma_model_layer *layer) {
    double linear = job->fp8 ? 1 : 2;
    double bytes = norm_bytes(job, job->model->hidden);
    bytes += 8.0 * layer->experts / job->sequence_shards; /* fp32 logits and weights */
    if (!recomputed(job, UMA_RECOMPUTE_MOE) && !recomputed(job, UMA_RECOMPUTE_SHARED_EXPERTS))
        bytes += (2.0 * (layer->ffn_gated ? 2 : 1) + linear) * (double)layer->shared_ffn_size / job->sharding.tp;
    if (job->dropout)
        bytes += job->model->hidden / (double)job->sequence_shards;
    return bytes + routed_bytes(job, layer);
}

/* Mamba 2: in_proj's result, the convolved part of it, the scan's result and its gated norm. */
static double mamba_bytes(const struct uma_megatron_job *job) {
    const struct uma_model *m = job->model;
    double inner = (double)m->ssm_inner, states = 2.0 * m->ssm_groups * m->ssm_state;
    double projected = 2 * inner + states + m->ssm_heads, convolved = inner + states;
    return norm_bytes(job, m->hidden) + 2 * (projected + convolved + 2 * inner) / job->sharding.tp;
}

static double layer_bytes(const struct uma_megatron_job *job, const struct uma_model_layer *layer) {
    double bytes = 0;
    switch (layer->mixer) {
    case UMA_MIXER_NONE:
        break;
    case UMA_MIXER_ATTENTION:
    case UMA_MIXER_MLA:
        bytes += attention_bytes(job, layer);
        break;
    case UMA_MIXER_MAMBA1:
    case UMA_MIXER_MAMBA2:
        bytes += mamba_bytes(job);
        break;
    case UMA_MIXER_GATED_DELTA:
    case UMA_MIXER_KDA:
    case UMA_MIXER_LIGHTNING: {
        const struct uma_model *m = job->model;
        double key = (double)m->linear_key_heads * m->linear_key_dim, value = (double)m->linear_value_heads * m->linear_value_dim;
        /* q, k, v before and after the convolution, the gate, the result and its norm */
        bytes += norm_bytes(job, m->hidden) + 2 * (2 * (2 * key + value) + 3 * value) / job->sharding.tp;
        break;
    }
    case UMA_MIXER_LINEAR:
        bytes += norm_bytes(job, job->model->hidden);
        break;
    }
    if (layer->ffn == UMA_FFN_DENSE)
        bytes += dense_bytes(job, layer);
    else if (layer->ffn == UMA_FFN_MOE)
        bytes += mixture_bytes(job, layer);
    else if (layer->ffn == UMA_FFN_LINEAR)
        bytes += norm_bytes(job, job->model->hidden);
    return bytes;
}

uint64_t uma_megatron_layer_activations(const struct uma_megatron_job *job, uint32_t layer) {
    return uma_scale(job->tokens, layer_bytes(job, &job->model->layers[layer]));
}

uint64_t uma_megatron_expert_activations(const struct uma_megatron_job *job, uint32_t layer) {
    const struct uma_model_layer *l = &job->model->layers[layer];
    return l->ffn == UMA_FFN_MOE ? uma_scale(job->tokens, routed_bytes(job, l)) : 0;
}
