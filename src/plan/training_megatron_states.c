/* SPDX-License-Identifier: MIT */
#include "plan/training_megatron.h"

#define KiB UINT64_C(1024)

static const char source_states[] = "Megatron-LM theoretical_memory_usage.py; distributed optimizer docs";

static uint64_t weight_bytes(const struct uma_megatron_job *job) {
    return job->train->compute == UMA_FORMAT_F32 ? 4 : 2; /* 8-bit parameters are kept twice, for either direction of multiplication */
}

static uint64_t gradient_bytes(const struct uma_megatron_job *job) {
    switch (job->train->gradients) {
    case UMA_FORMAT_BF16:
    case UMA_FORMAT_F16:
        return 2;
    case UMA_FORMAT_UNKNOWN:
        return job->half ? 2 : 4; /* bf16 turns accumulate_allreduce_grads_in_fp32 on, fp16 does not (arguments.py) */
    default:
        return 4;
    }
}

static uint64_t moment_bytes(const struct uma_megatron_job *job) {
    uint64_t one = job->train->moments == UMA_FORMAT_UNKNOWN ? 4 : uma_format_bytes(job->train->moments, 256) / 256;
    switch (job->train->optimizer) {
    case UMA_OPTIMIZER_SGD:
        return 0;
    case UMA_OPTIMIZER_SGD_MOMENTUM:
    case UMA_OPTIMIZER_LION:
        return one;
    case UMA_OPTIMIZER_ADAMW_8BIT:
    case UMA_OPTIMIZER_PAGED_ADAMW_8BIT:
        return 2;
    default:
        return 2 * one;
    }
}

/* Bytes of `per` each for the rank's parameters, shared out over those that hold the same. */
static uint64_t shared(const struct uma_megatron_stage *stage, uint64_t per, uint64_t dense_ranks, uint64_t expert_ranks) {
    return uma_plus(uma_divide_up(uma_times(stage->dense, per), dense_ranks), uma_divide_up(uma_times(stage->experts, per), expert_ranks));
}

/*
 * Muon keeps one state of a matrix, Adam's two of tables. Shared out, it is by whole tensors, for it needs whole matrices: the rank that has the
 * table has all its 12 B (Megatron-LM optimizer/layer_wise_optimizer.py), and that rank is the one that must fit.
 */
static void add_muon(struct uma_estimate *estimate, const struct uma_megatron_stage *stage, struct uma_sharing dense,
                     struct uma_sharing experts) {
    uint64_t matrices = uma_minus(stage->matrices_params, stage->experts), tables = uma_minus(stage->dense, matrices);
    uint64_t bytes =
        uma_plus(uma_divide_up(uma_times(matrices, 8), dense.optimizer), uma_divide_up(uma_times(stage->experts, 8), experts.optimizer));
    uma_estimate_add(estimate, UMA_TERM_OPTIMIZER, uma_plus(bytes, uma_times(tables, 12)), .4, .02,
                     "Megatron-LM optimizer/muon.py, layer_wise_optimizer.py", "fp32 main parameters, Muon and Adam states",
                     "(%llu / %llu + %llu / %llu) x 8 B + tables %llu x 12 B", (unsigned long long)matrices,
                     (unsigned long long)dense.optimizer, (unsigned long long)stage->experts, (unsigned long long)experts.optimizer,
                     (unsigned long long)tables)
        ->between_steps = true;
}

static void add_moments(struct uma_estimate *estimate, const struct uma_megatron_job *job, const struct uma_megatron_stage *stage,
                        struct uma_sharing dense, struct uma_sharing experts) {
    const struct uma_train *train = job->train;
    unsigned long long n = stage->dense, e = stage->experts;
    if (train->optimizer == UMA_OPTIMIZER_MUON) {
        add_muon(estimate, stage, dense, experts);
        return;
    }
    if (train->compute != UMA_FORMAT_F32 && train->master != UMA_NO)
        uma_estimate_add(estimate, UMA_TERM_OPTIMIZER, shared(stage, 4, dense.optimizer, experts.optimizer), .005, .005, source_states,
                         "fp32 main parameters", "(%llu / %llu + %llu / %llu) x 4 B", n, (unsigned long long)dense.optimizer, e,
                         (unsigned long long)experts.optimizer)
            ->between_steps = true;
    uint64_t per = moment_bytes(job);
    uma_estimate_add(estimate, UMA_TERM_OPTIMIZER, shared(stage, per, dense.optimizer, experts.optimizer), .005, .01, source_states,
                     "optimizer states", "(%llu / %llu + %llu / %llu) x %llu B", n, (unsigned long long)dense.optimizer, e,
                     (unsigned long long)experts.optimizer, (unsigned long long)per)
        ->between_steps = true;
}

/* A frozen model has parameters only; its adapters are trained as everything else is. */
static void add_adapters(struct uma_estimate *estimate, const struct uma_megatron_job *job, const struct uma_megatron_stage *stage) {
    struct uma_sharing sharing = uma_sharing_of(job->train, uma_times(job->sharding.dp, job->sharding.cp));
    uint64_t bytes = uma_plus(uma_times(stage->adapter, weight_bytes(job) + gradient_bytes(job)),
                              uma_divide_up(uma_times(stage->adapter, 4 + moment_bytes(job)), sharing.optimizer));
    uma_estimate_add(estimate, UMA_TERM_ADAPTER, bytes, .1, .1, source_states, "LoRA adapters, their gradients and states",
                     "%llu parameters x (%llu + %llu B + %llu B / %llu)", (unsigned long long)stage->adapter,
                     (unsigned long long)weight_bytes(job), (unsigned long long)gradient_bytes(job),
                     (unsigned long long)(4 + moment_bytes(job)), (unsigned long long)sharing.optimizer)
        ->between_steps = true;
}

static void add_reference(struct uma_estimate *estimate, const struct uma_megatron_job *job, const struct uma_megatron_stage *stage) {
    const struct uma_train *train = job->train;
    bool asks = train->objective == UMA_OBJECTIVE_DPO || train->objective == UMA_OBJECTIVE_KTO || train->objective == UMA_OBJECTIVE_GRPO;
    bool has = train->reference_model == UMA_YES || (train->reference_model == UMA_MAYBE && asks && train->method == UMA_METHOD_FULL);
    uint64_t params = uma_plus(stage->dense, stage->experts);
    if (has)
        uma_estimate_add(estimate, UMA_TERM_WEIGHTS, uma_times(params, weight_bytes(job)), .01, .01, "DPO, arXiv:2305.18290",
                         "reference model", "%llu parameters x %llu B", (unsigned long long)params, (unsigned long long)weight_bytes(job))
            ->between_steps = true;
}

void uma_megatron_add_states(struct uma_estimate *estimate, const struct uma_megatron_job *job, const struct uma_megatron_stage *stage) {
    const struct uma_train *train = job->train;
    /* context-parallel ranks hold the same parameters: the optimizer is shared out over them as well */
    struct uma_sharing dense = uma_sharing_of(train, uma_times(job->sharding.dp, job->sharding.cp));
    struct uma_sharing experts = uma_sharing_of(train, job->sharding.expert_dp);
    unsigned long long n = stage->dense, e = stage->experts;
    uint64_t per = weight_bytes(job);
    if (train->method == UMA_METHOD_QLORA) {
        uint64_t tables = uma_minus(uma_plus(stage->dense, stage->experts), stage->matrices_params);
        enum uma_format format = train->weights == UMA_FORMAT_UNKNOWN ? UMA_FORMAT_NF4_DQ : train->weights;
        uint64_t bytes = uma_plus(uma_format_bytes(format, stage->matrices_params), uma_times(tables, 2));
        uma_estimate_add(estimate, UMA_TERM_WEIGHTS, bytes, .02, .02, "QLoRA, arXiv:2305.14314", "frozen parameters of this rank",
                         "%llu in %s + %llu x 2 B", (unsigned long long)stage->matrices_params, uma_format_name(format),
                         (unsigned long long)tables)
            ->between_steps = true;
    } else
        uma_estimate_add(estimate, UMA_TERM_WEIGHTS, shared(stage, per, dense.parameters, experts.parameters), .005, .005, source_states,
                         "parameters of this rank", "(%llu / %llu dense + %llu / %llu in experts) x %llu B", n,
                         (unsigned long long)dense.parameters, e, (unsigned long long)experts.parameters, (unsigned long long)per)
            ->between_steps = true;
    if (job->fp8 && train->weights != UMA_FORMAT_FP8 && train->weights != UMA_FORMAT_MXFP8) {
        /* Hopper multiplies 8-bit only in one orientation: a transposed copy is kept as well. */
        uint64_t copies = train->compute_capability >= 100 ? 1 : 2;
        uma_estimate_add(estimate, UMA_TERM_WEIGHTS, uma_times(stage->matrices_params, copies), .5, .5,
                         "TransformerEngine fp8 weight caching", "8-bit copies of the matrices", "%llu parameters x %llu B",
                         (unsigned long long)stage->matrices_params, (unsigned long long)copies)
            ->between_steps = true;
    }
    add_reference(estimate, job, stage);
    if (train->method != UMA_METHOD_FULL) {
        add_adapters(estimate, job, stage);
        return;
    }
    per = gradient_bytes(job);
    uma_estimate_add(estimate, UMA_TERM_GRADIENTS, shared(stage, per, dense.gradients, experts.gradients), .005, .005, source_states,
                     "gradient buffer", "(%llu / %llu + %llu / %llu) x %llu B", n, (unsigned long long)dense.gradients, e,
                     (unsigned long long)experts.gradients, (unsigned long long)per)
        ->between_steps = true;
    add_moments(estimate, job, stage, dense, experts);
    if (dense.optimizer == 1 && train->optimizer != UMA_OPTIMIZER_SGD) {
        /*
         * Separate tensors, not one buffer: PyTorch's allocator hands a block over 1 MiB out whole when at most 1 MiB would be left of it, and
         * counts it so. 52 KiB a tensor on average, fitted on gpt3_mcore_te_tp1_pp1 and _tp2_pp2, checked on _tp1_pp2, _tp1_pp4 and BERT.
         */
        uint64_t tensors = uma_times(stage->matrices, 3);
        uma_estimate_add(estimate, UMA_TERM_OVERHEAD, uma_times(tensors, 52 * KiB), 1, 1.5, "PyTorch CUDACachingAllocator.cpp should_split",
                         "ends of blocks", "%llu tensors x 52 KiB", (unsigned long long)tensors)
            ->between_steps = true;
    }
}

uint64_t uma_megatron_cast_gradients(const struct uma_megatron_job *job, const struct uma_megatron_stage *stage) {
    if (gradient_bytes(job) >= 4 || job->train->method != UMA_METHOD_FULL || job->train->optimizer == UMA_OPTIMIZER_MUON)
        return 0;
    struct uma_sharing dense = uma_sharing_of(job->train, uma_times(job->sharding.dp, job->sharding.cp));
    struct uma_sharing experts = uma_sharing_of(job->train, job->sharding.expert_dp);
    return shared(stage, 4, dense.optimizer, experts.optimizer);
}
