/* SPDX-License-Identifier: MIT */
#include "plan/training_megatron.h"
#include "plan/training.h"

#include "base/error.h"

#define MiB UINT64_C(1048576)
#define KiB UINT64_C(1024)

/* megatron/training/arguments.py: --make-vocab-size-divisible-by defaults to 128. */
enum { VOCAB_MULTIPLE = 128 };

static const char source_activations[] = "arXiv:2205.05198, tensor by tensor";
static const char source_loss[] = "Megatron-LM tensor_parallel/cross_entropy.py";
static const char source_schedule[] = "Megatron-LM pipeline_parallel/schedules.py";
static const char source_workspace[] = "PyTorch CUDABlas.cpp, TransformerEngine module/base.py";

static uint64_t vocab_of(const struct uma_megatron_job *job) {
    uint32_t multiple = job->train->vocab_multiple > 0 ? job->train->vocab_multiple : (uint32_t)VOCAB_MULTIPLE;
    return uma_sharding_vocab(job->model->vocab, multiple, job->sharding.tp);
}

static void add_layer(struct uma_megatron_stage *stage, const struct uma_megatron_job *job, uint32_t layer) {
    struct uma_rank_params params = uma_sharding_layer_params(&job->sharding, job->model, layer);
    struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
    uint64_t bytes = uma_megatron_layer_activations(job, layer);
    stage->layers++;
    stage->matrices += (uint32_t)uma_model_linears(job->model, layer, linears);
    stage->dense = uma_plus(stage->dense, params.dense);
    stage->experts = uma_plus(stage->experts, params.experts);
    stage->activations = uma_plus(stage->activations, bytes);
    if (job->train->method != UMA_METHOD_FULL)
        stage->adapter =
            uma_plus(stage->adapter, uma_sharding_layer_adapter(&job->sharding, job->model, layer,
                                                                job->train->rank > 0 ? job->train->rank : 16, job->train->targets));
    stage->routed = uma_plus(stage->routed, uma_megatron_expert_activations(job, layer));
    if (bytes > stage->largest)
        stage->largest = bytes;
}

static struct uma_megatron_stage stage_of(const struct uma_megatron_job *job, uint32_t number) {
    const struct uma_model *m = job->model;
    struct uma_megatron_stage stage = { .number = number, .first = number == 1, .last = number == job->sharding.pp };
    for (uint32_t i = 0; i < m->layer_count; i++)
        if (uma_sharding_has_layer(&job->sharding, m->layer_count, i, number))
            add_layer(&stage, job, i);
    /* A prediction module: a layer like the last, the joining matrix (2 h x h) and three norms; on the last stage. */
    for (uint32_t i = 0; stage.last && i < m->mtp_layers && i < 8; i++) {
        add_layer(&stage, job, m->layer_count - 1);
        stage.dense = uma_plus(
            stage.dense, uma_plus(uma_divide_up(uma_times(2 * (uint64_t)m->hidden, m->hidden), job->sharding.tp), 3 * (uint64_t)m->hidden));
    }
    stage.matrices_params = uma_plus(stage.dense, stage.experts);
    uint64_t table = uma_divide_up(uma_times(vocab_of(job), m->hidden), job->sharding.tp);
    if (stage.first)
        stage.dense = uma_plus(stage.dense, uma_plus(table, uma_times(m->details.positions, m->hidden)));
    if (stage.last) /* with tied weights a pipeline's last stage has a copy of the table, trained and reduced with the first's */
        stage.dense =
            uma_plus(stage.dense, uma_plus(m->tied && stage.first ? 0 : table, (m->details.norm_bias ? 2 : 1) * (uint64_t)m->hidden));
    return stage;
}

/* ---- what libraries keep ------------------------------------------------------------------------------------- */

static void add_workspaces(struct uma_estimate *estimate, const struct uma_megatron_job *job, bool mixture) {
    uint32_t capability = job->train->compute_capability > 0 ? job->train->compute_capability : 121;
    bool large = job->train->deterministic == UMA_YES || capability / 10 == 9;
    uint64_t torch_each = large ? 32 * MiB : 8320 * KiB; /* one for the forward thread, one for autograd's */
    uma_estimate_add(estimate, UMA_TERM_OVERHEAD, 2 * torch_each, .1, 1, source_workspace, "cuBLAS workspaces", "2 threads x %llu KiB",
                     (unsigned long long)(torch_each / KiB))
        ->between_steps = true;
    if (!job->transformer_engine)
        return;
    uint64_t each = capability >= 90 ? 32 * MiB : 4 * MiB;
    uint64_t streams = mixture ? 5 : 1; /* grouped multiplications run on four streams of their own */
    uma_estimate_add(estimate, UMA_TERM_OVERHEAD, streams * each, .2, .5, source_workspace, "TransformerEngine workspaces",
                     "%llu streams x %llu MiB", (unsigned long long)streams, (unsigned long long)(each / MiB))
        ->between_steps = true;
}

/* Tensors that outlive a step: the last messages of the pipeline, and the scores' buffer of Megatron's own attention. */
static void add_kept(struct uma_estimate *estimate, const struct uma_megatron_job *job) {
    uint64_t message = uma_times(uma_times(job->tokens, job->model->hidden), 2) / job->sequence_shards;
    if (job->sharding.pp > 1) {
        uint64_t count = 2 * (uint64_t)job->sharding.stages;
        uma_estimate_add(estimate, UMA_TERM_OVERHEAD, uma_times(message, count), .5, .5, source_schedule, "pipeline messages",
                         "%llu tensors of %llu tokens x %u x 2 B", (unsigned long long)count, (unsigned long long)job->tokens,
                         job->model->hidden)
            ->between_steps = true;
    }
    uint32_t heads = 0;
    for (uint32_t i = 0; i < job->model->layer_count; i++)
        if (job->model->layers[i].heads > heads)
            heads = job->model->layers[i].heads;
    if (!job->transformer_engine)
        uma_estimate_add(estimate, UMA_TERM_COMPUTE_BUFFERS,
                         uma_times(uma_times(job->tokens, job->seq), 2 * (uint64_t)heads) / job->sharding.tp, .05, .05,
                         "Megatron-LM transformer/dot_product_attention.py", "buffer of attention scores",
                         "%llu tokens x %llu x %u heads x 2 B / tp %u", (unsigned long long)job->tokens, (unsigned long long)job->seq,
                         heads, job->sharding.tp)
            ->between_steps = true;
}

/* ---- activations --------------------------------------------------------------------------------------------- */

/* Passes of chunks between forward and backward at once: 1F1B, or interleaved (arXiv:2104.04473). */
static uint64_t in_flight(const struct uma_megatron_job *job, const struct uma_megatron_stage *stage) {
    uint64_t after = job->sharding.pp - stage->number, chunks = job->sharding.stages;
    uint64_t group = job->train->microbatch_group > 0 ? job->train->microbatch_group : job->sharding.pp;
    uint64_t count = chunks > 1 ? 2 * after + (chunks - 1) * group + 1 : after + 1;
    /* one micro batch per step leaves a pipeline idle: taken for a number that was not given */
    uint64_t all = job->train->accumulation > 1 ? uma_times(job->train->accumulation, chunks) : count;
    return count < all ? count : all;
}

static void add_activations(struct uma_estimate *estimate, const struct uma_megatron_job *job, const struct uma_megatron_stage *stage) {
    const struct uma_model *m = job->model;
    uint64_t passes = in_flight(job, stage), chunks = job->sharding.stages;
    unsigned long long tokens = job->tokens;
    uint64_t residual = uma_times(job->tokens, 2 * (uint64_t)m->hidden) / job->sequence_shards;
    uint64_t vocab = vocab_of(job), logits = 0, head = 0;
    if (stage->last) {
        /*
         * Logits in 16 bits leave as fp32, become the softmax in place (4 B, kept), and their gradient is cast back: 6 B. The compiled ("native")
         * fusion keeps one fp32 step more: 10 B, and older compilers two. Every prediction module's softmax waits for its backward pass.
         */
        uint64_t each = job->train->loss == UMA_LOSS_FUSED_LINEAR ? 0 : job->train->loss == UMA_LOSS_FUSED ? 10 : 6;
        uint64_t all = each == 0 ? 0 : each + 4 * (uint64_t)m->mtp_layers;
        logits = uma_times(uma_times(job->tokens, vocab), all) / job->sharding.tp;
        head = 2 * residual + (job->dropout && stage->first ? residual / 2 : 0);
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, logits, .08, each == 10 ? .4 : .12, source_loss, "logits, softmax and gradient",
                         "%llu tokens x %llu vocabulary x %llu B / tp %u", tokens, (unsigned long long)vocab, (unsigned long long)all,
                         job->sharding.tp);
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, head, .5, 1, source_activations, "final norm and its input",
                         "%llu tokens x %u x 4 B / %u", tokens, m->hidden, job->sequence_shards);
    }
    bool full = job->train->checkpointing == UMA_CHECKPOINTING_ON || job->train->checkpointing == UMA_CHECKPOINTING_OFFLOAD;
    if (full) {
        uint64_t every = job->train->recompute_layers > 0 ? job->train->recompute_layers : 1;
        uint64_t kept = uma_divide_up(uma_divide_up(stage->layers, chunks), every);
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, uma_times(uma_times(kept, residual), passes), .05, .1, source_activations,
                         "inputs of checkpointed layers", "%llu inputs x %llu passes x %llu tokens x %u x 2 B / %u",
                         (unsigned long long)kept, (unsigned long long)passes, tokens, m->hidden, job->sequence_shards);
        /* recomputed layers and the logits are never there at once: the larger counts */
        uint64_t again = uma_minus(uma_times(stage->largest, every), uma_plus(logits, head));
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, again, .2, .3, source_activations, "layers being computed again",
                         "%llu layers of %llu B, beyond the logits", (unsigned long long)every, (unsigned long long)stage->largest);
        return;
    }
    uint64_t all = uma_times(stage->activations, passes) / chunks, routed = uma_times(stage->routed, passes) / chunks;
    uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, uma_minus(all, routed), .06, .12, source_activations,
                     "activations of this stage's layers", "%u layers / %llu chunks x %llu passes, %llu tokens each", stage->layers,
                     (unsigned long long)chunks, (unsigned long long)passes, tokens);
    if (routed > 0) /* tokens are not spread evenly over experts, and the fullest moment counts */
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, routed, .35, .6, source_activations, "tokens in experts",
                         "evenly spread, %llu passes", (unsigned long long)passes);
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

/* CUDA context and libraries' kernels about 0.6 GiB; NCCL's rings and channels about 0.4 GiB where ranks talk (AIConfigurator: 342..392 MB). */
static void finish(struct uma_estimate *estimate, const struct uma_megatron_job *job) {
    uma_estimate_sum(estimate);
    /* gaps between blocks whose sizes vary; about the median of the devices' figures in ms-swift's examples/megatron, and between the 1.05..1.15 of
     * expandable segments and the 1.3 and more of none */
    estimate->reserved = uma_scale(estimate->total, 1.2);
    estimate->context = uma_plus(600 * MiB, job->sharding.ranks > 1 ? 400 * MiB : 0);
    estimate->device = uma_plus(estimate->reserved, estimate->context);
    estimate->device_high = uma_plus(uma_scale(estimate->high, 1.35), uma_times(estimate->context, 2));
}

static struct uma_estimate estimate_stage(const struct uma_megatron_job *job, uint32_t number) {
    struct uma_estimate estimate = { 0 };
    struct uma_megatron_stage stage = stage_of(job, number);
    uma_megatron_add_states(&estimate, job, &stage);
    add_workspaces(&estimate, job, stage.experts > 0 && job->train->grouped_gemm != UMA_NO);
    add_kept(&estimate, job);
    add_activations(&estimate, job, &stage);
    finish(&estimate, job);
    estimate.between_steps = uma_plus(estimate.between_steps, uma_megatron_cast_gradients(job, &stage));
    if (job->sharding.pp > 1)
        uma_estimate_warn(&estimate, "this is a rank of pipeline stage %u of %u%s", number, job->sharding.pp,
                          job->train->pipeline_stage == 0 ? ", the largest" : "");
    return estimate;
}

/* Of the whole model, not of this rank: what one rank alone would train. */
static uint64_t trainable(const struct uma_megatron_job *job) {
    static const struct uma_sharding alone = {
        .tp = 1, .pp = 1, .cp = 1, .ep = 1, .expert_tp = 1, .ranks = 1, .dp = 1, .expert_dp = 1, .stages = 1
    };
    if (job->train->method == UMA_METHOD_FULL)
        return uma_model_params(job->model);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < job->model->layer_count; i++)
        sum = uma_plus(
            sum, uma_sharding_layer_adapter(&alone, job->model, i, job->train->rank > 0 ? job->train->rank : 16, job->train->targets));
    return sum;
}

int uma_plan_train_megatron(const struct uma_model *model, const struct uma_train *train, struct uma_estimate *ret_estimate,
                            struct uma_error *err) {
    struct uma_megatron_job job = uma_megatron_job_of(model, train);
    uint32_t pp = job.sharding.pp;
    if (train->pipeline_stage > pp)
        return uma_error_text(err, EINVAL, "stage %u: the pipeline has %u", train->pipeline_stage, pp);
    if (model->layer_count == 0)
        return uma_error_text(err, EINVAL, "the model has no layers");
    /* The first stage has most micro batches in flight and the embedding, the last the logits; those between are like the second. */
    struct uma_estimate largest = estimate_stage(&job, train->pipeline_stage > 0 ? train->pipeline_stage : 1);
    for (uint32_t stage = 2; train->pipeline_stage == 0 && stage <= pp; stage = stage == 2 && pp > 2 ? pp : stage + 1) {
        struct uma_estimate other = estimate_stage(&job, stage);
        if (other.total > largest.total)
            largest = other;
    }
    largest.params_trainable = trainable(&job);
    *ret_estimate = largest;
    return 0;
}
