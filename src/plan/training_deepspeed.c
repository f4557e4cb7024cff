/* SPDX-License-Identifier: MIT */
/*
 * What DeepSpeed's ZeRO optimizers allocate beside weights and states, read from deepspeed/runtime/zero (stage_1_and_2.py, stage3.py,
 * partition_parameters.py, partitioned_param_coordinator.py) with the defaults of its config.py: counted, nothing fitted.
 */
#include "plan/training_parts.h"

/* config.py: reduce_bucket_size, stage3_max_reuse_distance and stage3_max_live_parameters, sub_group_size; in elements. */
static const uint64_t BUCKET = 500000000, LIVE = 1000000000, SUB_GROUP = 1000000000;

bool uma_training_zero(const struct uma_train *train) {
    return train->shard == UMA_SHARD_ZERO1 || train->shard == UMA_SHARD_ZERO2 || train->shard == UMA_SHARD_ZERO3;
}

/*
 * The step works on one flat tensor: 16-bit gradients are flattened into it (2 B), turned into fp32 (4 B), and then the optimizer runs, of which
 * torch's own AdamW needs square roots as large (twice as large before torch 2.1); DeepSpeed's FusedAdam does not. Stages 1 and 2 take a
 * rank's whole partition at once, stage 3 a sub-group of it.
 */
static uint64_t step(const struct uma_training_job *job) {
    uint64_t trained = uma_plus(job->states.adapter_params, job->states.full_params);
    uint64_t part = uma_divide_up(trained, job->ranks > 0 ? job->ranks : 1);
    if (job->train->shard == UMA_SHARD_ZERO3 && part > SUB_GROUP)
        part = SUB_GROUP;
    unsigned flattened = job->element + 4, running = 4 + 4 * uma_training_step_copies(job->train);
    return uma_times(part, flattened > running ? flattened : running);
}

/*
 * Before the step stage 3 looks for infinities in the flat gradients (has_overflow): torch.isinf makes their absolute values and a byte for each,
 * on the stream that reduces gradients, whose blocks serve no other. In fp16; until October 2023 (DeepSpeed PR 4512), which is when torch 2.1
 * came, in bf16 as well.
 */
static uint64_t overflow_check(const struct uma_training_job *job) {
    bool old = job->train->torch_release > 0 && job->train->torch_release < 2001;
    if (job->train->shard != UMA_SHARD_ZERO3 || !(old || job->train->compute == UMA_FORMAT_F16))
        return 0;
    uint64_t trained = uma_plus(job->states.adapter_params, job->states.full_params);
    return uma_times(uma_divide_up(trained, job->ranks > 0 ? job->ranks : 1), job->element + 1);
}

/*
 * Stage 3 frees a parameter after its use unless it is used again within max_reuse_distance, and fetches what the module in work needs whatever
 * the limit: at the loss the output projection and the last layers, whose backward is next. Alone, a rank's parameters are its partition.
 */
static uint64_t gathered(const struct uma_training_job *job) {
    if (job->train->shard != UMA_SHARD_ZERO3 || job->ranks < 2)
        return 0;
    const uint64_t *bytes = job->states.class_bytes;
    uint64_t head = bytes[UMA_CLASS_LM_HEAD] > 0 ? bytes[UMA_CLASS_LM_HEAD] : bytes[UMA_CLASS_EMBEDDING];
    uint64_t most = uma_plus(head, uma_times(LIVE, job->element));
    return job->states.weights < most ? job->states.weights : most;
}

void uma_training_deepspeed_of(struct uma_training_job *job) {
    job->deepspeed = (struct uma_training_deepspeed){ 0 };
    if (!uma_training_zero(job->train))
        return;
    /* made whole, however little there is to reduce: by stage 3 once, by stages 1 and 2 for each backward; overlap_comm, off by default
     * below stage 3, doubles the latter */
    uint64_t bucket = uma_times(BUCKET, job->element);
    if (job->train->shard == UMA_SHARD_ZERO3)
        job->deepspeed.lasting = bucket;
    else
        job->deepspeed.backward = bucket;
    job->deepspeed.gathered = gathered(job);
    if (job->states.master == 0)
        return;
    uint64_t main_stream = step(job), side_stream = overflow_check(job);
    job->deepspeed.step = main_stream > side_stream ? main_stream : side_stream;
    job->deepspeed.side_at_step = main_stream > side_stream ? side_stream : main_stream;
    job->deepspeed.side = side_stream;
}
