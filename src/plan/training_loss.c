/* SPDX-License-Identifier: MIT */
/*
 * The loss: logits, their copies and their gradient, by kernel and framework. For models with large vocabularies this is the peak of the job.
 */
#include "plan/training_parts.h"

#include <string.h>

/*
 * Positions whose logits exist at once in fused linear losses: Liger takes chunks so that they are about as large as the hidden states
 * (liger_kernel fused_linear_cross_entropy: chunks of tokens x hidden / vocab, a power of two); torchtune 8 chunks. Unsloth's budget is half of
 * the free memory and no more than 4 GiB, in fours of chunks, and the number is rounded: below 8 GiB of fp32 logits there is one chunk, all of
 * them (unsloth_zoo/fused_losses/cross_entropy_loss.py).
 */
#define UNSLOTH_TARGET (UINT64_C(4) << 30)

static double chunk_share(const struct uma_training_job *job) {
    if (job->train->loss == UMA_LOSS_CHUNKED)
        return 1.0 / 8;
    if (job->train->framework == UMA_FRAMEWORK_UNSLOTH) {
        double fours = (double)uma_times(uma_times(job->tokens, job->model->vocab), 4) / (double)UNSLOTH_TARGET / 4;
        return fours < 0.5 ? 1 : 1 / (4 * (double)(uint64_t)(fours + 0.5));
    }
    double share = job->model->vocab > 0 ? (double)job->model->hidden / (double)job->model->vocab : 1;
    return share > 1 ? 1 : share;
}

static void set(struct uma_training_loss *loss, const struct uma_training_job *job, double logit, double hidden, const char *what,
                const char *source) {
    loss->per_logit = logit;
    loss->per_hidden = hidden;
    loss->per_token = uma_plus(uma_scale(job->model->vocab, logit), uma_scale(job->model->hidden, hidden));
    loss->what = what;
    loss->source = source;
}

/* transformers before 4.46: these models' forward has no logits.float() before the loss. */
static bool half_loss(const struct uma_model *model) {
    static const char *const families[] = { "gpt_bigcode", "gpt2", "gpt_neox", "falcon", "bloom", "opt", "codegen", "gptj", "qwen" };
    for (size_t i = 0; model->architecture && i < sizeof families / sizeof *families; i++)
        if (strcmp(model->architecture, families[i]) == 0)
            return true;
    return false;
}

void uma_training_loss_of(struct uma_training_job *job) {
    struct uma_training_loss *loss = &job->loss;
    *loss = (struct uma_training_loss){ 0 };
    const struct uma_train *train = job->train;
    /* Families whose older code takes the loss of the logits as they are: logits, shifted copy, log-softmax and gradient in their own width; a
     * fused kernel writes the gradient over its input. */
    bool as_they_are = job->older && (job->wide_norms || half_loss(job->model));
    if (as_they_are && (train->loss == UMA_LOSS_FULL || train->loss == UMA_LOSS_FUSED)) {
        double width = job->wide_norms ? 4 : job->element, copies = train->loss == UMA_LOSS_FULL ? 4 : 3;
        if (job->sequence >= job->tokens)
            copies -= 1; /* of one sequence the shifted logits are contiguous as they are: a view */
        set(loss, job, width * copies, job->wide_norms ? 16 : 8, "logits, softmax, gradient",
            "transformers before 4.46, modeling_gpt_bigcode.py and others: the loss is taken in the logits' own format");
        return;
    }
    switch (train->loss) {
    case UMA_LOSS_FUSED_LINEAR:
        if (train->framework == UMA_FRAMEWORK_UNSLOTH)
            set(loss, job, 8 * chunk_share(job), 4, "fused linear loss",
                "unsloth_zoo/fused_losses: logits of one chunk in 16 bits and fp32, their gradient in 16 bits");
        else
            set(loss, job, 6 * chunk_share(job), 4, "fused linear loss",
                "Liger-Kernel: logits of one chunk in 16 bits and fp32, gradient of the hidden states");
        if (train->method == UMA_METHOD_FULL)
            loss->fixed =
                uma_times(uma_times(job->model->vocab, job->model->hidden), job->element); /* made in forward, kept until backward */
        return;
    case UMA_LOSS_CHUNKED:
        /* compiled, the chunk's fp32 steps are one kernel and leave its log-softmax alone */
        set(loss, job, 2 + (train->compile == UMA_YES ? 4 : 12) * chunk_share(job), 4, "logits, chunked loss",
            "torchtune CEWithChunkedOutputLoss: 16-bit logits of all positions, fp32 copies of one of 8 chunks");
        return;
    case UMA_LOSS_FUSED:
        if (job->older)
            set(loss, job, 10, 4, "logits and their gradient", "fms-acceleration rows with fused cross entropy, transformers before 4.45");
        else
            set(loss, job, 8, 5, "logits and their gradient",
                "fp32 logits and the shifted copy that becomes their gradient (fused cross entropy of Unsloth and fms-acceleration)");
        return;
    default:
        if (job->older)
            set(loss, job, 14, 6, "logits, softmax, gradient", "transformers before 4.45: 16-bit, fp32 and shifted logits, log-softmax");
        else
            set(loss, job, 12, 8, "logits, softmax, gradient",
                "transformers' causal loss: fp32 logits, shifted copy or log-softmax, gradient, 4 B each");
    }
}
