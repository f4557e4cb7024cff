/* SPDX-License-Identifier: MIT */
/*
 * uma_plan.h - what a training or serving job of a model (uma_model.h) needs, steady and while loading, and how that was computed. Pure.
 *
 * Units: bytes, tokens, counts, seconds, ratios 0..1. Sums and products saturate at UINT64_MAX; they never wrap.
 * Ownership: jobs and estimates are plain values that own nothing.
 * Errors, texts and threads: as in uma_model.h.
 */
#ifndef UMA_PLAN_H
#define UMA_PLAN_H

#include "uma_model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- an estimate -------------------------------------------------------------------------------------------- */

/* The groups of the answer; "steady" of `umactl plan --json` in this order. */
enum uma_term {
    UMA_TERM_WEIGHTS = 0,
    UMA_TERM_ADAPTER,
    UMA_TERM_GRADIENTS,
    UMA_TERM_OPTIMIZER,
    UMA_TERM_ACTIVATIONS,
    UMA_TERM_KV_CACHE,
    UMA_TERM_COMPUTE_BUFFERS,
    UMA_TERM_OVERHEAD,
    UMA_TERM_COUNT,
};

enum { UMA_PLAN_TERMS_MAX = 40, UMA_PLAN_TEXT = 256, UMA_PLAN_WARNINGS_MAX = 12 };

/* One line of --explain. */
struct uma_plan_term {
    enum uma_term group;
    uint64_t bytes, low, high;
    bool between_steps;          /* training: still there between two steps (weights, optimizer state), not only at the peak */
    char what[48];               /* "LoRA adapter", "logits and their gradient" */
    char formula[UMA_PLAN_TEXT]; /* with the numbers in it: "4096 tokens x 128256 vocab x 14 B" */
    const char *source;          /* where the rule comes from; a literal */
};

struct uma_load {
    uint64_t peak;          /* most bytes out of the pool while loading, reclaimable page cache left out: what MemAvailable must have */
    uint64_t page_cache;    /* cache that the loader leaves or needs beside it: MemFree falls by it, MemAvailable does not */
    uint64_t staging;       /* of peak: anonymous memory that is gone after the load */
    uint64_t growth;        /* of peak: a second copy while weights are repacked or quantised on load; gone after it */
    uint64_t needs_free;    /* MemFree that lets it run without reclaim: GPU allocations on GB10 fail where free pages run out although
                                 clean cache would do (safetensors PR 759) */
    struct uma_f64 seconds; /* known only when a read speed was given */
    const char *loader;     /* literal: "mmap", "eager", "streamed", "direct"; NULL: nothing is loaded */
};

struct uma_limits { /* what still fits the given budget; unknown where it has no meaning */
    struct uma_u64 max_seq, max_batch, max_sequences, max_context;
};

struct uma_estimate {
    struct uma_plan_term terms[UMA_PLAN_TERMS_MAX];
    uint32_t term_count;
    uint64_t groups[UMA_TERM_COUNT]; /* sums of terms */
    /* sum of groups: what the framework's allocator has handed out at the peak (torch max_memory_allocated), or the engine's own sum */
    uint64_t total;
    /* serving: of total. Training: of what may be seen of the job, from the least that the allocator hands out to what it holds (fragments) with
     * the CUDA context */
    uint64_t low, high;
    uint64_t between_steps;    /* training: allocated between two steps */
    uint64_t params_trainable; /* training: of the whole model, over all ranks */
    uint64_t reserved;         /* what the allocator holds for it (torch reserved): total and its fragmentation */
    uint64_t context;          /* CUDA context, libraries, workers: outside every allocator */
    uint64_t host;             /* host memory of the processes beside it: on one pool it counts as well */
    uint64_t device;           /* reserved + context + host: what leaves the pool. The verdict uses this */
    uint64_t device_high;      /* the same at the interval's upper end */
    struct uma_load load;
    uint32_t warning_count;
    char warnings[UMA_PLAN_WARNINGS_MAX][UMA_PLAN_TEXT];
    uint32_t flag_count;
    char flags[UMA_PLAN_WARNINGS_MAX][UMA_PLAN_TEXT]; /* options for the engine's command line */
};

/* How weights come off the storage: pages of the mapped files; the files read whole into host memory first; tensor by tensor through a small
 * buffer; past the page cache (O_DIRECT). */
enum uma_loader { UMA_LOADER_DEFAULT = 0, UMA_LOADER_MMAP, UMA_LOADER_EAGER, UMA_LOADER_STREAMED, UMA_LOADER_DIRECT, UMA_LOADER_COUNT };

/* ---- training ----------------------------------------------------------------------------------------------- */

enum uma_method { UMA_METHOD_FULL = 0, UMA_METHOD_LORA, UMA_METHOD_QLORA };
enum uma_objective {
    UMA_OBJECTIVE_SFT = 0,
    UMA_OBJECTIVE_PRETRAIN,
    UMA_OBJECTIVE_DPO,
    UMA_OBJECTIVE_ORPO,
    UMA_OBJECTIVE_KTO,
    UMA_OBJECTIVE_GRPO,
    UMA_OBJECTIVE_COUNT,
};
enum uma_optimizer {
    UMA_OPTIMIZER_ADAMW = 0, /* torch default: foreach */
    UMA_OPTIMIZER_ADAMW_FUSED,
    UMA_OPTIMIZER_ADAMW_8BIT,
    UMA_OPTIMIZER_ADAMW_4BIT,
    UMA_OPTIMIZER_PAGED_ADAMW,
    UMA_OPTIMIZER_PAGED_ADAMW_8BIT,
    UMA_OPTIMIZER_ADAFACTOR,
    UMA_OPTIMIZER_LION,
    UMA_OPTIMIZER_LION_8BIT,
    UMA_OPTIMIZER_SGD,
    UMA_OPTIMIZER_SGD_MOMENTUM,
    UMA_OPTIMIZER_MUON,
    UMA_OPTIMIZER_GALORE,
    UMA_OPTIMIZER_LOMO,
    UMA_OPTIMIZER_BADAM,
    UMA_OPTIMIZER_COUNT,
};
enum uma_checkpointing {
    UMA_CHECKPOINTING_DEFAULT = 0,
    UMA_CHECKPOINTING_ON,
    UMA_CHECKPOINTING_OFF,
    UMA_CHECKPOINTING_SELECTIVE,
    UMA_CHECKPOINTING_OFFLOAD,
    UMA_CHECKPOINTING_COUNT,
};
enum uma_attention { UMA_ATTENTION_DEFAULT = 0, UMA_ATTENTION_FLASH, UMA_ATTENTION_EAGER, UMA_ATTENTION_COUNT };
enum uma_loss { UMA_LOSS_DEFAULT = 0, UMA_LOSS_FULL, UMA_LOSS_FUSED, UMA_LOSS_FUSED_LINEAR, UMA_LOSS_CHUNKED, UMA_LOSS_COUNT };
enum uma_framework {
    UMA_FRAMEWORK_TORCH = 0, /* transformers, TRL, PEFT, accelerate */
    UMA_FRAMEWORK_UNSLOTH,
    UMA_FRAMEWORK_TORCHTUNE,
    UMA_FRAMEWORK_TORCHTITAN,
    UMA_FRAMEWORK_MEGATRON,
    UMA_FRAMEWORK_AXOLOTL,
    UMA_FRAMEWORK_LLAMA_FACTORY,
    UMA_FRAMEWORK_MS_SWIFT,
    UMA_FRAMEWORK_LITGPT,
    UMA_FRAMEWORK_COUNT,
};
enum uma_shard {
    UMA_SHARD_NONE = 0,
    UMA_SHARD_DDP,
    UMA_SHARD_FSDP,
    UMA_SHARD_ZERO1,
    UMA_SHARD_ZERO2,
    UMA_SHARD_ZERO3,
    UMA_SHARD_TP,
    UMA_SHARD_COUNT
};

struct uma_train {
    enum uma_method method;
    enum uma_objective objective;
    enum uma_optimizer optimizer;
    enum uma_checkpointing checkpointing;
    enum uma_attention attention;
    enum uma_loss loss;
    enum uma_framework framework;
    enum uma_shard shard;
    enum uma_format weights;     /* UNKNOWN: the checkpoint's own, NF4 with double quantisation for QLoRA of an unquantised one */
    enum uma_format compute;     /* UNKNOWN: bf16 */
    enum uma_truth master;       /* fp32 master weights (AMP over fp32, Megatron); MAYBE: the framework's default */
    enum uma_truth autocast;     /* torch AMP on */
    enum uma_truth double_quant; /* of NF4 */
    enum uma_truth compile;
    enum uma_truth packing;
    uint64_t batch, seq;   /* micro batch and sequence length per rank; 0: 1 and 2048 */
    uint64_t tokens;       /* > 0: tokens per micro batch really (padding-free, packed), instead of batch x seq */
    uint64_t accumulation; /* gradient accumulation steps; 0: 1 */
    uint32_t rank;         /* LoRA; 0: 16 */
    uint64_t targets;      /* UMA_LINEAR_BIT(...); 0: the framework's default */
    bool train_embeddings; /* embedding and lm_head trained in full beside the adapter (modules_to_save) */
    bool dora;
    bool freeze_vision;
    uint32_t nodes, gpus_per_node; /* 0: 1 */
    uint32_t tp, pp, cp, ep;       /* 0: 1; what remains of the ranks is data parallel */
    bool sequence_parallel, distributed_optimizer;
    enum uma_truth reference_model; /* DPO: a second copy; MAYBE: full has one, LoRA switches its adapter off */
    uint64_t generation_bytes;      /* GRPO: what a generation engine on the same pool is given; 0: the trainer generates itself */
    uint32_t group_size;            /* GRPO completions per prompt; 0: 8 */
    uint64_t images;                /* per sample; 0: none */
    /* pipelines and what Megatron asks beyond the above */
    uint32_t pipeline_stage;    /* 1..pp: the estimate is of a rank of this stage; 0: the largest of all stages */
    uint32_t virtual_stages;    /* model chunks per rank of an interleaved schedule; 0: 1 */
    uint32_t microbatch_group;  /* micro batches that a chunk takes before the next chunk's turn; 0: pp */
    uint32_t expert_tp;         /* tensor-parallel ranks of routed experts; 0: tp */
    uint32_t recompute_layers;  /* full checkpointing keeps the input of every so many layers; 0: 1 */
    uint32_t recompute_modules; /* UMA_RECOMPUTE_* bits of selective checkpointing; 0: the attention scores */
    enum uma_format gradients;  /* accumulated gradients; UNKNOWN: the framework's default (Megatron fp32) */
    enum uma_format moments;    /* Adam's two states; UNKNOWN: fp32, or the optimizer's own */
    enum uma_format residual;   /* hidden states between layers; UNKNOWN: as compute, but fp32 where peft's prepare_model_for_kbit_training
                                   turns them (--residual; QLoRA by plain transformers + peft) */
    enum uma_truth dropout; /* masks of hidden and attention dropout are kept; MAYBE: no, but Megatron's default for GPT-2-like models */
    enum uma_truth transformer_engine; /* Megatron's layers by TransformerEngine; MAYBE: yes */
    enum uma_truth grouped_gemm;       /* experts computed in one grouped multiplication; MAYBE: yes */
    enum uma_truth deterministic;      /* deterministic kernels: CUBLAS_WORKSPACE_CONFIG=:4096:8 */
    uint32_t vocab_multiple;           /* vocabulary padded to this x tp; 0: the framework's default (Megatron 128) */
    uint32_t compute_capability;       /* of the GPU, x 10: 80, 90, 100, 121; 0: not stated. Decides the libraries' workspaces */
    enum uma_loader loader;            /* DEFAULT: the framework's; where the job begins with random weights, none */
    double read_bytes_per_second;      /* storage; 0: not known */
    uint32_t torch_release;            /* 1000 x major + minor (2.1: 2001); 0: a current one. Before 2.1 AdamW's step takes more */
    uint32_t assumed;                  /* UMA_ASSUMED_* of what uma_train_defaults filled in: the interval is wider by it */
};

enum {
    UMA_ASSUMED_BATCH = 1 << 0,
    UMA_ASSUMED_SEQ = 1 << 1,
    UMA_ASSUMED_LOSS = 1 << 2,
    UMA_ASSUMED_AUTOCAST = 1 << 3,
    UMA_ASSUMED_CHECKPOINTING = 1 << 4,
    UMA_ASSUMED_ADAPTER = 1 << 5, /* its rank or its targets */
};

/* Parts whose activations selective checkpointing computes again (Megatron --recompute-modules). */
enum {
    UMA_RECOMPUTE_ATTENTION = 1 << 0, /* core_attn */
    UMA_RECOMPUTE_MLP = 1 << 1,
    UMA_RECOMPUTE_MOE = 1 << 2,
    UMA_RECOMPUTE_EXPERT_ACTIVATION = 1 << 3, /* moe_act */
    UMA_RECOMPUTE_NORM = 1 << 4,              /* layernorm */
    UMA_RECOMPUTE_MLA_UP = 1 << 5,            /* mla_up_proj */
    UMA_RECOMPUTE_SHARED_EXPERTS = 1 << 6,
};

/* Fill what is 0/DEFAULT/MAYBE with what this framework would do; what the answer states as its assumptions. */
void uma_train_defaults(const struct uma_model *model, struct uma_train *train);
/* Per rank; defaults are filled in. -EINVAL for what cannot be (tp beyond heads, ranks that tp x pp x cp do not divide). */
int uma_plan_train(const struct uma_model *model, const struct uma_train *train, struct uma_estimate *ret_estimate, struct uma_error *err);

/* ---- serving ------------------------------------------------------------------------------------------------ */

/* Which positions of a prompt get logits out of transformers, and in what: the last one (4.45 and later, where the model's code takes
 * logits_to_keep); all, in the model's own 16 bits (code that does not); all, and once more in fp32 (before 4.45). */
enum uma_logits { UMA_LOGITS_LAST = 0, UMA_LOGITS_ALL, UMA_LOGITS_ALL_FP32, UMA_LOGITS_COUNT };

struct uma_serve {
    enum uma_engine engine;
    enum uma_format weights; /* UNKNOWN: the checkpoint's own; else quantised on load */
    bool stored;             /* `weights` is the format of the checkpoint itself, not one that is made while loading */
    enum uma_format key_format, value_format;
    uint64_t context;   /* per sequence; 0: the engine's default for this model */
    uint64_t sequences; /* at once; 0: 1 */
    uint32_t tp, pp;    /* 0: 1, or what divides the model over `nodes`; result is per rank */
    uint32_t nodes;     /* 0: tp x pp, a pool for each rank */
    double fraction;    /* --gpu-memory-utilization, --mem-fraction-static, free_gpu_memory_fraction; 0: not given */
    uint64_t pool;      /* bytes that the fraction is of; 0: not known */
    enum uma_loader loader;
    uint64_t batched_tokens; /* max_num_batched_tokens, chunked prefill size; 0: the engine's default */
    uint32_t batch, ubatch;  /* llama.cpp -b, -ub; 0: 2048, 512 */
    int64_t gpu_layers;      /* -ngl; < 0: all */
    enum uma_truth flash_attention, cuda_graphs, compile;
    bool full_window, mla_expanded, mla_transposed;
    /* ik_llama.cpp -mla 2 and 3 multiply the latent out for a prompt, so many bytes (-amb) at once; UINT64_MAX: all heads at once; 0: they do
     * not, as llama.cpp, whose queries meet the latent itself */
    uint64_t mla_batch;
    bool no_mtp;                  /* do not load MTP layers */
    bool mtp;                     /* speculate with them */
    uint64_t draft_bytes;         /* a drafter's weights and cache, already computed */
    uint64_t projector_bytes;     /* a separate projector file (mmproj) */
    uint64_t prompt_tokens;       /* transformers: prefill length (unchunked, unless batched_tokens is less); 0: context */
    enum uma_logits logits;       /* transformers */
    bool tuple_cache;             /* transformers before 4.36, and model code of that age: the cache is a tuple that each step makes anew */
    double read_bytes_per_second; /* storage; 0: not known */
    uint64_t assumed_context;     /* what uma_serve_defaults took where no context was given; 0: one was */
};

/* Fill what is 0/UNKNOWN/MAYBE with what this engine would do with this model. */
void uma_serve_defaults(const struct uma_model *model, struct uma_serve *serve);
/* Per rank; defaults are filled in. -EINVAL for what cannot be (more stages than layers, an engine that is not named). */
int uma_plan_serve(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *ret_estimate, struct uma_error *err);
/* Tokens of KV and sequences that an engine gets out of `pool` bytes with `serve->fraction` (TRT-LLM: of what is free after the weights). */
int uma_serve_capacity(const struct uma_model *model, const struct uma_serve *serve, uint64_t pool, uint64_t max_seq_len,
                       uint64_t *ret_kv_bytes, uint64_t *ret_tokens, uint64_t *ret_sequences, struct uma_error *err);

/* Peak and page cache while loading `resident` bytes of weights out of the model's files. */
void uma_plan_load(const struct uma_model *model, enum uma_engine engine, enum uma_loader loader, uint64_t resident,
                   double read_bytes_per_second, struct uma_load *ret_load);

#ifdef __cplusplus
}
#endif

#endif
