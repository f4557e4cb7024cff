/* SPDX-License-Identifier: MIT */
#include "plan/training.h"

#include "base/error.h"
#include "plan/sharding.h"
#include "plan/training_parts.h"

#include <string.h>

/* Beyond what any job has; below what makes the arithmetic of a formula's text meaningless. */
enum { TOKENS_MAX = 1 << 30, RANKS_MAX = 1 << 20, RANK_MAX = 1 << 16 };

uint64_t uma_training_ranks(const struct uma_train *train) {
    return uma_times(MAX_OF(train->nodes, 1u), MAX_OF(train->gpus_per_node, 1u));
}

uint64_t uma_training_model_parallel(const struct uma_train *train) {
    return uma_times(uma_times(MAX_OF(train->tp, 1u), MAX_OF(train->pp, 1u)), MAX_OF(train->cp, 1u));
}

uint64_t uma_training_data_parallel(const struct uma_train *train) {
    uint64_t ranks = uma_training_ranks(train), model_parallel = uma_training_model_parallel(train);
    return ranks > model_parallel ? ranks / model_parallel : 1;
}

uint64_t uma_training_tokens(const struct uma_train *train) {
    if (train->tokens > 0)
        return train->tokens;
    return uma_times(train->batch > 0 ? train->batch : 1, train->seq > 0 ? train->seq : 2048);
}

/* Expert parallelism of Megatron and torchtitan divides the same ranks once more. */
static int check_experts(const struct uma_model *model, const struct uma_train *train, struct uma_error *err) {
    if (!uma_training_is_pretrainer(train))
        return 0; /* the others know none, and the options do nothing */
    uint64_t ranks = uma_training_ranks(train);
    struct uma_sharding sharding = uma_sharding_of(train);
    uint32_t experts = 0;
    for (uint32_t i = 0; i < model->layer_count; i++)
        experts = model->layers[i].ffn == UMA_FFN_MOE && model->layers[i].experts > experts ? model->layers[i].experts : experts;
    if (sharding.ranks > ranks)
        return uma_error_text(err, EINVAL, "ep %u x pp %u x expert-tp %u: more than the %llu ranks", sharding.ep, sharding.pp,
                              sharding.expert_tp, (unsigned long long)ranks);
    if (sharding.ep > 1 && sharding.ep > experts)
        return uma_error_text(err, EINVAL, "ep %u: the model has %u routed experts a layer", sharding.ep, experts);
    return 0;
}

/* What torchtitan trains are all parameters, on one objective: next tokens. */
static int check_titan(const struct uma_train *train, struct uma_error *err) {
    if (train->framework != UMA_FRAMEWORK_TORCHTITAN)
        return 0;
    if (train->method != UMA_METHOD_FULL)
        return uma_error_text(err, EINVAL,
                              "torchtitan trains all parameters: adapters (--method lora, qlora, --rank) are another framework's");
    if (train->objective != UMA_OBJECTIVE_SFT && train->objective != UMA_OBJECTIVE_PRETRAIN)
        return uma_error_text(err, EINVAL, "torchtitan has no preference or reinforcement objectives: sft or pretrain were expected");
    return 0;
}

int uma_training_check(const struct uma_model *model, const struct uma_train *train, struct uma_error *err) {
    if (model->hidden == 0 || model->layer_count == 0)
        return uma_error_text(err, EINVAL, "the model has no layers or no width: give its shape (--layers, --hidden) or its config.json");
    if (uma_training_tokens(train) > TOKENS_MAX)
        return uma_error_text(err, EINVAL, "batch x seq of %llu tokens: more than 2^30 in one micro batch",
                              (unsigned long long)uma_training_tokens(train));
    if (uma_training_ranks(train) > RANKS_MAX)
        return uma_error_text(err, EINVAL, "%llu ranks: more than 2^20", (unsigned long long)uma_training_ranks(train));
    if (train->rank > RANK_MAX)
        return uma_error_text(err, EINVAL, "LoRA rank %u: more than 65536", train->rank);
    uint64_t ranks = uma_training_ranks(train), model_parallel = uma_training_model_parallel(train);
    if (model_parallel > 1 && (model_parallel > ranks || ranks % model_parallel != 0))
        return uma_error_text(err, EINVAL, "tp x pp x cp = %llu does not divide the %llu ranks", (unsigned long long)model_parallel,
                              (unsigned long long)ranks);
    int r = check_titan(train, err);
    if (r == 0)
        r = check_experts(model, train, err);
    if (r < 0)
        return r;
    if (train->pp > model->layer_count)
        return uma_error_text(err, EINVAL, "pp %u: the model has %u layers", train->pp, model->layer_count);
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].mixer == UMA_MIXER_ATTENTION && model->layers[i].heads > 0 && train->tp > model->layers[i].heads)
            return uma_error_text(err, EINVAL, "tp %u: layer %u has %u attention heads", train->tp, i, model->layers[i].heads);
    return 0;
}

/* Families that came with transformers 4.45 or later: whoever trains them has its loss. For the others autocast is taken for the sign of today's
 * stack; rows without it (fms-acceleration's first benchmark) hold 16-bit logits beside the fp32 ones. A shape given by numbers ("decoder") is
 * whatever its user trains today. */
static bool older_transformers(const struct uma_model *model, const struct uma_train *train) {
    static const char *const later[] = { "granite", "qwen3",   "gemma3", "gemma4", "olmo",   "glm4",   "smollm",
                                         "gpt_oss", "gpt-oss", "phi4",   "lfm2",   "mllama", "decoder" };
    if (train->framework != UMA_FRAMEWORK_TORCH || train->autocast != UMA_NO)
        return false;
    for (size_t i = 0; model->architecture && i < sizeof later / sizeof *later; i++)
        if (strncmp(model->architecture, later[i], strlen(later[i])) == 0)
            return false;
    return true;
}

static void job_of(const struct uma_model *model, const struct uma_train *train, struct uma_training_job *job) {
    *job = (struct uma_training_job){
        .model = model, .train = train, .tokens = uma_training_tokens(train), .ranks = uma_training_data_parallel(train)
    };
    job->split = uma_times(MAX_OF(train->tp, 1u), MAX_OF(train->pp, 1u));
    job->sequence = train->seq > 0 ? train->seq : 2048;
    if (model->details.positions > 0 && job->sequence > model->details.positions && train->tokens == 0) {
        /* a learned table of positions has no more: longer samples are cut */
        job->sequence = model->details.positions;
        job->tokens = uma_times(train->batch, job->sequence);
    }
    if (train->objective == UMA_OBJECTIVE_DPO || train->objective == UMA_OBJECTIVE_ORPO)
        job->tokens = uma_times(job->tokens, 2); /* chosen and rejected in one forward (TRL's concatenated_forward) */
    job->element = train->compute == UMA_FORMAT_F32 ? 4 : 2;
    job->residual = train->residual == UMA_FORMAT_F32 && train->shard != UMA_SHARD_FSDP ? 4 : job->element;
    job->shard_states = train->shard == UMA_SHARD_FSDP || train->shard == UMA_SHARD_ZERO1 || train->shard == UMA_SHARD_ZERO2 ||
                        train->shard == UMA_SHARD_ZERO3;
    job->shard_gradients = job->shard_states && train->shard != UMA_SHARD_ZERO1;
    job->shard_weights = train->shard == UMA_SHARD_FSDP || train->shard == UMA_SHARD_ZERO3;
    job->autocast = train->autocast == UMA_YES;
    job->older = older_transformers(model, train);
    job->fused_kernels = train->loss == UMA_LOSS_FUSED || train->loss == UMA_LOSS_FUSED_LINEAR ||
                         train->framework == UMA_FRAMEWORK_UNSLOTH || train->compile == UMA_YES;
    uma_training_states_of(job);
    /* LayerNorm gives fp32 where its weights are fp32 (RMSNorm of transformers casts back), and a quantised model's are */
    job->wide_norms = job->older && job->states.quantised && model->details.norm_bias;
    if (job->wide_norms)
        job->residual = 4;
    uma_training_activations_of(job);
    uma_training_loss_of(job);
    uma_training_deepspeed_of(job);
}

int uma_plan_train(const struct uma_model *model, const struct uma_train *train, struct uma_estimate *ret_estimate, struct uma_error *err) {
    struct uma_train filled = *train;
    uma_train_defaults(model, &filled);
    int r = uma_training_check(model, &filled, err);
    if (r < 0)
        return r;
    struct uma_estimate estimate = { 0 };
    if (filled.framework == UMA_FRAMEWORK_MEGATRON) {
        r = uma_plan_train_megatron(model, &filled, &estimate, err);
    } else if (filled.framework == UMA_FRAMEWORK_TORCHTITAN) {
        r = uma_plan_train_titan(model, &filled, &estimate, err);
    } else {
        struct uma_training_job job;
        job_of(model, &filled, &job);
        uma_training_assemble(&job, &estimate);
        uma_training_assume(&job, &estimate);
    }
    if (r < 0)
        return r;
    /* these two estimators' intervals are of allocated memory; a user may see what is held, with the context */
    if (uma_training_is_pretrainer(&filled) && estimate.high < estimate.reserved)
        estimate.high = estimate.reserved;
    if (estimate.device_high < estimate.high)
        estimate.device_high = estimate.high;
    uma_training_load(model, &filled, &estimate);
    *ret_estimate = estimate;
    return 0;
}
