/* SPDX-License-Identifier: MIT */
/*
 * torchtitan and jobs of its kind: FSDP2 over fp32 parameters, 16-bit compute, tensor, pipeline and context parallelism beside it.
 * Its published runs print the most memory *reserved* (components/metrics.py); gaps of the allocator are therefore a term here.
 */
#include "plan/sharding.h"
#include "plan/training.h"

#include "base/error.h"

#define MiB UINT64_C(1048576)

static const char source_fsdp[] = "PyTorch FSDP2 (fully_shard) documentation";
static const char source_ac[] = "torchtitan distributed/activation_checkpoint.py";
static const char source_loss[] = "torchtitan components/loss.py; PyTorch log_softmax";
static const char source_runs[] = "torchtitan benchmarks/llama3_h100_202412_torchtitan.md";

struct titan {
    const struct uma_model *model;
    const struct uma_train *train;
    struct uma_sharding sharding;
    uint64_t shards; /* FSDP's: data-parallel and context-parallel ranks */
    uint64_t tokens; /* of a micro batch on this rank */
    bool compiled;
    uint64_t table;                  /* embedding or head on this tensor-parallel rank, parameters */
    uint64_t params, experts, layer; /* of the stage; of its largest layer */
    uint32_t layers;
};

/* Bytes per token that a layer keeps when nothing is computed again. A compiled layer does not keep silu's result beside its product. */
static double layer_whole(const struct titan *t, const struct uma_model_layer *l) {
    double hidden = t->model->hidden, q = (double)l->heads * l->head_dim, kv = 2.0 * l->kv_heads * l->head_dim;
    double ffn = l->ffn == UMA_FFN_MOE ? (double)l->ffn_size * l->experts_per_token + (double)l->shared_ffn_size : (double)l->ffn_size;
    double matrices = l->ffn_gated ? (t->compiled ? 3 : 4) : 2;
    double slots = l->ffn == UMA_FFN_MOE ? 2.0 * l->experts_per_token * hidden : 0;
    double attention = l->mixer == UMA_MIXER_NONE ? 0 : 2 * (t->compiled ? q + kv : 2 * (q + kv)) + 2 * q + 4.0 * l->heads;
    return 2 * (4 * hidden + slots) + attention + 2 * matrices * ffn;
}

/*
 * Operator-wise selective checkpointing keeps the layer's input, the result of attention and of every second matrix multiplication: of q, v, the
 * first of the feed-forward and its last.
 */
static double layer_selective(const struct titan *t, const struct uma_model_layer *l) {
    double hidden = t->model->hidden, q = (double)l->heads * l->head_dim, v = (double)l->kv_heads * l->head_dim;
    double slots = l->ffn == UMA_FFN_MOE ? l->experts_per_token : 1, ffn = slots * (double)l->ffn_size + (double)l->shared_ffn_size;
    double bytes = 2 * (hidden + 2 * q + v + ffn + hidden * slots) + 4.0 * l->heads;
    /* The compiler keeps fewer: fitted on the 8B runs with and without it at 8 GPUs, checked on those at 128. */
    return t->compiled ? .84 * bytes : bytes;
}

static struct titan titan_of(const struct uma_model *model, const struct uma_train *train, uint32_t stage) {
    struct titan t = { .model = model, .train = train, .sharding = uma_sharding_of(train), .compiled = train->compile == UMA_YES };
    uint64_t seq = train->seq > 0 ? train->seq : 2048;
    /* `batch` is cut into micro batches of one sequence by a pipeline (torchtitan pipeline_parallel_microbatch_size 1) */
    uint64_t batch = train->batch > 0 && t.sharding.pp == 1 ? train->batch : 1;
    t.tokens = uma_divide_up(train->tokens > 0 ? train->tokens : uma_times(batch, seq), t.sharding.cp);
    t.shards = train->shard == UMA_SHARD_DDP || train->shard == UMA_SHARD_TP ? 1 : uma_times(t.sharding.dp, t.sharding.cp);
    t.table = uma_divide_up(uma_times(model->vocab, model->hidden), t.sharding.tp);
    for (uint32_t i = 0; i < model->layer_count; i++) {
        if (!uma_sharding_has_layer(&t.sharding, model->layer_count, i, stage))
            continue;
        struct uma_rank_params p = uma_sharding_layer_params(&t.sharding, model, i);
        uint64_t both = uma_plus(p.dense, p.experts);
        t.params = uma_plus(t.params, p.dense);
        t.experts = uma_plus(t.experts, p.experts);
        t.layer = both > t.layer ? both : t.layer;
        t.layers++;
    }
    if (stage == 1)
        t.params = uma_plus(t.params, t.table);
    if (stage == t.sharding.pp && !(model->tied && stage == 1))
        t.params = uma_plus(t.params, t.table);
    return t;
}

static uint64_t sharded(const struct titan *t, uint64_t per) {
    uint64_t expert_shards = t->shards > t->sharding.ep ? t->shards / t->sharding.ep : 1;
    return uma_plus(uma_divide_up(uma_times(t->params, per), t->shards),
                    uma_divide_up(uma_times(t->experts, per), t->sharding.ep > 1 ? expert_shards : t->shards));
}

static void add_states(struct uma_estimate *estimate, const struct titan *t) {
    unsigned long long n = uma_plus(t->params, t->experts), shards = t->shards;
    uint64_t per = t->train->master == UMA_NO ? 2 : 4; /* parameters, gradients and states are all of the parameters' format */
    unsigned long long each = per;
    uma_estimate_add(estimate, UMA_TERM_WEIGHTS, sharded(t, per), .01, .01, source_fsdp, "sharded parameters", "%llu / %llu x %llu B", n,
                     shards, each)
        ->between_steps = true;
    uma_estimate_add(estimate, UMA_TERM_GRADIENTS, sharded(t, per), .01, .01, source_fsdp, "sharded gradients", "%llu / %llu x %llu B", n,
                     shards, each);
    bool none = t->train->optimizer == UMA_OPTIMIZER_SGD, one = t->train->optimizer == UMA_OPTIMIZER_SGD_MOMENTUM;
    bool eight_bit = t->train->optimizer == UMA_OPTIMIZER_ADAMW_8BIT;
    uint64_t states = none ? 0 : one ? per : eight_bit ? 2 : 2 * per;
    uma_estimate_add(estimate, UMA_TERM_OPTIMIZER, sharded(t, states), .01, .01, source_fsdp, "sharded optimizer states",
                     "%llu / %llu x %llu B", n, shards, (unsigned long long)states)
        ->between_steps = true;
    if (t->sharding.pp > 1) {
        /* a stage stays gathered over its micro batches, and its gradients are reduced once, after the last */
        uint64_t all = uma_plus(t->params, t->experts);
        uma_estimate_add(estimate, UMA_TERM_COMPUTE_BUFFERS, uma_times(all, 6), .4, .1, source_fsdp, "gathered stage and its gradients",
                         "%llu x (2 B + 4 B)", n);
        return;
    }
    if (t->shards == 1)
        return;
    /* two layers gathered (one ahead), one layer's gradient in 16 bits and as the reduction's fp32 input; the head likewise */
    uint64_t bytes = uma_plus(uma_times(t->layer, 4 + 6), uma_times(t->table, 8));
    uma_estimate_add(estimate, UMA_TERM_COMPUTE_BUFFERS, bytes, .3, .3, source_fsdp, "gathered layers and head",
                     "%llu x (2 x 2 B + 6 B) + %llu x 8 B", (unsigned long long)t->layer, (unsigned long long)t->table);
}

static void add_activations(struct uma_estimate *estimate, const struct titan *t, uint32_t stage) {
    const struct uma_train *train = t->train;
    const struct uma_model *m = t->model;
    bool full = train->checkpointing == UMA_CHECKPOINTING_ON || train->checkpointing == UMA_CHECKPOINTING_OFFLOAD;
    bool none = train->checkpointing == UMA_CHECKPOINTING_OFF;
    double bytes = 0, largest = 0;
    for (uint32_t i = 0; i < m->layer_count; i++) {
        if (!uma_sharding_has_layer(&t->sharding, m->layer_count, i, stage))
            continue;
        const struct uma_model_layer *l = &m->layers[i];
        double whole = layer_whole(t, l);
        largest = whole > largest ? whole : largest;
        bytes += full ? 2.0 * m->hidden : none ? whole : layer_selective(t, l);
    }
    uint64_t passes = t->sharding.pp - stage + 1; /* 1F1B */
    if (t->sharding.stages > 1)
        passes = 2 * (uint64_t)(t->sharding.pp - stage) + (uint64_t)(t->sharding.stages - 1) * t->sharding.pp + 1;
    uint64_t kept = uma_scale(uma_times(t->tokens, passes), bytes / t->sharding.tp) / t->sharding.stages;
    unsigned long long tokens = t->tokens;
    uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, kept, .1, .12, source_ac,
                     full ? "inputs of checkpointed layers" : "activations of layers",
                     "%llu tokens x %llu passes x %.0f B in %u layers / tp %u / %u chunks", tokens, (unsigned long long)passes, bytes,
                     t->layers, t->sharding.tp, t->sharding.stages);
    uint64_t logits = 0;
    if (stage == t->sharding.pp) {
        /*
         * 16-bit logits, their fp32 copy, log_softmax's result and the gradient: 2 + 4 + 4 + 4 B; a compiled loss makes the fp32 steps on the
         * fly: logits, gradient and one more in 16 bits.
         */
        unsigned per = train->loss == UMA_LOSS_FUSED_LINEAR || train->loss == UMA_LOSS_CHUNKED             ? 1
                       : train->loss == UMA_LOSS_FUSED || (train->loss == UMA_LOSS_DEFAULT && t->compiled) ? 6
                                                                                                           : 14;
        logits = uma_times(uma_times(t->tokens, m->vocab), per) / t->sharding.tp;
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, logits, .08, .08, source_loss, "logits and loss",
                         "%llu tokens x %llu x %u B / tp %u", tokens, (unsigned long long)m->vocab, per, t->sharding.tp);
    }
    if (!none) {
        uint64_t again = uma_minus(uma_scale(t->tokens, largest / t->sharding.tp), logits);
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, again, .2, .3, source_ac, "layer being computed again",
                         "%llu tokens x %.0f B / tp %u, beyond the logits", tokens, largest, t->sharding.tp);
    }
    if (t->sharding.tp >
        1) /* sequence parallel: gathered inputs of both column-parallel parts, sums to be scattered behind both, a gradient of either kind */
        uma_estimate_add(estimate, UMA_TERM_COMPUTE_BUFFERS, uma_times(uma_times(t->tokens, m->hidden), 12), .4, .3, source_runs,
                         "gathered sequence", "%llu tokens x %u x 6 x 2 B", tokens, m->hidden);
}

static struct uma_estimate estimate_stage(const struct uma_model *model, const struct uma_train *train, uint32_t stage) {
    struct uma_estimate estimate = { 0 };
    struct titan t = titan_of(model, train, stage);
    add_states(&estimate, &t);
    add_activations(&estimate, &t, stage);
    uma_estimate_sum(&estimate);
    uma_estimate_add(&estimate, UMA_TERM_OVERHEAD, uma_plus(estimate.total / 40, 64 * MiB), .8, 1.5, source_runs, "gaps and workspaces",
                     "1/40 of the above + 64 MiB");
    uma_estimate_sum(&estimate);
    estimate.reserved = estimate.total;
    estimate.context = uma_plus(600 * MiB, t.sharding.ranks > 1 ? 400 * MiB : 0);
    estimate.device = uma_plus(estimate.reserved, estimate.context);
    estimate.device_high = uma_plus(uma_scale(estimate.high, 1.1), uma_times(estimate.context, 2));
    if (t.sharding.pp > 1)
        uma_estimate_warn(&estimate, "this is a rank of pipeline stage %u of %u%s", stage, t.sharding.pp,
                          train->pipeline_stage == 0 ? ", the largest" : "");
    return estimate;
}

int uma_plan_train_titan(const struct uma_model *model, const struct uma_train *train, struct uma_estimate *ret_estimate,
                         struct uma_error *err) {
    uint32_t pp = train->pp > 0 ? train->pp : 1;
    if (train->pipeline_stage > pp)
        return uma_error_text(err, EINVAL, "stage %u: the pipeline has %u", train->pipeline_stage, pp);
    uint32_t first = train->pipeline_stage > 0 ? train->pipeline_stage : 1;
    struct uma_estimate largest = estimate_stage(model, train, first);
    if (train->pipeline_stage == 0 && pp > 1) {
        struct uma_estimate last = estimate_stage(model, train, pp);
        if (last.total > largest.total)
            largest = last;
    }
    largest.params_trainable = uma_model_params(model);
    *ret_estimate = largest;
    return 0;
}
