/* SPDX-License-Identifier: MIT */
/*
 * The moments of a step that can be its peak - the loss, the first and the last layer of backward, the optimizer's step - and the terms of the one
 * that is.
 */
#include "plan/training_parts.h"

struct sizes { /* bytes on this rank */
    uint64_t weights, adapter, states, gradients, temporary;
    uint64_t gathered_root, gathered_layer, root_gradient, buckets;
    uint64_t kept, one_kept, working, retained, loss, loss_fixed;
    uint64_t generation, reference, host;
    struct uma_training_rollout rollout;
    uint64_t images;
};

static uint64_t share(uint64_t bytes, bool sharded, uint64_t ranks) {
    return sharded && ranks > 1 ? uma_divide_up(bytes, ranks) : bytes;
}

static void state_sizes(const struct uma_training_job *job, struct sizes *sizes) {
    const struct uma_training_states *states = &job->states;
    /* FSDP and ZeRO-3 divide parameters; scales of quantised weights are none */
    uint64_t ranks = job->ranks, whole = job->shard_weights ? states->quant_metadata : 0;
    bool adapters = job->shard_weights && !states->adapters_whole;
    sizes->weights = uma_plus(share(uma_minus(states->weights, whole), job->shard_weights, ranks), whole);
    if (!job->shard_weights)
        sizes->weights = states->weights;
    sizes->adapter = uma_plus(share(uma_times(states->adapter_params, states->adapter_bytes), adapters, ranks),
                              share(states->copied, job->shard_weights, ranks));
    bool state_shard = job->shard_states && !states->adapters_whole;
    sizes->states = uma_plus(share(states->adapter_states, state_shard, ranks),
                             share(uma_plus(states->full_states, states->master), job->shard_states, ranks));
    if (job->train->optimizer == UMA_OPTIMIZER_PAGED_ADAMW || job->train->optimizer == UMA_OPTIMIZER_PAGED_ADAMW_8BIT) {
        sizes->host = sizes->states; /* managed memory (cudaMallocManaged), outside torch's allocator */
        sizes->states = 0;
    }
    bool lomo = job->train->optimizer == UMA_OPTIMIZER_LOMO;
    /* LOMO (arXiv:2306.09782) applies each gradient as it is made: the largest one is there, the embedding's */
    uint64_t full = uma_times(lomo ? job->model->totals[UMA_CLASS_EMBEDDING].params : states->full_params, states->gradient_bytes);
    sizes->gradients = uma_plus(share(uma_times(states->adapter_params, states->adapter_bytes), job->shard_gradients && adapters, ranks),
                                share(full, job->shard_gradients, ranks));
    sizes->temporary = share(states->step_temporary, job->shard_states && (states->full_params > 0 || adapters), ranks);
    if (job->deepspeed.step > 0)
        sizes->temporary = job->deepspeed.step;
    if (job->train->shard == UMA_SHARD_DDP && ranks > 1)
        sizes->buckets = sizes->gradients; /* DistributedDataParallel's buckets hold a copy (gradient_as_bucket_view=False) */
    sizes->reference = job->train->reference_model == UMA_YES ? share(states->weights, job->shard_weights, ranks) : 0;
    sizes->generation = job->train->generation_bytes;
}

/* Layers go to tp x pp devices (device_map places whole layers); the estimate is of the last, which has the loss. */
static void split_sizes(const struct uma_training_job *job, struct sizes *sizes) {
    uint64_t *const parts[] = { &sizes->weights, &sizes->adapter,   &sizes->states, &sizes->gradients, &sizes->temporary,
                                &sizes->buckets, &sizes->reference, &sizes->kept,   &sizes->retained,  &sizes->host };
    for (size_t i = 0; job->split > 1 && i < sizeof parts / sizeof *parts; i++)
        *parts[i] = uma_divide_up(*parts[i], job->split);
}

static void sharding_sizes(const struct uma_training_job *job, struct sizes *sizes) {
    const struct uma_training_states *states = &job->states;
    bool full = job->train->method == UMA_METHOD_FULL;
    uint64_t ends = job->model->totals[UMA_CLASS_LM_HEAD].params;
    if (ends == 0)
        ends = job->model->totals[UMA_CLASS_EMBEDDING].params;
    if (full || job->train->train_embeddings)
        sizes->root_gradient = uma_times(ends, states->gradient_bytes);
    if (!job->shard_weights || job->ranks < 2)
        return;
    if (job->train->shard == UMA_SHARD_ZERO3) {
        sizes->gathered_root = job->deepspeed.gathered;
        sizes->root_gradient = share(sizes->root_gradient, job->shard_gradients, job->ranks);
        return;
    }
    /* litgpt's LoRA wraps nothing that has an adapter: the whole model is one unit (its 2023 rows: weights of all ranks and of one) */
    if (job->train->framework == UMA_FRAMEWORK_LITGPT && !full) {
        sizes->gathered_root = states->weights;
        return;
    }
    /* units are gathered in the compute format: 16 bits */
    uint64_t divide = states->full_bytes == 4 && full && job->element == 2 ? 2 : 1;
    sizes->gathered_root = states->root;
    if (divide == 2 && states->master == 0)
        sizes->gathered_root =
            uma_times(uma_plus(job->model->totals[UMA_CLASS_EMBEDDING].params, job->model->totals[UMA_CLASS_LM_HEAD].params), 2);
    sizes->gathered_layer = states->largest_layer / (states->largest_layer > 0 && divide == 2 && states->master == 0 ? 2 : 1);
    sizes->root_gradient = share(sizes->root_gradient, job->shard_gradients, job->ranks);
}

static void activation_sizes(const struct uma_training_job *job, struct sizes *sizes) {
    const struct uma_training_activations *activations = &job->activations;
    uint64_t t = job->tokens;
    enum uma_checkpointing checkpointing = job->train->checkpointing;
    /* litgpt's FSDP strategies come with activation_checkpointing_policy={Block} (litgpt/finetune/full.py, lora.py) */
    if (job->train->framework == UMA_FRAMEWORK_LITGPT && job->shard_weights && job->ranks > 1)
        checkpointing = UMA_CHECKPOINTING_ON;
    switch (checkpointing) {
    case UMA_CHECKPOINTING_OFFLOAD: /* copied to host memory as they are made */
        sizes->kept = sizes->one_kept = uma_times(t, activations->checkpoint);
        sizes->host = uma_plus(sizes->host, uma_times(t, activations->checkpoints));
        sizes->working = uma_times(t, activations->working);
        break;
    case UMA_CHECKPOINTING_OFF:
        sizes->kept = uma_times(t, activations->saved);
        sizes->one_kept = uma_times(t, activations->saved_layer);
        sizes->working = uma_times(t, activations->temporary);
        break;
    case UMA_CHECKPOINTING_SELECTIVE: /* every other layer is recomputed */
        sizes->kept = uma_times(t, uma_plus(activations->saved / 2, activations->checkpoints / 2));
        sizes->one_kept = uma_times(t, activations->saved_layer);
        sizes->working = uma_times(t, activations->working);
        break;
    default:
        sizes->kept = uma_times(t, activations->checkpoints);
        sizes->one_kept = uma_times(t, activations->checkpoint);
        sizes->working = uma_times(t, activations->working);
    }
    sizes->retained = uma_times(t, activations->retained);
    sizes->loss = uma_times(t, job->loss.per_token);
    sizes->loss_fixed = job->loss.fixed;
    sizes->images = uma_training_images_kept(job);
    uma_training_rollout_of(job, &sizes->rollout);
}

static uint64_t deepspeed_buckets(const struct uma_training_job *job, enum uma_training_moment moment) {
    return uma_plus(job->deepspeed.lasting, moment == UMA_AT_STEP || moment == UMA_AT_GENERATION ? 0 : job->deepspeed.backward);
}

static uint64_t at(const struct uma_training_job *job, const struct sizes *sizes, enum uma_training_moment moment) {
    uint64_t held = job->train->accumulation > 1 ? sizes->gradients : 0; /* of the micro batches before */
    uint64_t sum =
        uma_plus(uma_plus(sizes->weights, sizes->adapter), uma_plus(sizes->states, uma_plus(sizes->reference, sizes->generation)));
    sum = uma_plus(sum, uma_plus(sizes->buckets, deepspeed_buckets(job, moment)));
    switch (moment) {
    case UMA_AT_LOSS:
        return uma_plus(uma_plus(sum, held), uma_plus(sizes->gathered_root, uma_plus(uma_plus(sizes->kept, sizes->images),
                                                                                     uma_plus(sizes->loss, sizes->loss_fixed))));
    case UMA_AT_LAYER:
        if (held < sizes->root_gradient)
            held = sizes->root_gradient;
        sum = uma_plus(sum, uma_plus(held, uma_plus(sizes->gathered_root, sizes->gathered_layer)));
        return uma_plus(sum, uma_plus(uma_plus(sizes->kept, sizes->images), uma_plus(sizes->working, sizes->retained)));
    case UMA_AT_END:
        sum = uma_plus(sum, uma_plus(sizes->gradients, uma_plus(sizes->gathered_root, sizes->gathered_layer)));
        return uma_plus(sum, uma_plus(sizes->one_kept, sizes->working));
    case UMA_AT_GENERATION:
        return sizes->rollout.completions > 0 ? uma_plus(sum, uma_plus(sizes->rollout.bytes, sizes->rollout.gathered)) : 0;
    default:
        return uma_plus(uma_plus(sum, sizes->gradients), sizes->temporary);
    }
}

#define ULL(x) ((unsigned long long)(x))

static void weight_terms(const struct uma_training_job *job, const struct sizes *sizes, struct uma_estimate *estimate) {
    static const char *const names[UMA_CLASS_COUNT] = { "embedding",        "lm_head",      "norms",        "attention",
                                                        "mixers",           "feed-forward", "experts",      "router",
                                                        "vision and audio", "MTP layers",   "other weights" };
    const struct uma_training_states *states = &job->states;
    uint64_t left = sizes->weights;
    double ratio = states->weights > 0 ? (double)sizes->weights / (double)states->weights : 0;
    unsigned last = 0;
    for (unsigned c = 0; c < UMA_CLASS_COUNT; c++)
        if (states->class_bytes[c] > 0)
            last = c;
    for (unsigned c = 0; c < UMA_CLASS_COUNT; c++) {
        if (states->class_bytes[c] == 0)
            continue;
        uint64_t bytes = c == last ? left : uma_scale(states->class_bytes[c], ratio);
        bytes = bytes > left ? left : bytes;
        left -= bytes;
        uint64_t params = job->model->totals[c].params;
        uma_estimate_add(estimate, UMA_TERM_WEIGHTS, bytes, 0, 0,
                         "the model's own tensors or structure, each class in the format it is loaded in", names[c],
                         "%llu parameters x %.3f B%s", ULL(params), params > 0 ? (double)states->class_bytes[c] / (double)params : 0,
                         ratio < 1 ? ", this rank's part" : "")
            ->between_steps = true;
    }
}

static void state_terms(const struct uma_training_job *job, const struct sizes *sizes, struct uma_estimate *estimate) {
    const struct uma_training_states *states = &job->states;
    if (sizes->adapter > 0)
        uma_estimate_add(estimate, UMA_TERM_ADAPTER, sizes->adapter, 0, 0, "LoRA (arXiv:2106.09685): rank x (in + out) of every target",
                         "LoRA adapter", "%llu parameters x %u B, rank %u", ULL(states->adapter_params), states->adapter_bytes,
                         job->train->rank)
            ->between_steps = true;
    if (sizes->reference > 0)
        uma_estimate_add(estimate, UMA_TERM_WEIGHTS, sizes->reference, 0, 0, "DPO (arXiv:2305.18290): a frozen copy of the policy",
                         "reference model", "another copy of the weights")
            ->between_steps = true;
    if (sizes->states > 0)
        uma_estimate_add(estimate, UMA_TERM_OPTIMIZER, sizes->states, 0, 0, "moments (and fp32 masters) by the optimizer's own definition",
                         "optimizer states", "%llu parameters trained; %llu B of moments, %llu B of masters%s",
                         ULL(uma_plus(states->adapter_params, states->full_params)),
                         ULL(uma_plus(states->adapter_states, states->full_states)), ULL(states->master),
                         job->shard_states && job->ranks > 1 ? ", divided by the ranks" : "")
            ->between_steps = true;
    if (sizes->generation > 0)
        uma_estimate_add(estimate, UMA_TERM_KV_CACHE, sizes->generation, 0, 0, "given, or the trainer's default share", "generation engine",
                         "held beside training")
            ->between_steps = true;
}

/* Between two steps there are neither gradients nor activations; the completions' cache stands in their place. */
static void generation_terms(const struct uma_training_job *job, const struct sizes *sizes, struct uma_estimate *estimate) {
    uma_estimate_add(estimate, UMA_TERM_KV_CACHE, sizes->rollout.bytes, 0.5, 0.05,
                     "trl/trainer/grpo_trainer.py: transformers' generate for all completions at once", "completions being generated",
                     "%llu completions of up to %llu tokens: KV cache, %llu logits each", ULL(sizes->rollout.completions),
                     ULL(job->sequence), ULL(job->model->vocab));
    if (sizes->rollout.gathered > 0)
        uma_estimate_add(estimate, UMA_TERM_COMPUTE_BUFFERS, sizes->rollout.gathered, 0, 0,
                         "ds3_gather_for_generation, FSDP.summon_full_params", "weights gathered for generation",
                         "%llu B, all ranks' parts", ULL(sizes->rollout.gathered));
}

static void phase_terms(const struct uma_training_job *job, const struct sizes *sizes, enum uma_training_moment moment,
                        struct uma_estimate *estimate) {
    const struct uma_training_activations *activations = &job->activations;
    uint64_t t = job->tokens, held = job->train->accumulation > 1 ? sizes->gradients : 0;
    if (moment == UMA_AT_LAYER && held < sizes->root_gradient)
        held = sizes->root_gradient;
    if (moment == UMA_AT_END || moment == UMA_AT_STEP)
        held = sizes->gradients;
    if (moment == UMA_AT_GENERATION)
        held = 0;
    if (held > 0)
        uma_estimate_add(estimate, UMA_TERM_GRADIENTS, held, 0, 0, "one per trained parameter, in its own format", "gradients",
                         "of %llu parameters, as far as the peak has them",
                         ULL(uma_plus(job->states.adapter_params, job->states.full_params)));
    if (sizes->buckets > 0)
        uma_estimate_add(estimate, UMA_TERM_GRADIENTS, sizes->buckets, 0, 0, "torch DistributedDataParallel: buckets hold a copy",
                         "DDP buckets", "as large as the gradients")
            ->between_steps = true;
    uint64_t buckets = deepspeed_buckets(job, moment);
    if (buckets >
        0) /* "auto" of transformers' integration makes it hidden x hidden in stage 3, configurations for stage 2 say 2e8 to 5e8, twice */
        uma_estimate_add(estimate, UMA_TERM_COMPUTE_BUFFERS, buckets, 0.9, 1, "deepspeed/runtime/zero/config.py: reduce_bucket_size",
                         "DeepSpeed reduce bucket", "5e8 elements x %u B", job->element)
            ->between_steps = job->deepspeed.lasting > 0;
    if (moment == UMA_AT_GENERATION) {
        generation_terms(job, sizes, estimate);
        return;
    }
    if (moment == UMA_AT_STEP) {
        if (job->deepspeed.step > 0)
            uma_estimate_add(estimate, UMA_TERM_OPTIMIZER, sizes->temporary, 0, 0,
                             "deepspeed/runtime/zero: fp32 gradients of a flat partition", "optimizer step",
                             "flat gradients in 16 bits and fp32, the optimizer's own copies");
        else if (sizes->temporary > 0)
            uma_estimate_add(estimate, UMA_TERM_OPTIMIZER, sizes->temporary, 0, 0, "torch's foreach AdamW (torchtune PR 389)",
                             "optimizer step", "square roots of all second moments at once, %u x", uma_training_step_copies(job->train));
        return;
    }
    if (sizes->gathered_root > 0)
        uma_estimate_add(estimate, UMA_TERM_COMPUTE_BUFFERS, sizes->gathered_root, 0, 0,
                         job->train->shard == UMA_SHARD_ZERO3
                             ? "deepspeed/runtime/zero/partitioned_param_coordinator.py: what is used again soon stays"
                             : "FSDP: the outermost unit stays gathered",
                         job->train->shard == UMA_SHARD_ZERO3 ? "gathered weights" : "gathered embedding and lm_head",
                         "%llu B in the compute format", ULL(sizes->gathered_root));
    if (moment != UMA_AT_LOSS && sizes->gathered_layer > 0)
        uma_estimate_add(estimate, UMA_TERM_COMPUTE_BUFFERS, sizes->gathered_layer, 0, 0, "FSDP: the unit in work", "gathered layer",
                         "%llu B", ULL(sizes->gathered_layer));
    if (moment == UMA_AT_END)
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, sizes->one_kept, 0.1, 0.1, "tensors that autograd keeps",
                         "input of the last layer", "%llu tokens", ULL(t));
    else
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, sizes->kept, 0.05, 0.05, "tensors that autograd keeps",
                         job->train->checkpointing == UMA_CHECKPOINTING_OFF ? "activations of all layers" : "checkpoints",
                         "%llu tokens x %u layers, %llu B a token", ULL(t), job->model->layer_count, ULL(t > 0 ? sizes->kept / t : 0));
    if (moment != UMA_AT_END && sizes->images > 0)
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, sizes->images, 0.6, 3,
                         "arXiv:2205.05198, equation 1; patches may be merged by four or more", "vision tower",
                         "%llu images x %u tokens x %u hidden, %u layers", ULL(uma_times(job->train->batch, job->train->images)),
                         job->model->vision_tokens, job->model->vision_hidden, job->model->vision_layers);
    if (moment == UMA_AT_LOSS) {
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, uma_plus(sizes->loss, sizes->loss_fixed), 0.1, 0.1, job->loss.source,
                         job->loss.what, "%llu tokens x (%llu vocab x %.1f B + %u hidden x %.0f B) + %llu B", ULL(t),
                         ULL(job->model->vocab), job->loss.per_logit, job->model->hidden, job->loss.per_hidden, ULL(sizes->loss_fixed));
        return;
    }
    uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, sizes->working, 0.1, 0.1, "tensors of one layer's backward, counted",
                     "layer in backward", "%llu tokens x %llu B (layer %u)", ULL(t), ULL(t > 0 ? sizes->working / t : 0),
                     activations->widest);
    if (moment == UMA_AT_LAYER && sizes->retained > 0)
        uma_estimate_add(estimate, UMA_TERM_ACTIVATIONS, sizes->retained, 0.1, 0.05,
                         "FSDP1's hooks on frozen units hold their inputs' gradients", "gradients held by FSDP", "%llu tokens x %llu B",
                         ULL(t), ULL(activations->retained));
}

void uma_training_assemble(const struct uma_training_job *job, struct uma_estimate *estimate) {
    struct sizes sizes = { 0 };
    state_sizes(job, &sizes);
    sharding_sizes(job, &sizes);
    activation_sizes(job, &sizes);
    split_sizes(job, &sizes);
    enum uma_training_moment peak = UMA_AT_LOSS;
    for (unsigned m = 1; m < UMA_MOMENTS; m++)
        if (at(job, &sizes, (enum uma_training_moment)m) > at(job, &sizes, peak))
            peak = (enum uma_training_moment)m;
    weight_terms(job, &sizes, estimate);
    state_terms(job, &sizes, estimate);
    /* cuBLAS' workspace (8.1 MiB on compute capability 8.x, 32 MiB on 9.0 and later, of each handle in use), batches and masks: fms-acceleration's
     * rows hold 17 to 18 MB beside weights and states. */
    uma_estimate_add(estimate, UMA_TERM_OVERHEAD, 18000000, 0.5, 1, "cuBLAS workspaces, input batches", "library workspaces", "18 MB")
        ->between_steps = true;
    phase_terms(job, &sizes, peak, estimate);
    uma_estimate_sum(estimate);
    /* FSDP's flat parameters keep their gradient until the next step begins */
    if (job->train->shard == UMA_SHARD_FSDP && job->ranks > 1)
        estimate->between_steps = uma_plus(estimate->between_steps, sizes.gradients);
    estimate->params_trainable = uma_plus(job->states.adapter_params, job->states.full_params);
    struct uma_training_peak found = { .moment = peak, .host = sizes.host };
    found.lasting = uma_plus(uma_plus(sizes.weights, sizes.adapter), uma_plus(sizes.states, uma_plus(sizes.reference, sizes.generation)));
    uma_training_finish(job, &found, estimate);
}
