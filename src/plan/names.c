/* SPDX-License-Identifier: MIT */
#include "plan/names.h"

#include "base/cleanup.h"

const char *const uma_method_names[UMA_METHOD_QLORA + 1] = { "full", "lora", "qlora" };
const char *const uma_objective_names[UMA_OBJECTIVE_COUNT] = { "sft", "pretrain", "dpo", "orpo", "kto", "grpo" };
const char *const uma_optimizer_names[UMA_OPTIMIZER_COUNT] = {
    [UMA_OPTIMIZER_ADAMW] = "adamw",
    [UMA_OPTIMIZER_ADAMW_FUSED] = "adamw-fused",
    [UMA_OPTIMIZER_ADAMW_8BIT] = "adamw-8bit",
    [UMA_OPTIMIZER_ADAMW_4BIT] = "adamw-4bit",
    [UMA_OPTIMIZER_PAGED_ADAMW] = "paged-adamw",
    [UMA_OPTIMIZER_PAGED_ADAMW_8BIT] = "paged-adamw-8bit",
    [UMA_OPTIMIZER_ADAFACTOR] = "adafactor",
    [UMA_OPTIMIZER_LION] = "lion",
    [UMA_OPTIMIZER_LION_8BIT] = "lion-8bit",
    [UMA_OPTIMIZER_SGD] = "sgd",
    [UMA_OPTIMIZER_SGD_MOMENTUM] = "sgd-momentum",
    [UMA_OPTIMIZER_MUON] = "muon",
    [UMA_OPTIMIZER_GALORE] = "galore",
    [UMA_OPTIMIZER_LOMO] = "lomo",
    [UMA_OPTIMIZER_BADAM] = "badam",
};
const char *const uma_checkpointing_names[UMA_CHECKPOINTING_COUNT] = {
    [UMA_CHECKPOINTING_ON] = "on",
    [UMA_CHECKPOINTING_OFF] = "off",
    [UMA_CHECKPOINTING_SELECTIVE] = "selective",
    [UMA_CHECKPOINTING_OFFLOAD] = "offload",
};
const char *const uma_attention_names[UMA_ATTENTION_COUNT] = { [UMA_ATTENTION_FLASH] = "flash", [UMA_ATTENTION_EAGER] = "eager" };
const char *const uma_loss_names[UMA_LOSS_COUNT] = {
    [UMA_LOSS_FULL] = "full",
    [UMA_LOSS_FUSED] = "fused",
    [UMA_LOSS_FUSED_LINEAR] = "fused-linear",
    [UMA_LOSS_CHUNKED] = "chunked",
};
const char *const uma_framework_names[UMA_FRAMEWORK_COUNT] = {
    [UMA_FRAMEWORK_TORCH] = "torch",
    [UMA_FRAMEWORK_UNSLOTH] = "unsloth",
    [UMA_FRAMEWORK_TORCHTUNE] = "torchtune",
    [UMA_FRAMEWORK_TORCHTITAN] = "torchtitan",
    [UMA_FRAMEWORK_MEGATRON] = "megatron",
    [UMA_FRAMEWORK_AXOLOTL] = "axolotl",
    [UMA_FRAMEWORK_LLAMA_FACTORY] = "llama-factory",
    [UMA_FRAMEWORK_MS_SWIFT] = "ms-swift",
    [UMA_FRAMEWORK_LITGPT] = "litgpt",
};
const char *const uma_shard_names[UMA_SHARD_COUNT] = { "none", "ddp", "fsdp", "zero1", "zero2", "zero3", "tp" };
const char *const uma_engine_names[UMA_ENGINE_COUNT] = {
    [UMA_ENGINE_VLLM] = "vllm",     [UMA_ENGINE_SGLANG] = "sglang",   [UMA_ENGINE_LLAMA_CPP] = "llama.cpp",
    [UMA_ENGINE_OLLAMA] = "ollama", [UMA_ENGINE_TRT_LLM] = "trt-llm", [UMA_ENGINE_TRANSFORMERS] = "transformers",
    [UMA_ENGINE_LITGPT] = "litgpt",
};
const char *const uma_loader_names[UMA_LOADER_COUNT] = {
    [UMA_LOADER_MMAP] = "mmap",
    [UMA_LOADER_EAGER] = "eager",
    [UMA_LOADER_STREAMED] = "streamed",
    [UMA_LOADER_DIRECT] = "direct",
};
const char *const uma_logits_names[UMA_LOGITS_COUNT] = { "last", "all", "all-fp32" };
const char *const uma_term_names[UMA_TERM_COUNT] = { "weights",     "adapter",  "gradients",       "optimizer",
                                                     "activations", "kv_cache", "compute_buffers", "overhead" };
const char *const uma_basis_names[UMA_BASIS_GUESS + 1] = { "tensors", "structure", "guess" };

static int folded(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 'a';
    return c == '_' ? '-' : c;
}

static bool same_name(const char *a, const char *b) {
    while (*a && folded(*a) == folded(*b)) {
        a++;
        b++;
    }
    return !*a && !*b;
}

/* What the same things are called in the programs' own options and configurations. */
static const struct {
    const char *said, *meant;
} aliases[] = {
    { "adamw-torch", "adamw" },
    { "adam", "adamw" },
    { "adamw-torch-fused", "adamw-fused" },
    { "adamw-bnb-8bit", "adamw-8bit" },
    { "adamw8bit", "adamw-8bit" },
    { "adam-8bit", "adamw-8bit" },
    { "paged-adamw-32bit", "paged-adamw" },
    { "paged-adamw8bit", "paged-adamw-8bit" },
    { "adamw-torch-4bit", "adamw-4bit" },
    { "trl", "torch" },
    { "peft", "torch" },
    { "accelerate", "torch" },
    { "hf", "torch" },
    { "pytorch", "torch" },
    { "llamafactory", "llama-factory" },
    { "swift", "ms-swift" },
    { "megatron-lm", "megatron" },
    { "nemo", "megatron" },
    { "llamacpp", "llama.cpp" },
    { "llama-cpp", "llama.cpp" },
    { "llama-server", "llama.cpp" },
    { "trtllm", "trt-llm" },
    { "tensorrt-llm", "trt-llm" },
    { "huggingface", "transformers" },
    { "zero-1", "zero1" },
    { "zero-2", "zero2" },
    { "zero-3", "zero3" },
    { "fsdp2", "fsdp" },
    { "fa2", "flash" },
    { "sdpa", "flash" },
    { "flash-attention-2", "flash" },
    { "liger", "fused-linear" },
    { "true", "on" },
    { "false", "off" },
};

static int find(const char *const *names, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (names[i] && same_name(names[i], name))
            return (int)i;
    return -1;
}

int uma_name_find(const char *const *names, size_t n, const char *name) {
    int found = find(names, n, name);
    for (size_t i = 0; found < 0 && i < ELEMENTS(aliases); i++)
        if (same_name(aliases[i].said, name))
            found = find(names, n, aliases[i].meant);
    return found;
}

const char *uma_name_of(const char *const *names, size_t n, unsigned value) {
    return value < n && names[value] ? names[value] : "default";
}
