/* SPDX-License-Identifier: MIT */
/*
 * uma_model.h - what a model is: number formats, layers and weights as its files say them (headers only) or its name or shape implies, the
 * matrices of a layer and the KV cache. uma_plan.h plans jobs of it. Pure functions of their inputs but for uma_model_open, which reads files and,
 * for names, the environment (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, OLLAMA_MODELS, HOME).
 *
 * Units: bytes, tokens, counts. Sums and products saturate at UINT64_MAX; they never wrap.
 * Ownership: a model owns all it points to (uma_model_free).
 * Errors: as in uma.h: 0 or a positive result, or a negative errno with *err set (err may be NULL); ret_ parameters are untouched on failure.
 * Texts: names, sources and warnings of a model hold what its files and its user say, as it is: escape it before you print it. Numbers in texts
 * have the decimal point of the caller's locale.
 * Threads: no global state; distinct objects are independent, and a model that nobody changes may be read from many threads.
 */
#ifndef UMA_MODEL_H
#define UMA_MODEL_H

#include "uma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- number formats ----------------------------------------------------------------------------------------- */

/*
 * X(ID, "name", elements of a block, bytes of a block). Bytes hold the scales and zeros that belong to a block. ggml types by the block
 * structs of ggml-common.h; OCP MX v1.0 for MX formats; QLoRA (arXiv:2305.14314) for NF4, whose double quantisation keeps one byte per 64
 * values and one fp32 per 256 of those; the others by the arithmetic of their group size.
 */
#define UMA_FORMATS(X)                                                                                                                     \
    X(F64, "f64", 1, 8)                                                                                                                    \
    X(F32, "f32", 1, 4)                                                                                                                    \
    X(F16, "f16", 1, 2)                                                                                                                    \
    X(BF16, "bf16", 1, 2)                                                                                                                  \
    X(I64, "i64", 1, 8)                                                                                                                    \
    X(I32, "i32", 1, 4)                                                                                                                    \
    X(I16, "i16", 1, 2)                                                                                                                    \
    X(I8, "i8", 1, 1)                                                                                                                      \
    X(BOOL, "bool", 1, 1)                                                                                                                  \
    X(FP8, "fp8", 1, 1)                                                                                                                    \
    X(FP8_BLOCK128, "fp8-block128", 16384, 16388)                                                                                          \
    X(INT8, "int8", 1, 1)                                                                                                                  \
    X(MXFP8, "mxfp8", 32, 33)                                                                                                              \
    X(MXFP6, "mxfp6", 32, 25)                                                                                                              \
    X(MXFP4, "mxfp4", 32, 17)                                                                                                              \
    X(NVFP4, "nvfp4", 16, 9)                                                                                                               \
    X(NF4, "nf4", 64, 36)                                                                                                                  \
    X(NF4_DQ, "nf4-dq", 16384, 8452)                                                                                                       \
    X(GPTQ4_G128, "gptq4-g128", 256, 133)                                                                                                  \
    X(GPTQ4_G64, "gptq4-g64", 128, 69)                                                                                                     \
    X(GPTQ4_G32, "gptq4-g32", 64, 37)                                                                                                      \
    X(GPTQ8_G128, "gptq8-g128", 128, 131)                                                                                                  \
    X(GPTQ4_CHANNEL, "gptq4-channel", 8192, 4100)                                                                                          \
    X(AWQ4_G128, "awq4-g128", 256, 133)                                                                                                    \
    X(W4A16_G128, "w4a16-g128", 128, 66)                                                                                                   \
    X(HQQ4_G64, "hqq4-g64", 64, 36)                                                                                                        \
    X(Q4_0, "q4_0", 32, 18)                                                                                                                \
    X(Q4_1, "q4_1", 32, 20)                                                                                                                \
    X(Q5_0, "q5_0", 32, 22)                                                                                                                \
    X(Q5_1, "q5_1", 32, 24)                                                                                                                \
    X(Q8_0, "q8_0", 32, 34)                                                                                                                \
    X(Q8_1, "q8_1", 32, 36)                                                                                                                \
    X(Q2_K, "q2_k", 256, 84)                                                                                                               \
    X(Q3_K, "q3_k", 256, 110)                                                                                                              \
    X(Q4_K, "q4_k", 256, 144)                                                                                                              \
    X(Q5_K, "q5_k", 256, 176)                                                                                                              \
    X(Q6_K, "q6_k", 256, 210)                                                                                                              \
    X(Q8_K, "q8_k", 256, 292)                                                                                                              \
    X(IQ2_XXS, "iq2_xxs", 256, 66)                                                                                                         \
    X(IQ2_XS, "iq2_xs", 256, 74)                                                                                                           \
    X(IQ2_S, "iq2_s", 256, 82)                                                                                                             \
    X(IQ3_XXS, "iq3_xxs", 256, 98)                                                                                                         \
    X(IQ3_S, "iq3_s", 256, 110)                                                                                                            \
    X(IQ1_S, "iq1_s", 256, 50)                                                                                                             \
    X(IQ1_M, "iq1_m", 256, 56)                                                                                                             \
    X(IQ4_NL, "iq4_nl", 32, 18)                                                                                                            \
    X(IQ4_XS, "iq4_xs", 256, 136)                                                                                                          \
    X(TQ1_0, "tq1_0", 256, 54)                                                                                                             \
    X(TQ2_0, "tq2_0", 256, 66)                                                                                                             \
    X(IQ2_K, "iq2_k", 256, 76)                                                                                                             \
    X(IQ3_K, "iq3_k", 256, 110)                                                                                                            \
    X(IQ4_K, "iq4_k", 256, 144)                                                                                                            \
    X(IQ5_K, "iq5_k", 256, 176)                                                                                                            \
    X(IQ6_K, "iq6_k", 256, 212)                                                                                                            \
    X(IQ4_KS, "iq4_ks", 256, 136)                                                                                                          \
    X(IQ4_KT, "iq4_kt", 256, 128)                                                                                                          \
    X(IQ1_KT, "iq1_kt", 256, 56)                                                                                                           \
    X(IQ2_KT, "iq2_kt", 256, 68)                                                                                                           \
    X(IQ3_KT, "iq3_kt", 256, 100)                                                                                                          \
    X(IQ2_KS, "iq2_ks", 256, 70)                                                                                                           \
    X(IQ2_KL, "iq2_kl", 256, 86)                                                                                                           \
    X(IQ3_KS, "iq3_ks", 256, 102)                                                                                                          \
    X(IQ4_KSS, "iq4_kss", 256, 128)                                                                                                        \
    X(IQ5_KS, "iq5_ks", 256, 168)                                                                                                          \
    X(Q6_0, "q6_0", 32, 26)                                                                                                                \
    X(Q8_KV, "q8_kv", 32, 32)                                                                                                              \
    X(IQ1_BN, "iq1_bn", 64, 13)                                                                                                            \
    X(IQ2_BN, "iq2_bn", 64, 16)                                                                                                            \
    X(Q1_0, "q1_0", 128, 18)                                                                                                               \
    X(Q2_0, "q2_0", 64, 18)

enum uma_format {
    UMA_FORMAT_UNKNOWN = 0,
#define UMA_FORMAT_ENUM(id, name, elements, bytes) UMA_FORMAT_##id,
    UMA_FORMATS(UMA_FORMAT_ENUM)
#undef UMA_FORMAT_ENUM
        UMA_FORMAT_COUNT,
};

const char *uma_format_name(enum uma_format format); /* "?" for unknown */
/* By its name above, or by what users and files call it (bfloat16, BF16, float16, F8_E4M3, bnb-nf4, int4 -> gptq4-g128, Q4_K ...). */
enum uma_format uma_format_from_name(const char *name);
/* Bytes of so many elements, rounded up to whole blocks. */
uint64_t uma_format_bytes(enum uma_format format, uint64_t elements);
double uma_format_bits(enum uma_format format); /* of one element, scales in; 0 for unknown */
/*
 * Bits per weight of a whole GGUF file of this type ("Q4_K_M", "UD-Q4_K_XL", "IQ4_XS", "Q4_K - Medium"), embeddings and output tensor in, which
 * its recipe keeps at more bits; an average over models, some 2 % either way. Of a plain format: its own bits. 0: not known.
 */
double uma_file_type_bits(const char *name);

/* ---- models ------------------------------------------------------------------------------------------------- */

/* What tensors are for. Memory rules differ by class: quantisers leave some alone, tensor parallelism divides some. */
enum uma_class {
    UMA_CLASS_EMBEDDING = 0, /* token embedding (the one tensor, when tied) */
    UMA_CLASS_LM_HEAD,       /* output projection, when it is a tensor of its own */
    UMA_CLASS_NORM,          /* norms, biases, sinks, other vectors */
    UMA_CLASS_ATTENTION,     /* linears of softmax attention and MLA, indexers */
    UMA_CLASS_MIXER,         /* linears, convolutions and state of linear attention and Mamba */
    UMA_CLASS_MLP,           /* linears of dense feed-forward and of shared experts */
    UMA_CLASS_EXPERTS,       /* routed experts */
    UMA_CLASS_ROUTER,
    UMA_CLASS_VISION, /* vision and audio towers and their projectors */
    UMA_CLASS_MTP,    /* multi-token-prediction and draft layers kept in the checkpoint */
    UMA_CLASS_OTHER,  /* per-layer embeddings and what no rule knows */
    UMA_CLASS_COUNT,
};

struct uma_tensor_total {
    uint64_t tensors; /* as stored, scales included */
    uint64_t params;  /* elements before packing; scales and zeros are not parameters */
    uint64_t bytes;   /* as stored, scales included */
};

enum uma_mixer {
    UMA_MIXER_NONE = 0,    /* no token mixing in this layer (a feed-forward-only block, a NAS no-op) */
    UMA_MIXER_ATTENTION,   /* softmax attention, MHA/GQA/MQA; window > 0: sliding */
    UMA_MIXER_MLA,         /* multi-head latent attention */
    UMA_MIXER_GATED_DELTA, /* Qwen3-Next/3.5 linear attention */
    UMA_MIXER_KDA,         /* Kimi linear attention */
    UMA_MIXER_MAMBA1,
    UMA_MIXER_MAMBA2,
    UMA_MIXER_LIGHTNING, /* MiniMax linear attention */
    UMA_MIXER_LINEAR,    /* NAS: attention replaced by one matrix */
};

enum uma_ffn { UMA_FFN_NONE = 0, UMA_FFN_DENSE, UMA_FFN_MOE, UMA_FFN_LINEAR };

struct uma_model_layer {
    enum uma_mixer mixer;
    enum uma_ffn ffn;
    bool shares_kv;      /* uses an earlier layer's KV cache (Gemma 3n/4) */
    bool key_is_value;   /* one tensor serves as K and V (Gemma 4 global layers): no v_proj; the cache still keeps both */
    bool output_gate;    /* q_proj is twice as wide (Qwen3-Next/3.5) */
    bool indexed;        /* has a sparse-attention indexer (DSA) */
    bool ffn_gated;      /* SwiGLU/GeGLU: three matrices, not two */
    bool sinks;          /* one learned attention sink per head */
    bool shares_weights; /* its matrices are an earlier layer's (Zamba 2): no parameters of its own, but a cache of its own */
    uint32_t heads, kv_heads;
    uint32_t head_dim, v_head_dim; /* of q and k; of v */
    uint32_t window;               /* tokens; 0: full attention */
    uint64_t ffn_size;             /* dense intermediate size, or the size of one routed expert */
    uint64_t shared_ffn_size;      /* all shared experts together */
    uint32_t experts, experts_per_token;
    uint32_t expert_input;   /* width that experts see when not hidden_size (Nemotron 3 latent MoE); else 0 */
    uint32_t input;          /* width that attention sees when not hidden_size (Zamba 2: the embedding beside it); else 0 */
    uint32_t kv_compression; /* DeepSeek-V4: beyond the window one entry is kept for so many tokens; 0: every token */
};

/* Small parts that only a count of parameters from the configuration asks for; all zero in a model read from tensors. */
struct uma_model_details {
    bool norm_bias;    /* LayerNorm with a bias */
    bool norm_none;    /* normalisation without parameters */
    bool qk_norm_full; /* q and k norms over all heads, not one head_dim */
    bool q_bias_only;  /* qkv_bias without one on k (Whisper-like) */
    bool router_bias;  /* a bias or score correction per expert */
    bool router_scale; /* Gemma 4: the router's input scale and one scale per expert */
    bool expert_bias;  /* experts' matrices have biases */
    bool own_kv;       /* layers with shares_kv have k and v matrices all the same (Gemma 3n) */
    bool shared_gate;  /* a one-row gate on the shared expert */
    bool lm_head_bias, conv_bias;
    bool embedding_norm;            /* a norm after the embedding (BLOOM) */
    bool full_rank_gate;            /* KDA's output gate is one matrix, not two of low rank */
    uint64_t positions;             /* rows of a learned position embedding */
    uint32_t router_extra;          /* rows of the router beyond the experts (zero-computation experts) */
    uint32_t layer_input;           /* Gemma 3n/4: width of the per-layer embeddings */
    uint64_t layer_vocab;           /* ... and their rows */
    uint32_t altup, laurel;         /* Gemma 3n: copies of the residual stream and rank of its low-rank branch */
    uint32_t o_groups, o_lora_rank; /* DeepSeek-V4: the output projection in groups of low rank */
    uint32_t dt_rank;               /* Mamba 1 */
    uint64_t mtp_params;            /* of all MTP layers */
    uint64_t vision_params;         /* of all towers and their projectors */
};

/* How the totals were come by. */
enum uma_basis {
    UMA_BASIS_TENSORS = 0, /* summed from tensor headers */
    UMA_BASIS_STRUCTURE,   /* computed from the configuration: architecture is known */
    UMA_BASIS_GUESS,       /* from a parameter count and a typical shape, or an unknown architecture's configuration */
};

enum { UMA_MODEL_LAYERS_MAX = 2048, UMA_MODEL_WARNINGS_MAX = 8, UMA_MODEL_WARNING_TEXT = 200 };

struct uma_model {
    char *name;         /* as the user gave it, or the model's own */
    char *architecture; /* model_type, or GGUF's general.architecture; "unknown" */
    char *source;       /* "tensors of 191 files in DIR", "config.json of DIR", "built-in shape of meta-llama/Llama-3.1-8B" */
    enum uma_basis basis;
    bool architecture_known;

    uint32_t hidden;
    uint64_t vocab;
    uint64_t max_position;    /* 0: not stated */
    bool gguf;                /* read from GGUF files, Ollama's too */
    uint64_t default_context; /* tokens the files ask an engine to serve (num_ctx of an Ollama model); 0: nothing said */
    bool tied;                /* lm_head is the embedding */
    bool qkv_bias, o_bias, mlp_bias, qk_norm;
    uint32_t norms_per_layer; /* 2; Gemma 4 */
    struct uma_model_details details;
    uint32_t layer_count;
    struct uma_model_layer *layers;

    /* MLA and its indexer; 0 where there is none */
    uint32_t q_lora_rank, kv_lora_rank, qk_nope_dim, qk_rope_dim;
    uint32_t index_head_dim, index_heads;
    /* linear attention and Mamba */
    uint32_t linear_key_heads, linear_value_heads, linear_key_dim, linear_value_dim, linear_conv;
    uint32_t ssm_heads, ssm_head_dim, ssm_state, ssm_groups, ssm_conv;
    uint64_t ssm_inner;
    uint32_t ssm_state_bytes; /* bytes per element of the recurrent state (mamba_ssm_dtype); 0: 4 */
    /* other parts */
    uint32_t mtp_layers;
    bool has_vision;
    uint32_t vision_hidden, vision_layers, vision_tokens; /* tokens: of one image at the model's usual size; 0: not stated */

    /* weights */
    enum uma_format class_format[UMA_CLASS_COUNT]; /* the format that holds most of a class */
    struct uma_tensor_total totals[UMA_CLASS_COUNT];
    char *quantisation; /* quant_method or the file type ("gptq", "modelopt NVFP4", "Q4_K - Medium"); NULL: none */
    /* of the KV cache, where the checkpoint asks for one (kv_cache_quant_algo, kv_cache_scheme); UNKNOWN: it does not */
    enum uma_format kv_format;

    /* files; 0 where nothing was read */
    uint32_t file_count;
    uint64_t file_bytes, largest_file, largest_tensor;
    uint64_t file_cached; /* bytes already in the page cache; only when it was asked for */

    /* an adapter_config.json beside the model, or the folder itself was an adapter; rank 0: none */
    uint32_t adapter_rank;
    uint64_t adapter_bytes;

    uint32_t warning_count;
    char warnings[UMA_MODEL_WARNINGS_MAX][UMA_MODEL_WARNING_TEXT];
};

/* --params with an optional shape; 0: not given. */
struct uma_shape {
    uint64_t params;
    uint32_t hidden, layers, heads, kv_heads, head_dim;
    uint64_t ffn, vocab;
    uint32_t experts, experts_per_token;
    uint64_t expert_ffn;
    enum uma_truth tied;
    /* with hidden, layers, heads, ffn and vocab given the shape is taken exactly, and these, too */
    enum uma_truth gated;     /* SwiGLU: three matrices; MAYBE: yes */
    enum uma_truth bias;      /* on every linear; MAYBE: no */
    enum uma_truth norm_bias; /* LayerNorm, not RMSNorm; MAYBE: as `bias` */
    uint64_t positions;       /* rows of a learned position embedding */
    uint64_t shared_ffn;      /* all shared experts of a layer together */
    uint32_t dense_layers;    /* leading layers of a mixture of experts that are dense */
    uint32_t mtp_layers;
    uint32_t q_lora_rank, kv_lora_rank, qk_nope_dim, qk_rope_dim, v_head_dim; /* kv_lora_rank > 0: MLA */
    /* Megatron's pattern of a hybrid: M Mamba 2, * attention, - MLP, E experts; NULL: attention and feed-forward in every layer. Borrowed */
    const char *pattern;
    uint32_t ssm_heads, ssm_head_dim, ssm_state, ssm_groups; /* 0: 2 x hidden / head_dim, 64, 128, 8 */
};

/*
 * Read a model, headers only. `path`: a Hugging Face folder (or its hub cache folder), a .safetensors file, a .gguf file (any part of a split
 * one), an Ollama manifest or models folder ("DIR:name:tag"), a config.json; or, where no such file exists, a name: looked up in the local
 * Hugging Face hub cache and Ollama store, then among the built-in shapes. Memory stays below 64 MiB and time about a second on any input.
 * -ENOENT: neither a file nor a known name; -EINVAL, -EFBIG, -ENOTSUP: a file that is malformed, too large or of a kind that is not read.
 */
int uma_model_open(const char *path, struct uma_model **ret_model, struct uma_error *err);
/*
 * A built-in shape by name ("meta-llama/Llama-3.1-8B", "qwen3-8b"); case, organisation and endings like -Instruct do not matter, -GPTQ and its
 * like say the format. -ENOENT: no such shape; the message names some that are near.
 */
int uma_model_builtin(const char *name, struct uma_model **ret_model, struct uma_error *err);
/* From a configuration text (config.json; quant_text: hf_quant_config.json or NULL). `name`: for messages. */
int uma_model_from_config(const char *name, const char *text, size_t length, const char *quant_text, size_t quant_length,
                          struct uma_model **ret_model, struct uma_error *err);
/* From a parameter count and what else is known of the shape; the rest is taken from the built-in shape nearest to it. */
int uma_model_from_shape(const struct uma_shape *given, struct uma_model **ret_model, struct uma_error *err);
struct uma_model *uma_model_free(struct uma_model *model); /* NULL is fine; returns NULL */

/* Sums over the classes. Totals leave nothing out: vision and MTP are in. */
uint64_t uma_model_params(const struct uma_model *model);
uint64_t uma_model_bytes(const struct uma_model *model);

/* Give every quantisable linear (attention, mixer, MLP, experts, router left alone) a format, as a quantiser would; totals follow. For
 * "load this bf16 checkpoint as NF4". F32/F16/BF16 apply to every class. */
void uma_model_set_format(struct uma_model *model, enum uma_format format);
/*
 * Make the model a GGUF file of this type, as llama-quantize would ("Q4_K_M", "IQ4_XS", "Q8_0", "Q4_K - Medium", "BF16"): every class gets its
 * recipe's formats, embedding and output tensor too; norms and routers F32. 0, -ENOMEM, or -EINVAL when the name is none of a GGUF file
 * (nothing is changed then). For formats of llama.cpp and Ollama in place of uma_model_set_format.
 */
int uma_model_set_file_type(struct uma_model *model, const char *name);

/* ---- the linears of a layer --------------------------------------------------------------------------------- */

enum uma_linear_role {
    UMA_LINEAR_Q = 0,
    UMA_LINEAR_K,
    UMA_LINEAR_V,
    UMA_LINEAR_O, /* attention */
    UMA_LINEAR_Q_A,
    UMA_LINEAR_Q_B,
    UMA_LINEAR_KV_A,
    UMA_LINEAR_KV_B,  /* MLA */
    UMA_LINEAR_INDEX, /* the indexer's */
    UMA_LINEAR_GATE,
    UMA_LINEAR_UP,
    UMA_LINEAR_DOWN, /* dense feed-forward */
    UMA_LINEAR_SHARED_GATE,
    UMA_LINEAR_SHARED_UP,
    UMA_LINEAR_SHARED_DOWN,
    UMA_LINEAR_EXPERT_GATE,
    UMA_LINEAR_EXPERT_UP,
    UMA_LINEAR_EXPERT_DOWN,
    UMA_LINEAR_ROUTER,
    UMA_LINEAR_MIXER_IN,
    UMA_LINEAR_MIXER_GATE,
    UMA_LINEAR_MIXER_OUT, /* linear attention, Mamba: in_proj(s), z, out_proj */
    UMA_LINEAR_LATENT_IN,
    UMA_LINEAR_LATENT_OUT,  /* latent MoE */
    UMA_LINEAR_REPLACEMENT, /* NAS: one matrix in place of attention or feed-forward */
    UMA_LINEAR_ROLE_COUNT,
};
#define UMA_LINEAR_BIT(role) (UINT64_C(1) << (role))

struct uma_linear {
    enum uma_linear_role role;
    uint64_t in, out;
    uint32_t copies; /* experts */
    enum uma_class class_;
};
enum { UMA_LINEARS_PER_LAYER_MAX = 24 };
/* The matrices of one layer; returns how many. What structural counts, adapters and quantised sizes are computed from. */
size_t uma_model_linears(const struct uma_model *model, uint32_t layer, struct uma_linear ret_linears[UMA_LINEARS_PER_LAYER_MAX]);

/* ---- KV cache ----------------------------------------------------------------------------------------------- */

enum uma_engine {
    UMA_ENGINE_UNKNOWN = 0,
    UMA_ENGINE_VLLM,
    UMA_ENGINE_SGLANG,
    UMA_ENGINE_LLAMA_CPP,
    UMA_ENGINE_OLLAMA,
    UMA_ENGINE_TRT_LLM,
    UMA_ENGINE_TRANSFORMERS,
    UMA_ENGINE_LITGPT, /* its generate scripts */
    UMA_ENGINE_COUNT,
};

struct uma_kv_options {
    enum uma_engine engine;
    enum uma_format key_format, value_format; /* UNKNOWN: bf16 */
    uint64_t context;                         /* tokens kept per sequence */
    uint64_t sequences;                       /* at once; 0: 1 */
    uint32_t tp;                              /* tensor-parallel ranks; 0: 1. Result is per rank */
    uint32_t ubatch;                          /* llama.cpp: added to a sliding window; 0: 512 */
    bool full_window;                         /* --swa-full: sliding layers keep the whole context */
    bool mla_expanded;                        /* MLA kept as full K and V (llama.cpp without mla) */
    bool mla_transposed;                      /* MLA keeps a transposed copy of the latent, too */
    uint64_t batched_tokens;                  /* vLLM: a step's tokens, which sliding layers hold beside their windows; 0: not counted */
};

struct uma_kv {
    uint64_t per_token;    /* bytes per token and sequence while all layers still grow */
    uint64_t growing;      /* bytes per token and sequence beyond every window */
    uint64_t per_sequence; /* fixed per sequence: recurrent state, filled windows excluded */
    uint64_t sequence;     /* one sequence at `context` tokens, all in */
    uint64_t total;        /* all sequences */
    uint64_t padding;      /* of total: page padding of hybrid models in vLLM */
};
/* What a job's sequences keep between tokens, on one rank: keys and values, latents, recurrent states; as the engine lays them out. */
void uma_kv_cache(const struct uma_model *model, const struct uma_kv_options *options, struct uma_kv *ret_kv);

#ifdef __cplusplus
}
#endif

#endif
