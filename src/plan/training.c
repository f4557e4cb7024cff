/* SPDX-License-Identifier: MIT */
#include "plan/training.h"

#include "base/error.h"

/* Beyond what any job has; below what makes the arithmetic of a formula's text meaningless. */
enum { TOKENS_MAX = 1 << 30, RANKS_MAX = 1 << 20, RANK_MAX = 1 << 16 };

uint64_t uma_training_ranks(const struct uma_train *train) {
    uint64_t nodes = train->nodes > 0 ? train->nodes : 1, gpus = train->gpus_per_node > 0 ? train->gpus_per_node : 1;
    return uma_times(nodes, gpus);
}

uint64_t uma_training_data_parallel(const struct uma_train *train) {
    uint64_t model_parallel =
        uma_times(uma_times(train->tp > 0 ? train->tp : 1, train->pp > 0 ? train->pp : 1), train->cp > 0 ? train->cp : 1);
    uint64_t ranks = uma_training_ranks(train);
    return ranks > model_parallel ? ranks / model_parallel : 1;
}

uint64_t uma_training_tokens(const struct uma_train *train) {
    if (train->tokens > 0)
        return train->tokens;
    return uma_times(train->batch > 0 ? train->batch : 1, train->seq > 0 ? train->seq : 2048);
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
    uint64_t model_parallel =
        uma_times(uma_times(train->tp > 0 ? train->tp : 1, train->pp > 0 ? train->pp : 1), train->cp > 0 ? train->cp : 1);
    uint64_t ranks = uma_training_ranks(train);
    if (model_parallel > 1 && (model_parallel > ranks || ranks % model_parallel != 0))
        return uma_error_text(err, EINVAL, "tp x pp x cp = %llu does not divide the %llu ranks", (unsigned long long)model_parallel,
                              (unsigned long long)ranks);
    if (train->pp > model->layer_count)
        return uma_error_text(err, EINVAL, "pp %u: the model has %u layers", train->pp, model->layer_count);
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].mixer == UMA_MIXER_ATTENTION && model->layers[i].heads > 0 && train->tp > model->layers[i].heads)
            return uma_error_text(err, EINVAL, "tp %u: layer %u has %u attention heads", train->tp, i, model->layers[i].heads);
    return 0;
}
