/* SPDX-License-Identifier: MIT */
/*
 * What some jobs have besides the steps of a language model: completions that GRPO generates before it trains on them, and images.
 */
#include "plan/training_parts.h"

/* trl/trainer/grpo_config.py: a batch of completions is generated for steps_per_generation micro batches (gradient_accumulation_steps
 * unless given), and holds whole groups. */
uint64_t uma_training_completions(const struct uma_train *train) {
    uint64_t ranks = uma_training_data_parallel(train);
    uint64_t group = uma_divide_up(train->group_size > 0 ? train->group_size : 8, ranks);
    return MAX_OF(uma_times(MAX_OF(train->batch, 1u), MAX_OF(train->accumulation, 1u)), group);
}

void uma_training_rollout_of(const struct uma_training_job *job, struct uma_training_rollout *ret_rollout) {
    const struct uma_train *train = job->train;
    *ret_rollout = (struct uma_training_rollout){ 0 };
    if (train->objective != UMA_OBJECTIVE_GRPO || train->generation_bytes > 0)
        return;
    struct uma_training_rollout rollout = { .completions = uma_training_completions(train) };
    struct uma_kv_options options = { .engine = UMA_ENGINE_TRANSFORMERS, .context = job->sequence, .sequences = rollout.completions };
    struct uma_kv cache;
    uma_kv_cache(job->model, &options, &cache);
    /* logits of one position of each, in 16 bits and in fp32 for the sampler, whose softmax is a third */
    rollout.bytes = uma_plus(cache.total, uma_times(uma_times(rollout.completions, job->model->vocab), 10));
    if (job->shard_weights && job->ranks > 1) /* ds3_gather_for_generation, FSDP.summon_full_params: the whole model on every rank */
        rollout.gathered = job->states.weights;
    *ret_rollout = rollout;
}

/*
 * A tower's layer keeps 34 bytes a hidden unit and patch in 16 bits (arXiv:2205.05198, equation 1, without the scores: GELU feed-forward
 * four times as wide, LayerNorm), its input alone when it is recomputed. A frozen tower gets no graph: neither its weights nor the pixels need a
 * gradient, so one layer's tensors are there at a time.
 */
uint64_t uma_training_images_kept(const struct uma_training_job *job) {
    const struct uma_model *model = job->model;
    const struct uma_train *train = job->train;
    if (train->images == 0 || !model->has_vision || model->vision_tokens == 0)
        return 0;
    uint64_t batch = MAX_OF(train->batch, 1u),
             unit = uma_times(uma_times(batch, train->images), uma_times(model->vision_tokens, model->vision_hidden));
    bool frozen = train->freeze_vision || train->method != UMA_METHOD_FULL;
    uint64_t layer = uma_times(unit, 34), layers = model->vision_layers;
    if (frozen)
        return layer;
    if (train->checkpointing == UMA_CHECKPOINTING_OFF)
        return uma_times(layer, layers);
    return uma_plus(uma_times(uma_times(unit, 2), layers), layer);
}
