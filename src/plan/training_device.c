/* SPDX-License-Identifier: MIT */
/*
 * From what torch has handed out to what leaves the pool: the caching allocator's fragments, the CUDA context, host memory of the same pool.
 */
#include "plan/training_parts.h"

static bool gathers(const struct uma_training_job *job) {
    return job->shard_weights && job->ranks > 1;
}

/*
 * Share of what a step allocates and frees (all but weights and states) that the allocator holds in fragments besides. Fitted on
 * fms-acceleration's nvidia-smi columns of Llama-3-8B and Mistral-7B: median error on these 2.8 % on one GPU and 4.4 % on several, on the others
 * (PowerLM-3b, Mixtral-8x7B, Llama-2-70B, santacoder) 4.2 % and 8.9 %, the worst tenth of either beyond 20 %: an allocator's history is not
 * known beforehand. One size of blocks again and again (fused linear loss, or the layer decides) leaves 0.11; two or three tensors of all
 * logits, each with its own block that later requests do not fill, 0.28 with log-softmax and 0.5 with a fused kernel, whose two blocks serve
 * nothing else. FSDP's gathered units add 0.1.
 * Near a device's end the allocator hands blocks back before it fails (torch: CUDA semantics, memory management): the same rows show 1 to 3
 * GiB at 67 to 75 GiB allocated. So fragments are held against the step's share, and beyond 8 GiB they belong to device_high only.
 */
static double fragments(const struct uma_training_job *job, const struct uma_training_peak *peak) {
    double share = peak->moment == UMA_AT_STEP          ? 0.08
                   : peak->moment != UMA_AT_LOSS        ? 0.11
                   : job->train->loss == UMA_LOSS_FULL  ? 0.28
                   : job->train->loss == UMA_LOSS_FUSED ? 0.5
                                                        : 0.11;
    return share + (gathers(job) && peak->moment != UMA_AT_STEP ? 0.1 : 0);
}

/* Context and libraries of one process: the context alone is 0.44 to 0.73 GiB (llama.cpp PR 15860) and 0.69 GiB on GB10 after torch's first call
 * (vllm PR 55828); training loads the kernels of cuBLAS, flash attention and the optimizer besides. 10^9 B is where the one-GPU rows of
 * Llama-3-8B and Mistral-7B in fms-acceleration have no median bias; with it the median error of its other models falls from 5.4 to 4.2 %. The
 * least that any of these rows shows between torch's figure and nvidia-smi's is 1.18 GiB, fragments in. NCCL's buffers add about 1.2 GiB where
 * ranks talk (fms-acceleration, 2 and 4 GPUs: fitted and seen on the same rows). */
static const uint64_t CONTEXT = 1000000000, CONTEXT_HIGH = 1500000000, NCCL = 1300000000;

void uma_training_finish(const struct uma_training_job *job, const struct uma_training_peak *peak, struct uma_estimate *estimate) {
    uint64_t moving = uma_minus(estimate->total, peak->lasting), limit = UINT64_C(1) << 33;
    if (gathers(job)) /* units come and go beside everything else: what is never given back is more */
        limit = uma_plus(limit, UINT64_C(1) << 31);
    uint64_t held = uma_scale(moving, fragments(job, peak));
    unsigned copies = uma_training_step_copies(job->train);
    /* an adapter's tensors are small blocks: what the optimizer's step takes of them (4 B a parameter) no logits can use afterwards */
    if (peak->moment != UMA_AT_STEP)
        held = uma_plus(held, uma_times(uma_times(4, job->states.adapter_params), copies > 0 ? copies : 1));
    held = held > limit ? limit : held;
    held = uma_plus(held, peak->moment == UMA_AT_STEP ? job->deepspeed.side_at_step : job->deepspeed.side);
    bool talks = uma_training_ranks(job->train) > 1;
    estimate->reserved = uma_plus(estimate->total, held);
    estimate->context = CONTEXT + (talks ? NCCL : 0);
    estimate->host = uma_plus(peak->host, UMA_PYTHON_HOST);
    estimate->device = uma_plus(uma_plus(estimate->reserved, estimate->context), estimate->host);
    /* at worst every block that is allocated and freed is held a second time (the rows' largest: 2.06 x) */
    uint64_t high = uma_plus(uma_plus(estimate->total, moving), CONTEXT_HIGH + (talks ? 2 * NCCL : 0));
    estimate->device_high = uma_plus(high, estimate->host);
}
