/* SPDX-License-Identifier: MIT */
/*
 * training_parts.h - what the common training estimate (training.c) is put together from: states, activations, loss and sharding, each in its own
 * file and computed from the same facts about the job. Pure; numbers only; the terms are written in training_assemble.c.
 */
#pragma once

#include "plan/training.h"

struct uma_training_states {               /* of the whole model, before sharding */
    uint64_t class_bytes[UMA_CLASS_COUNT]; /* resident weights by class */
    uint64_t weights;                      /* their sum */
    uint64_t quant_metadata;               /* of it: scales and zeros of quantised linears, which FSDP does not shard */
    uint64_t largest_layer;                /* weights of one layer, the largest */
    uint64_t root;                         /* embedding, lm_head, final norm: the outermost FSDP unit */
    uint64_t adapter_params;
    uint64_t copied;                      /* weights of modules_to_save: peft trains a copy and keeps the original */
    uint64_t full_params;                 /* trained in full: all, or embedding and lm_head beside an adapter, or a block of BAdam */
    unsigned adapter_bytes;               /* of one adapter weight */
    unsigned full_bytes;                  /* of one weight trained in full */
    unsigned gradient_bytes;              /* of one gradient of those */
    uint64_t master;                      /* fp32 copy of weights trained in full, kept by the optimizer */
    uint64_t adapter_states, full_states; /* the optimizer's */
    uint64_t step_temporary;              /* what the optimizer's step needs beside them for a moment */
    bool quantised;                       /* linears are in less than 8.5 bits */
    bool adapters_whole;                  /* FSDP leaves the adapters on every rank */
};

struct uma_training_activations { /* bytes per token */
    uint64_t checkpoint;          /* kept for one layer when it is recomputed */
    uint64_t checkpoints;         /* of all layers */
    uint64_t saved;               /* kept by all layers when nothing is recomputed */
    uint64_t working;             /* the largest layer while its backward runs, its checkpoint left out */
    uint64_t temporary;           /* of it: gradients in flight */
    uint64_t retained;            /* input gradients that FSDP keeps until the end of backward */
    uint32_t widest;              /* the layer that `working` is of */
    uint64_t saved_layer;         /* of it: what its forward kept */
};

struct uma_training_loss {
    uint64_t per_token; /* logits, their copies and gradient, hidden states around them */
    uint64_t fixed;     /* independent of the token count: gradient of lm_head in a fused linear loss */
    double per_logit;   /* bytes, for the term's text */
    double per_hidden;
    const char *source, *what;
};

struct uma_training_deepspeed { /* bytes on one rank; 0 without ZeRO */
    uint64_t lasting;           /* there from the start to the end */
    uint64_t backward;          /* from the loss to the end of backward */
    uint64_t gathered;          /* weights of other ranks, at most */
    uint64_t step;              /* beside states and 16-bit gradients while the optimizer runs */
    uint64_t side;              /* cached for another stream: held whenever the main stream peaks */
    uint64_t side_at_step;      /* the same where the step is the peak: the part that `step` does not have */
};

enum uma_training_moment { UMA_AT_LOSS = 0, UMA_AT_LAYER, UMA_AT_END, UMA_AT_STEP, UMA_AT_GENERATION, UMA_MOMENTS };

struct uma_training_rollout { /* what GRPO's own generation takes before the step */
    uint64_t completions;     /* at once on this rank */
    uint64_t bytes;           /* their KV cache and logits */
    uint64_t gathered;        /* weights gathered for it */
};

struct uma_training_peak {
    enum uma_training_moment moment;
    uint64_t lasting; /* of the total: weights, adapters and states, which are never freed */
    uint64_t host;    /* beside torch's allocator: offloaded checkpoints, paged states */
};

struct uma_training_job {
    const struct uma_model *model;
    const struct uma_train *train;
    uint64_t tokens;   /* per micro batch and rank, with the doubling of preference objectives */
    uint64_t sequence; /* tokens of one sequence */
    unsigned element;  /* bytes of an activation's element */
    unsigned residual; /* bytes of an element of the residual stream */
    uint64_t ranks;    /* that share the model's states */
    uint64_t split;    /* tp x pp: devices among which layers and matrices are divided (device_map, tensor parallelism) */
    bool shard_weights, shard_gradients, shard_states;
    bool autocast;      /* torch AMP */
    bool fused_kernels; /* norms that keep no fp32 copy */
    bool older;         /* transformers before 4.45 */
    bool wide_norms;    /* LayerNorm in fp32 makes all hidden states fp32 */
    struct uma_training_states states;
    struct uma_training_activations activations;
    struct uma_training_loss loss;
    struct uma_training_deepspeed deepspeed;
};

void uma_training_states_of(struct uma_training_job *job);      /* training_states.c */
void uma_training_activations_of(struct uma_training_job *job); /* training_activations.c */
void uma_training_loss_of(struct uma_training_job *job);        /* training_loss.c */
void uma_training_deepspeed_of(struct uma_training_job *job);   /* training_deepspeed.c; after the states */
bool uma_training_zero(const struct uma_train *train);          /* ZeRO, of any stage */

/* Copies of the second moments that the optimizer's step makes of all parameters at once. */
unsigned uma_training_step_copies(const struct uma_train *train);

uint64_t uma_training_completions(const struct uma_train *train); /* training_extra.c: GRPO, generated at once on a rank */
void uma_training_rollout_of(const struct uma_training_job *job, struct uma_training_rollout *ret_rollout);
uint64_t uma_training_images_kept(const struct uma_training_job *job); /* of all images of a micro batch, for backward */

/* Bytes that one trained parameter costs the optimizer between steps, its weights and gradients in `precision` bytes each. */
double uma_training_optimizer_bytes(enum uma_optimizer optimizer, unsigned precision);
/* Held in less than 16 bits; what nothing is known of is not. */
static inline bool uma_training_is_quantised(enum uma_format format) {
    return format != UMA_FORMAT_UNKNOWN && uma_format_bits(format) < 15;
}
/* A job's quantised format: what the linears are held in; UNKNOWN when as the checkpoint has them. */
enum uma_format uma_training_weight_format(const struct uma_model *model, const struct uma_train *train);
/* Whether the linear has an adapter in this job. */
bool uma_training_adapted(const struct uma_training_job *job, const struct uma_linear *linear);
/* The terms of the peak and all that follows from them. */
void uma_training_assemble(const struct uma_training_job *job, struct uma_estimate *estimate); /* training_assemble.c */
/* reserved, context, device, device_high, and the interval of the total. */
void uma_training_finish(const struct uma_training_job *job, const struct uma_training_peak *peak,
                         struct uma_estimate *estimate); /* training_device.c */
/* Widen the interval by what the user left open, and say what was assumed: training_assumptions.c */
void uma_training_assume(const struct uma_training_job *job, struct uma_estimate *estimate);
