/* SPDX-License-Identifier: MIT */
#include "plan/model/arch.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define BIASED (ARCH_QKV_BIAS | ARCH_MLP_BIAS | ARCH_LAYER_NORM)

/*
 * From the configuration and model classes of transformers (src/transformers/models/NAME), and for families that are not in it from the modelling
 * code published beside the weights.
 */
static const struct uma_arch table[] = {
    /* names, flags, norms per layer, sliding period, head_dim */
    { "llama|yi|aquila|deepseek|internlm3|smollm3|solar|xverse|orion|telechat|exaone|seed_oss|mllama|mllama_text_model|decilm|nemotronnas|granite|baichuan|"
      "internlm2|ernie4_5|hunyuan_v1_dense|helium|ouro|skywork|codellama",
      0, 2, 0, 0 },
    { "minicpm|minicpm3", ARCH_TIED, 2, 0, 0 },
    { "mistral|ministral|ministral3|mistral3|pixtral|mixtral|voxtral", ARCH_ALL_SLIDING, 2, 0, 0 },
    { "llama4", 0, 2, 0, 0 },
    { "internlm", ARCH_QKV_BIAS, 2, 0, 0 },
    { "arcee", ARCH_UNGATED, 2, 0, 0 },
    { "apertus", ARCH_UNGATED | ARCH_QK_NORM, 2, 0, 0 },
    { "bitnet|bitnet_25", ARCH_TIED, 2, 0, 0 },
    { "granitemoe|granitemoeshared|powermoe|granitemoehybrid|bamba", ARCH_MAMBA2 | ARCH_CONV_BIAS | ARCH_RESIDUAL_FFN, 2, 0, 0 },
    { "mimo", ARCH_QKV_BIAS | ARCH_NO_O_BIAS, 2, 0, 0 },
    { "mimo_v2_flash|mimo_v2", ARCH_ROUTER_BIAS | ARCH_SINKS | ARCH_MTP_DENSE, 2, 0, 0 },
    { "qwen", ARCH_QKV_BIAS | ARCH_NO_O_BIAS, 2, 0, 0 },
    { "qwen2|qwen2_vl|qwen2_5_vl|qwen2_audio|qwen2_5_omni|qwen2_5_omni_thinker|kimi_audio|dream", ARCH_QKV_BIAS | ARCH_NO_O_BIAS, 2, 0, 0 },
    { "qwen2_moe", ARCH_QKV_BIAS | ARCH_NO_O_BIAS | ARCH_SHARED_GATE, 2, 0, 0 },
    { "qwen3|qwen3_vl|qwen3_moe|qwen3_vl_moe|qwen3_omni_moe|qwen3_omni_moe_thinker|qwen3_omni", ARCH_QK_NORM, 2, 0, 128 },
    { "qwen3_next|qwen3_5|qwen3_5_moe|qwen3_6|qwen3_6_moe|qwen3_8", ARCH_QK_NORM | ARCH_SHARED_GATE | ARCH_OUTPUT_GATE, 2, 0, 256 },
    { "gemma|paligemma", ARCH_TIED, 2, 0, 256 },
    { "gemma2", ARCH_TIED, 4, 2, 256 },
    { "gemma3", ARCH_TIED | ARCH_QK_NORM, 4, 6, 256 },
    { "gemma3n", ARCH_TIED | ARCH_QK_NORM | ARCH_OWN_KV, 4, 5, 256 },
    { "gemma4|gemma4_unified", ARCH_TIED | ARCH_QK_NORM | ARCH_MOE_DENSE, 4, 6, 256 },
    { "vaultgemma", ARCH_TIED, 2, 2, 256 },
    { "gpt_oss", ARCH_QKV_BIAS | ARCH_EXPERT_BIAS | ARCH_ROUTER_BIAS | ARCH_SINKS, 2, 2, 64 },
    { "deepseek_v2|minicpm_mla", 0, 2, 0, 0 },
    { "deepseek_v3|deepseek_v32|kimi_k2|kimi_k25|axk1", ARCH_ROUTER_BIAS | ARCH_MTP_EMBED, 2, 0, 0 },
    { "glm_moe_dsa|glm4_moe_lite|dots1|pangu_ultra_moe", ARCH_ROUTER_BIAS, 2, 0, 0 },
    { "deepseek_v4|deepseek_ref", ARCH_ROUTER_BIAS | ARCH_SINKS, 2, 0, 0 },
    { "kimi_linear|kimi_k3", ARCH_ROUTER_BIAS, 2, 0, 0 },
    { "longcat_flash", ARCH_ROUTER_BIAS | ARCH_TWO_IN_ONE, 2, 0, 0 },
    { "chatglm|glm", ARCH_QKV_BIAS | ARCH_NO_O_BIAS, 2, 0, 0 },
    { "glm4|glm4v", ARCH_NO_O_BIAS, 4, 0, 0 },
    { "glm4_moe|glm4v_moe", ARCH_NO_O_BIAS | ARCH_ROUTER_BIAS | ARCH_MTP_EMBED, 2, 0, 0 },
    { "minimax_text_01|minimax|minimax_m1", 0, 2, 0, 0 },
    { "minimax_m2|minimax_m2_5", ARCH_QK_FULL | ARCH_NO_MTP, 2, 0, 0 },
    { "minimax_m3|minimax_m3_vl", ARCH_QK_NORM | ARCH_NO_MTP, 2, 0, 0 },
    { "phi|phi_msft|mixformer_sequential", BIASED | ARCH_UNGATED | ARCH_LM_BIAS, 1, 0, 0 },
    { "phi3|phi3_v|phi4mm|phi3small", ARCH_ALL_SLIDING, 2, 0, 0 },
    { "phimoe", ARCH_QKV_BIAS | ARCH_LAYER_NORM | ARCH_LM_BIAS | ARCH_ALL_SLIDING, 2, 0, 0 },
    { "olmo|hf_olmo", ARCH_NORM_NONE, 2, 0, 0 },
    { "olmo2|olmoe|flex_olmo", ARCH_QK_FULL, 2, 0, 0 },
    { "olmo3", ARCH_QK_FULL, 2, 4, 0 },
    { "nemotron", ARCH_UNGATED | ARCH_LAYER_NORM, 2, 0, 0 },
    { "nemotron_h|nemotron_hybrid|nemotron_h_puzzle", ARCH_UNGATED | ARCH_MAMBA2 | ARCH_ROUTER_BIAS | ARCH_CONV_BIAS, 1, 0, 0 },
    { "mamba|falcon_mamba", ARCH_MAMBA1 | ARCH_CONV_BIAS | ARCH_TIED, 1, 0, 0 },
    { "mamba2|codestral_mamba", ARCH_MAMBA2 | ARCH_CONV_BIAS, 1, 0, 0 },
    { "jamba", ARCH_MAMBA1 | ARCH_CONV_BIAS | ARCH_RESIDUAL_FFN, 2, 0, 0 },
    { "zamba2", ARCH_MAMBA2 | ARCH_CONV_BIAS | ARCH_TIED, 1, 0, 0 },
    { "zamba", ARCH_MAMBA1 | ARCH_CONV_BIAS | ARCH_TIED, 1, 0, 0 },
    { "falcon_h1", ARCH_MAMBA2 | ARCH_CONV_BIAS | ARCH_PARALLEL_MIXERS, 2, 0, 0 },
    { "starcoder2", BIASED | ARCH_UNGATED | ARCH_TIED | ARCH_ALL_SLIDING, 2, 0, 0 },
    { "gpt_bigcode", BIASED | ARCH_UNGATED | ARCH_TIED | ARCH_POSITIONS | ARCH_MQA, 2, 0, 0 },
    { "gpt2|cerebras_gpt", BIASED | ARCH_UNGATED | ARCH_TIED | ARCH_POSITIONS, 2, 0, 0 },
    { "gpt_neo", ARCH_MLP_BIAS | ARCH_LAYER_NORM | ARCH_UNGATED | ARCH_TIED | ARCH_POSITIONS, 2, 0, 0 },
    { "gptj|gpt_j|codegen", ARCH_MLP_BIAS | ARCH_LAYER_NORM | ARCH_UNGATED | ARCH_LM_BIAS, 1, 0, 0 },
    { "gpt_neox|pythia", BIASED | ARCH_UNGATED, 2, 0, 0 },
    { "stablelm|stablelm_epoch", ARCH_LAYER_NORM, 2, 0, 0 },
    { "falcon|refinedweb|refinedwebmodel", ARCH_LAYER_NORM | ARCH_UNGATED | ARCH_TIED | ARCH_MQA, 1, 0, 0 },
    { "opt", BIASED | ARCH_UNGATED | ARCH_TIED | ARCH_POSITIONS, 2, 0, 0 },
    { "bloom", BIASED | ARCH_UNGATED | ARCH_TIED | ARCH_EMBED_NORM, 2, 0, 0 },
    { "mpt", ARCH_UNGATED | ARCH_TIED, 2, 0, 0 },
    { "dbrx", 0, 2, 0, 0 },
    { "cohere|aya", ARCH_TIED, 1, 0, 0 },
    { "cohere2|cohere2_vision|aya_vision", ARCH_TIED, 1, 4, 0 },
    { "ernie4_5_moe|ernie4_5_vl|ernie4_5_vl_moe", ARCH_ROUTER_BIAS, 2, 0, 0 },
    { "hunyuan|hunyuan_v1_moe", 0, 2, 0, 0 },
    { "exaone4|exaone_moe|exaone4_5", ARCH_QK_NORM, 2, 4, 0 },
    { "step3|step3_vl|step3p5|step3p7", ARCH_ROUTER_BIAS | ARCH_QK_NORM | ARCH_MTP_DENSE, 2, 0, 0 },
    { "bailing_moe|bailing_moe_v2|bailing_hybrid|ling", ARCH_ROUTER_BIAS | ARCH_QK_NORM, 2, 0, 0 },
    { "grok_1|grok1", 0, 4, 0, 0 },
};

/* Does a stretch of the aliases say the same as `name`, '-', '_' and '.' left out of both? */
static bool same_name(const char *alias, size_t length, const char *name, size_t name_length) {
    size_t i = 0, j = 0;
    for (;;) {
        while (i < length && strchr("-_.", alias[i]))
            i++;
        while (j < name_length && strchr("-_.", name[j]))
            j++;
        if (i == length || j == name_length)
            return i == length && j == name_length;
        if (tolower((unsigned char)alias[i++]) != tolower((unsigned char)name[j++]))
            return false;
    }
}

static const struct uma_arch *find(const char *name, size_t length) {
    for (size_t i = 0; i < ELEMENTS(table); i++)
        for (const char *alias = table[i].names; *alias;) {
            size_t n = strcspn(alias, "|");
            if (same_name(alias, n, name, length))
                return &table[i];
            alias += n + (alias[n] == '|');
        }
    return NULL;
}

const struct uma_arch *uma_arch_find(const char *name) {
    static const char *const endings[] = { "_text", "ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "TextForCausalLM", "Model" };
    size_t length = strlen(name);
    const struct uma_arch *arch = find(name, length);
    for (size_t i = 0; !arch && i < ELEMENTS(endings); i++) {
        size_t n = strlen(endings[i]);
        if (length > n && strcasecmp(name + length - n, endings[i]) == 0)
            arch = find(name, length - n);
    }
    return arch;
}
