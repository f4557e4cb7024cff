/* SPDX-License-Identifier: MIT */
/*
 * What a framework does when it is told nothing else.
 */
#include "plan/training_parts.h"

#include <string.h>

#define BIT(role) UMA_LINEAR_BIT(UMA_LINEAR_##role)

/* Linears that adapters are put on. peft's own default for decoder models is q and v (peft/utils/constants.py,
 * TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING); torchtune's and litgpt's recipes say q, v (and o); Unsloth, axolotl's examples,
 * LLaMA-Factory and ms-swift take all linears. */
static uint64_t default_targets(enum uma_framework framework) {
    uint64_t attention = BIT(Q) | BIT(K) | BIT(V) | BIT(O) | BIT(Q_A) | BIT(Q_B) | BIT(KV_A) | BIT(KV_B);
    uint64_t all = attention | BIT(GATE) | BIT(UP) | BIT(DOWN) | BIT(SHARED_GATE) | BIT(SHARED_UP) | BIT(SHARED_DOWN) | BIT(MIXER_IN) |
                   BIT(MIXER_GATE) | BIT(MIXER_OUT);
    switch (framework) {
    case UMA_FRAMEWORK_LITGPT:
        return BIT(Q) | BIT(V);
    case UMA_FRAMEWORK_TORCHTUNE:
        return BIT(Q) | BIT(V) | BIT(O);
    default:
        return all;
    }
}

static void set_truth(enum uma_truth *truth, bool yes) {
    if (*truth == UMA_MAYBE)
        *truth = yes ? UMA_YES : UMA_NO;
}

/* Kernels of the loss: TRL, axolotl and the others call transformers' causal loss; Unsloth its own chunked one, torchtune chunks of 8. */
static enum uma_loss default_loss(enum uma_framework framework) {
    switch (framework) {
    case UMA_FRAMEWORK_UNSLOTH:
        return UMA_LOSS_FUSED_LINEAR;
    case UMA_FRAMEWORK_TORCHTITAN: /* whether it compiles its loss goes with --compile */
        return UMA_LOSS_DEFAULT;
    default:
        return UMA_LOSS_FULL;
    }
}

static void shape_defaults(struct uma_train *train) {
    if (train->gpus_per_node == 0) { /* no number of GPUs given: as many as the parallel dimensions ask for */
        uint64_t model = uma_training_model_parallel(train);
        if (uma_training_is_pretrainer(train) && (train->ep > 1 || train->expert_tp > 1))
            model = MAX_OF(model, uma_times(uma_times(MAX_OF(train->ep, 1u), MAX_OF(train->pp, 1u)), MAX_OF(train->expert_tp, 1u)));
        uint64_t each = uma_divide_up(model, MAX_OF(train->nodes, 1u));
        train->gpus_per_node = each < UINT32_MAX ? (uint32_t)each : UINT32_MAX;
    }
    uint32_t *const ones[] = { &train->nodes, &train->gpus_per_node, &train->tp, &train->pp, &train->cp, &train->ep };
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
        if (*ones[i] == 0)
            *ones[i] = 1;
    if (train->batch == 0)
        train->batch = 1;
    if (train->seq == 0)
        train->seq = 2048;
    /* litgpt's recipes fill a global batch of 16 (litgpt/finetune/full.py and lora.py, TrainArgs): gradients of earlier micro batches are there
     * while the next one runs */
    uint64_t at_once = uma_times(train->batch, uma_training_data_parallel(train));
    if (train->accumulation == 0 && train->framework == UMA_FRAMEWORK_LITGPT && at_once > 0)
        train->accumulation = 16 / at_once;
    if (train->accumulation == 0)
        train->accumulation = 1;
    if (train->rank == 0)
        train->rank = 16;
    if (train->group_size == 0)
        train->group_size = 8;
}

/* What is about to be filled in; a second call adds nothing. */
static uint32_t open_decisions(const struct uma_train *train) {
    uint32_t open = train->assumed;
    if (train->batch == 0 && train->tokens == 0)
        open |= UMA_ASSUMED_BATCH;
    if (train->seq == 0 && train->tokens == 0)
        open |= UMA_ASSUMED_SEQ;
    if (train->loss == UMA_LOSS_DEFAULT)
        open |= UMA_ASSUMED_LOSS;
    if (train->autocast == UMA_MAYBE)
        open |= UMA_ASSUMED_AUTOCAST;
    if (train->checkpointing == UMA_CHECKPOINTING_DEFAULT)
        open |= UMA_ASSUMED_CHECKPOINTING;
    if (train->method != UMA_METHOD_FULL && (train->rank == 0 || train->targets == 0))
        open |= UMA_ASSUMED_ADAPTER;
    return open;
}

void uma_train_defaults(const struct uma_model *model, struct uma_train *train) {
    train->assumed = open_decisions(train);
    shape_defaults(train);
    bool pretraining = uma_training_is_pretrainer(train);
    bool zero = train->shard == UMA_SHARD_ZERO1 || train->shard == UMA_SHARD_ZERO2 || train->shard == UMA_SHARD_ZERO3;
    if (train->shard == UMA_SHARD_NONE && !pretraining && uma_training_data_parallel(train) > 1)
        train->shard = UMA_SHARD_DDP;
    if (train->targets == 0)
        train->targets = default_targets(train->framework);
    bool named = train->weights == UMA_FORMAT_F16 || train->weights == UMA_FORMAT_F32;
    if (train->compute == UMA_FORMAT_UNKNOWN && train->framework == UMA_FRAMEWORK_MEGATRON && named)
        train->compute = train->weights; /* --fp16; no mixed precision at all */
    if (train->compute == UMA_FORMAT_UNKNOWN)
        train->compute = train->weights == UMA_FORMAT_F32 && !pretraining && train->autocast != UMA_YES ? UMA_FORMAT_F32 : UMA_FORMAT_BF16;
    if (train->loss == UMA_LOSS_DEFAULT)
        train->loss = default_loss(train->framework);
    /* Gemma 2 caps its attention scores, which the fused kernels of litgpt and transformers' training do not */
    bool capped = model->architecture && strncmp(model->architecture, "gemma2", 6) == 0 && train->framework != UMA_FRAMEWORK_UNSLOTH;
    if (train->attention == UMA_ATTENTION_DEFAULT)
        train->attention = capped ? UMA_ATTENTION_EAGER : UMA_ATTENTION_FLASH;
    if (train->checkpointing == UMA_CHECKPOINTING_DEFAULT && !pretraining)
        train->checkpointing = train->framework == UMA_FRAMEWORK_UNSLOTH  ? UMA_CHECKPOINTING_OFFLOAD
                               : train->framework == UMA_FRAMEWORK_LITGPT ? UMA_CHECKPOINTING_OFF
                                                                          : UMA_CHECKPOINTING_ON;
    /* bf16=True of transformers is autocast; torchtune and litgpt's bf16-true compute in the weights' own format */
    set_truth(&train->autocast, train->framework != UMA_FRAMEWORK_TORCHTUNE && train->framework != UMA_FRAMEWORK_LITGPT);
    /* accelerate turns trained weights under FSDP into fp32 when mixed precision is on; DeepSpeed keeps fp32 masters of 16-bit weights */
    if (!pretraining && train->weights != UMA_FORMAT_F32)
        set_truth(&train->master,
                  train->method == UMA_METHOD_FULL && (zero || (train->shard == UMA_SHARD_FSDP && train->autocast == UMA_YES)));
    /* Pre-training begins with random weights. Distributed checkpoints are read tensor by tensor into buffers (torch.distributed.checkpoint,
     * FileSystemReader); all others are mapped. */
    if (train->loader == UMA_LOADER_DEFAULT && train->objective != UMA_OBJECTIVE_PRETRAIN)
        train->loader = pretraining ? UMA_LOADER_STREAMED : UMA_LOADER_MMAP;
    set_truth(&train->double_quant, true);
    if (train->weights == UMA_FORMAT_NF4_DQ && train->double_quant == UMA_NO)
        train->weights = UMA_FORMAT_NF4;
    if (!pretraining)
        set_truth(&train->compile, false);
    if (train->objective == UMA_OBJECTIVE_DPO || train->objective == UMA_OBJECTIVE_KTO)
        set_truth(&train->reference_model, train->method == UMA_METHOD_FULL);
    else
        set_truth(&train->reference_model, false);
}
