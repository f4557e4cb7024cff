/* SPDX-License-Identifier: MIT */
/* Parameters that follow from published configurations, against the sums of the published checkpoints. */
#include "config_text.h"

/* model, parameters of the language model without MTP layers (index of the checkpoint or model card on huggingface.co), the configuration's fields */
struct row {
    const char *model;
    uint64_t params;
    const char *config;
};
static const struct row rows[] = {
    { "gpt2", 124439808ULL,
      "{'model_type': 'gpt2', 'n_embd': 768, 'n_layer': 12, 'n_head': 12, 'n_positions': 1024, 'vocab_size': "
      "50257, 'n_inner': null}" },
    { "pythia-6.9b", 6857302016ULL,
      "{'model_type': 'gpt_neox', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'intermediate_size': 16384, 'vocab_size': 50432, 'max_position_embeddings': 2048, "
      "'tie_word_embeddings': false, 'use_parallel_residual': true, 'rotary_pct': 0.25}" },
    { "opt-1.3b", 1315758080ULL,
      "{'model_type': 'opt', 'hidden_size': 2048, 'num_hidden_layers': 24, 'num_attention_heads': 32, "
      "'ffn_dim': 8192, 'vocab_size': 50272, 'max_position_embeddings': 2048}" },
    { "bloom-560m", 559214592ULL,
      "{'model_type': 'bloom', 'hidden_size': 1024, 'n_layer': 24, 'num_attention_heads': 16, 'vocab_size': "
      "250880}" },
    { "phi-2", 2779683840ULL,
      "{'model_type': 'phi', 'hidden_size': 2560, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'num_key_value_heads': 32, 'intermediate_size': 10240, 'vocab_size': 51200, 'tie_word_embeddings': "
      "false}" },
    { "gemma-7b", 8537680896ULL,
      "{'model_type': 'gemma', 'hidden_size': 3072, 'num_hidden_layers': 28, 'num_attention_heads': 16, "
      "'num_key_value_heads': 16, 'head_dim': 256, 'intermediate_size': 24576, 'vocab_size': 256000}" },
    { "falcon-7b", 6921720704ULL,
      "{'model_type': 'falcon', 'hidden_size': 4544, 'num_hidden_layers': 32, 'num_attention_heads': 71, "
      "'num_kv_heads': 71, 'multi_query': true, 'new_decoder_architecture': false, 'parallel_attn': true, "
      "'bias': false, 'vocab_size': 65024}" },
    { "falcon-40b", 41303293952ULL,
      "{'model_type': 'falcon', 'hidden_size': 8192, 'num_hidden_layers': 60, 'num_attention_heads': 128, "
      "'num_kv_heads': 8, 'multi_query': true, 'new_decoder_architecture': true, 'parallel_attn': true, "
      "'bias': false, 'vocab_size': 65024}" },
    { "starcoder2-7b", 7173923840ULL,
      "{'model_type': 'starcoder2', 'hidden_size': 4608, 'num_hidden_layers': 32, 'num_attention_heads': 36, "
      "'num_key_value_heads': 4, 'intermediate_size': 18432, 'vocab_size': 49152, 'use_bias': true, "
      "'sliding_window': 4096}" },
    { "starcoder", 15517456384ULL,
      "{'model_type': 'gpt_bigcode', 'n_embd': 6144, 'n_layer': 40, 'n_head': 48, 'n_inner': 24576, "
      "'n_positions': 8192, 'vocab_size': 49152, 'multi_query': true}" },
    { "stablelm-3b", 2795443200ULL,
      "{'model_type': 'stablelm', 'hidden_size': 2560, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'num_key_value_heads': 32, 'intermediate_size': 6912, 'vocab_size': 50304, 'use_qkv_bias': false, "
      "'tie_word_embeddings': false, 'use_parallel_residual': false}" },
    { "olmo-7b", 6888095744ULL,
      "{'model_type': 'olmo', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'intermediate_size': 11008, 'vocab_size': 50304, 'tie_word_embeddings': false}" },
    { "olmo2-7b", 7298617344ULL,
      "{'model_type': 'olmo2', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'intermediate_size': 11008, 'vocab_size': 100352, 'tie_word_embeddings': false}" },
    { "olmoe", 6919161856ULL,
      "{'model_type': 'olmoe', 'hidden_size': 2048, 'num_hidden_layers': 16, 'num_attention_heads': 16, "
      "'num_experts': 64, 'num_experts_per_tok': 8, 'intermediate_size': 1024, 'vocab_size': 50304, "
      "'tie_word_embeddings': false}" },
    { "mamba-2.8b", 2768345600ULL,
      "{'model_type': 'mamba', 'hidden_size': 2560, 'num_hidden_layers': 64, 'state_size': 16, 'conv_kernel': "
      "4, 'expand': 2, 'vocab_size': 50280, 'time_step_rank': 160, 'intermediate_size': 5120, 'use_conv_bias': "
      "true}" },
    { "falcon-mamba-7b", 7272665088ULL,
      "{'model_type': 'falcon_mamba', 'hidden_size': 4096, 'num_hidden_layers': 64, 'state_size': 16, "
      "'conv_kernel': 4, 'expand': 16, 'vocab_size': 65024, 'time_step_rank': 256, 'intermediate_size': 8192, "
      "'use_conv_bias': true, 'tie_word_embeddings': false}" },
    { "codestral-mamba", 7285403648ULL,
      "{'model_type': 'mamba2', 'hidden_size': 4096, 'num_hidden_layers': 64, 'state_size': 128, "
      "'conv_kernel': 4, 'expand': 2, 'vocab_size': 32768, 'head_dim': 64, 'num_heads': 128, 'n_groups': 8, "
      "'tie_word_embeddings': false}" },
    { "command-r", 34980831232ULL,
      "{'model_type': 'cohere', 'hidden_size': 8192, 'num_hidden_layers': 40, 'num_attention_heads': 64, "
      "'num_key_value_heads': 64, 'intermediate_size': 22528, 'vocab_size': 256000}" },
    { "command-r7b", 8028033024ULL,
      "{'model_type': 'cohere2', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'num_key_value_heads': 8, 'intermediate_size': 14336, 'vocab_size': 256000, 'sliding_window': 4096, "
      "'sliding_window_pattern': 4}" },
    { "internlm2-7b", 7737708544ULL,
      "{'model_type': 'internlm2', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'num_key_value_heads': 8, 'intermediate_size': 14336, 'vocab_size': 92544, 'bias': false, "
      "'tie_word_embeddings': false}" },
    { "baichuan2-7b", 7505973248ULL,
      "{'model_type': 'baichuan', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'intermediate_size': 11008, 'vocab_size': 125696, 'tie_word_embeddings': false}" },
    { "chatglm3-6b", 6243584000ULL,
      "{'model_type': 'chatglm', 'hidden_size': 4096, 'num_layers': 28, 'num_attention_heads': 32, "
      "'multi_query_attention': true, 'multi_query_group_num': 2, 'ffn_hidden_size': 13696, "
      "'padded_vocab_size': 65024, 'kv_channels': 128, 'add_qkv_bias': true, 'add_bias_linear': false, "
      "'tie_word_embeddings': false}" },
    { "qwen-7b", 7721324544ULL,
      "{'model_type': 'qwen', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'kv_channels': 128, 'intermediate_size': 22016, 'vocab_size': 151936, 'no_bias': true, "
      "'tie_word_embeddings': false}" },
    { "smollm3", 3075098624ULL,
      "{'model_type': 'smollm3', 'hidden_size': 2048, 'num_hidden_layers': 36, 'num_attention_heads': 16, "
      "'num_key_value_heads': 4, 'intermediate_size': 11008, 'vocab_size': 128256, 'tie_word_embeddings': "
      "true, 'attention_bias': false, 'mlp_bias': false}" },
    { "gpt-j", 6050882784ULL,
      "{'model_type': 'gptj', 'n_embd': 4096, 'n_layer': 28, 'n_head': 16, 'n_inner': null, 'n_positions': "
      "2048, 'vocab_size': 50400, 'tie_word_embeddings': false}" },
    { "phi3.5-moe", 41873153344ULL,
      "{'model_type': 'phimoe', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'num_key_value_heads': 8, 'intermediate_size': 6400, 'num_local_experts': 16, 'num_experts_per_tok': 2, "
      "'vocab_size': 32064, 'attention_bias': true, 'lm_head_bias': true, 'tie_word_embeddings': false, "
      "'sliding_window': 131072, 'max_position_embeddings': 131072}" },
    { "qwen1.5-moe", 14315784192ULL,
      "{'model_type': 'qwen2_moe', 'hidden_size': 2048, 'num_hidden_layers': 24, 'num_attention_heads': 16, "
      "'num_key_value_heads': 16, 'intermediate_size': 5632, 'moe_intermediate_size': 1408, "
      "'shared_expert_intermediate_size': 5632, 'num_experts': 60, 'num_experts_per_tok': 4, "
      "'decoder_sparse_step': 1, 'vocab_size': 151936, 'tie_word_embeddings': false}" },
    { "deepseek-v2-lite", 15706484224ULL,
      "{'model_type': 'deepseek_v2', 'hidden_size': 2048, 'num_hidden_layers': 27, 'num_attention_heads': 16, "
      "'num_key_value_heads': 16, 'kv_lora_rank': 512, 'q_lora_rank': null, 'qk_rope_head_dim': 64, "
      "'qk_nope_head_dim': 128, 'v_head_dim': 128, 'vocab_size': 102400, 'intermediate_size': 10944, "
      "'n_routed_experts': 64, 'moe_intermediate_size': 1408, 'n_shared_experts': 2, 'first_k_dense_replace': "
      "1, 'moe_layer_freq': 1, 'tie_word_embeddings': false}" },
    { "deepseek-v2", 235741434880ULL,
      "{'model_type': 'deepseek_v2', 'hidden_size': 5120, 'num_hidden_layers': 60, 'num_attention_heads': 128, "
      "'kv_lora_rank': 512, 'q_lora_rank': 1536, 'qk_rope_head_dim': 64, 'qk_nope_head_dim': 128, "
      "'v_head_dim': 128, 'vocab_size': 102400, 'intermediate_size': 12288, 'n_routed_experts': 160, "
      "'moe_intermediate_size': 1536, 'n_shared_experts': 2, 'first_k_dense_replace': 1, "
      "'tie_word_embeddings': false}" },
    { "glm4-9b-hf", 9399951360ULL,
      "{'model_type': 'glm', 'hidden_size': 4096, 'num_hidden_layers': 40, 'num_attention_heads': 32, "
      "'num_key_value_heads': 2, 'head_dim': 128, 'intermediate_size': 13696, 'vocab_size': 151552, "
      "'attention_bias': true, 'tie_word_embeddings': false}" },
    { "glm4-9b-0414", 9400279040ULL,
      "{'model_type': 'glm4', 'hidden_size': 4096, 'num_hidden_layers': 40, 'num_attention_heads': 32, "
      "'num_key_value_heads': 2, 'head_dim': 128, 'intermediate_size': 13696, 'vocab_size': 151552, "
      "'attention_bias': true, 'tie_word_embeddings': false}" },
    { "kimi-linear", 49122681728ULL,
      "{'model_type': 'kimi_linear', 'hidden_size': 2304, 'num_hidden_layers': 27, 'num_attention_heads': 32, "
      "'num_key_value_heads': 32, 'kv_lora_rank': 512, 'q_lora_rank': null, 'qk_rope_head_dim': 64, "
      "'qk_nope_head_dim': 128, 'v_head_dim': 128, 'head_dim': 72, 'intermediate_size': 9216, "
      "'moe_intermediate_size': 1024, 'num_experts': 256, 'num_experts_per_token': 8, 'num_shared_experts': 1, "
      "'first_k_dense_replace': 1, 'moe_layer_freq': 1, 'vocab_size': 163840, 'tie_word_embeddings': false, "
      "'linear_attn_config': {'full_attn_layers': [4, 8, 12, 16, 20, 24, 27], 'kda_layers': [1, 2, 3, 5, 6, 7, "
      "9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26], 'head_dim': 128, 'num_heads': 32, "
      "'short_conv_kernel_size': 4}}" },
    { "ernie-21b", 21825437888ULL,
      "{'model_type': 'ernie4_5_moe', 'hidden_size': 2560, 'num_hidden_layers': 28, 'num_attention_heads': 20, "
      "'num_key_value_heads': 4, 'intermediate_size': 12288, 'moe_intermediate_size': 1536, 'moe_num_experts': "
      "64, 'moe_k': 6, 'moe_num_shared_experts': 2, 'moe_layer_start_index': 1, 'moe_layer_interval': 1, "
      "'vocab_size': 103424, 'tie_word_embeddings': true, 'use_bias': false}" },
    { "hunyuan-a13b", 80393183232ULL,
      "{'model_type': 'hunyuan_v1_moe', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': "
      "32, 'num_key_value_heads': 8, 'intermediate_size': 3072, 'moe_intermediate_size': [3072, 3072, 3072, "
      "3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, "
      "3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072, 3072], 'num_experts': 64, "
      "'num_shared_expert': [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
      "1, 1, 1, 1, 1], 'moe_topk': [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, "
      "8, 8, 8, 8, 8, 8, 8], 'use_qk_norm': true, 'vocab_size': 128167, 'tie_word_embeddings': true, "
      "'attention_head_dim': 128}" },
    { "seed-oss-36b", 36151104512ULL,
      "{'model_type': 'seed_oss', 'hidden_size': 5120, 'num_hidden_layers': 64, 'num_attention_heads': 80, "
      "'num_key_value_heads': 8, 'head_dim': 128, 'intermediate_size': 27648, 'vocab_size': 155136, "
      "'attention_bias': true, 'attention_out_bias': false, 'tie_word_embeddings': false}" },
    { "exaone3.5-7.8b", 7818448896ULL,
      "{'model_type': 'exaone', 'hidden_size': 4096, 'num_layers': 32, 'num_attention_heads': 32, "
      "'num_key_value_heads': 8, 'intermediate_size': 14336, 'vocab_size': 102400, 'tie_word_embeddings': "
      "false}" },
    { "dbrx", 131596523520ULL,
      "{'model_type': 'dbrx', 'd_model': 6144, 'n_layers': 40, 'n_heads': 48, 'vocab_size': 100352, "
      "'attn_config': {'kv_n_heads': 8}, 'ffn_config': {'ffn_hidden_size': 10752, 'moe_num_experts': 16, "
      "'moe_top_k': 4}, 'tie_word_embeddings': false}" },
    { "mpt-7b", 6649286656ULL,
      "{'model_type': 'mpt', 'd_model': 4096, 'n_layers': 32, 'n_heads': 32, 'vocab_size': 50432, "
      "'expansion_ratio': 4, 'attn_config': {'attn_type': 'multihead_attention'}}" },
    { "MiniMaxAI/MiniMax-M2.5", 228689304576ULL,
      "{'model_type': 'minimax_m2', 'hidden_size': 3072, 'num_hidden_layers': 62, 'num_attention_heads': 48, "
      "'num_key_value_heads': 8, 'head_dim': 128, 'intermediate_size': 1536, 'vocab_size': 200064, "
      "'num_local_experts': 256, 'num_experts_per_tok': 8}" },
    { "Qwen/Qwen3-0.6B", 596049920ULL,
      "{'model_type': 'qwen3', 'hidden_size': 1024, 'num_hidden_layers': 28, 'num_attention_heads': 16, "
      "'num_key_value_heads': 8, 'head_dim': 128, 'intermediate_size': 3072, 'vocab_size': 151936, "
      "'tie_word_embeddings': true}" },
    { "Qwen/Qwen3-1.7B", 1720574976ULL,
      "{'model_type': 'qwen3', 'hidden_size': 2048, 'num_hidden_layers': 28, 'num_attention_heads': 16, "
      "'num_key_value_heads': 8, 'intermediate_size': 6144, 'vocab_size': 151936, 'tie_word_embeddings': true}" },
    { "Qwen/Qwen3-235B-A22B-FP8", 235093634560ULL,
      "{'model_type': 'qwen3_moe', 'hidden_size': 4096, 'num_hidden_layers': 94, 'num_attention_heads': 64, "
      "'num_key_value_heads': 4, 'head_dim': 128, 'intermediate_size': 12288, 'vocab_size': 151936, "
      "'num_experts': 128, 'num_experts_per_tok': 8, 'moe_intermediate_size': 1536}" },
    { "Qwen/Qwen3-30B-A3B-FP8", 30532122624ULL,
      "{'model_type': 'qwen3_moe', 'hidden_size': 2048, 'num_hidden_layers': 48, 'num_attention_heads': 32, "
      "'num_key_value_heads': 4, 'head_dim': 128, 'intermediate_size': 6144, 'vocab_size': 151936, "
      "'num_experts': 128, 'num_experts_per_tok': 8, 'moe_intermediate_size': 768}" },
    { "Qwen/Qwen3-32B-FP8-Static-PerTensor", 32762123264ULL,
      "{'model_type': 'qwen3', 'hidden_size': 5120, 'num_hidden_layers': 64, 'num_attention_heads': 64, "
      "'num_key_value_heads': 8, 'head_dim': 128, 'intermediate_size': 25600, 'vocab_size': 151936}" },
    { "Qwen/Qwen3-8B", 8190735360ULL,
      "{'model_type': 'qwen3', 'hidden_size': 4096, 'num_hidden_layers': 36, 'num_attention_heads': 32, "
      "'num_key_value_heads': 8, 'intermediate_size': 12288, 'vocab_size': 151936}" },
    { "Qwen/Qwen3-Coder-480B-A35B-Instruct", 480154875392ULL,
      "{'model_type': 'qwen3_moe', 'hidden_size': 6144, 'num_hidden_layers': 62, 'num_attention_heads': 96, "
      "'num_key_value_heads': 8, 'head_dim': 128, 'intermediate_size': 8192, 'vocab_size': 151936, "
      "'num_experts': 160, 'num_experts_per_tok': 8, 'moe_intermediate_size': 2560}" },
    { "Qwen/Qwen3-VL-4B-Instruct", 4022468096ULL,
      "{'model_type': 'qwen3', 'hidden_size': 2560, 'num_hidden_layers': 36, 'num_attention_heads': 32, "
      "'num_key_value_heads': 8, 'head_dim': 128, 'intermediate_size': 9728, 'vocab_size': 151936, "
      "'tie_word_embeddings': true}" },
    { "Qwen/Qwen3.5-122B-A10B", 122111526912ULL,
      "{'model_type': 'qwen3_5_moe', 'hidden_size': 3072, 'num_hidden_layers': 48, 'num_attention_heads': 32, "
      "'num_key_value_heads': 2, 'head_dim': 256, 'vocab_size': 248320, 'num_experts': 256, "
      "'num_experts_per_tok': 8, 'moe_intermediate_size': 1024, 'shared_expert_intermediate_size': 1024, "
      "'linear_num_key_heads': 16, 'linear_key_head_dim': 128, 'linear_num_value_heads': 64, "
      "'linear_value_head_dim': 128, 'linear_conv_kernel_dim': 4, 'full_attention_interval': 4}" },
    { "Qwen/Qwen3.5-27B", 26895998464ULL,
      "{'model_type': 'qwen3_5', 'hidden_size': 5120, 'num_hidden_layers': 64, 'num_attention_heads': 24, "
      "'num_key_value_heads': 4, 'head_dim': 256, 'intermediate_size': 17408, 'vocab_size': 248320, "
      "'linear_num_key_heads': 16, 'linear_key_head_dim': 128, 'linear_num_value_heads': 48, "
      "'linear_value_head_dim': 128, 'linear_conv_kernel_dim': 4, 'full_attention_interval': 4}" },
    { "Qwen/Qwen3.5-35B-A3B", 34660610688ULL,
      "{'model_type': 'qwen3_5_moe', 'hidden_size': 2048, 'num_hidden_layers': 40, 'num_attention_heads': 16, "
      "'num_key_value_heads': 2, 'head_dim': 256, 'vocab_size': 248320, 'num_experts': 256, "
      "'num_experts_per_tok': 8, 'moe_intermediate_size': 512, 'shared_expert_intermediate_size': 512, "
      "'linear_num_key_heads': 16, 'linear_key_head_dim': 128, 'linear_num_value_heads': 32, "
      "'linear_value_head_dim': 128, 'linear_conv_kernel_dim': 4, 'full_attention_interval': 4}" },
    { "Qwen/Qwen3.5-397B-A17B", 396346350336ULL,
      "{'model_type': 'qwen3_5_moe', 'hidden_size': 4096, 'num_hidden_layers': 60, 'num_attention_heads': 32, "
      "'num_key_value_heads': 2, 'head_dim': 256, 'vocab_size': 248320, 'num_experts': 512, "
      "'num_experts_per_tok': 10, 'moe_intermediate_size': 1024, 'shared_expert_intermediate_size': 1024, "
      "'linear_num_key_heads': 16, 'linear_key_head_dim': 128, 'linear_num_value_heads': 64, "
      "'linear_value_head_dim': 128, 'linear_conv_kernel_dim': 4, 'full_attention_interval': 4}" },
    { "deepseek-ai/DeepSeek-R1", 671026419200ULL,
      "{'model_type': 'deepseek_v3', 'hidden_size': 7168, 'num_hidden_layers': 61, 'num_attention_heads': 128, "
      "'num_key_value_heads': 128, 'intermediate_size': 18432, 'vocab_size': 129280, 'n_routed_experts': 256, "
      "'num_experts_per_tok': 8, 'moe_intermediate_size': 2048, 'kv_lora_rank': 512, 'q_lora_rank': 1536, "
      "'qk_rope_head_dim': 64, 'qk_nope_head_dim': 128, 'v_head_dim': 128, 'n_shared_experts': 1, "
      "'first_k_dense_replace': 3}" },
    { "meta-llama/Meta-Llama-3.1-405B", 405853388800ULL,
      "{'model_type': 'llama', 'hidden_size': 16384, 'num_hidden_layers': 126, 'num_attention_heads': 128, "
      "'num_key_value_heads': 8, 'intermediate_size': 53248, 'vocab_size': 128256}" },
    { "meta-llama/Meta-Llama-3.1-70B", 70553706496ULL,
      "{'model_type': 'llama', 'hidden_size': 8192, 'num_hidden_layers': 80, 'num_attention_heads': 64, "
      "'num_key_value_heads': 8, 'intermediate_size': 28672, 'vocab_size': 128256}" },
    { "meta-llama/Meta-Llama-3.1-8B", 8030261248ULL,
      "{'model_type': 'llama', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'num_key_value_heads': 8, 'intermediate_size': 14336, 'vocab_size': 128256}" },
    { "mistralai/Mixtral-8x22B-v0.1", 140620634112ULL,
      "{'model_type': 'mixtral', 'hidden_size': 6144, 'num_hidden_layers': 56, 'num_attention_heads': 48, "
      "'num_key_value_heads': 8, 'intermediate_size': 16384, 'vocab_size': 32000, 'num_local_experts': 8, "
      "'num_experts_per_tok': 2}" },
    { "mistralai/Mixtral-8x7B-v0.1", 46702792704ULL,
      "{'model_type': 'mixtral', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'num_key_value_heads': 8, 'intermediate_size': 14336, 'vocab_size': 32000, 'num_local_experts': 8, "
      "'num_experts_per_tok': 2}" },
    { "moonshotai/Kimi-K2-Instruct", 1026408232448ULL,
      "{'model_type': 'deepseek_v3', 'hidden_size': 7168, 'num_hidden_layers': 61, 'num_attention_heads': 64, "
      "'num_key_value_heads': 64, 'intermediate_size': 18432, 'vocab_size': 163840, 'n_routed_experts': 384, "
      "'num_experts_per_tok': 8, 'moe_intermediate_size': 2048, 'kv_lora_rank': 512, 'q_lora_rank': 1536, "
      "'qk_rope_head_dim': 64, 'qk_nope_head_dim': 128, 'v_head_dim': 128, 'n_shared_experts': 1, "
      "'first_k_dense_replace': 1}" },
    { "openai/gpt-oss-120b", 116829156672ULL,
      "{'model_type': 'gpt_oss', 'hidden_size': 2880, 'num_hidden_layers': 36, 'num_attention_heads': 64, "
      "'num_key_value_heads': 8, 'head_dim': 64, 'intermediate_size': 2880, 'vocab_size': 201088, "
      "'num_local_experts': 128, 'num_experts_per_tok': 4, 'sliding_window': 128}" },
    { "openai/gpt-oss-20b", 20914757184ULL,
      "{'model_type': 'gpt_oss', 'hidden_size': 2880, 'num_hidden_layers': 24, 'num_attention_heads': 64, "
      "'num_key_value_heads': 8, 'head_dim': 64, 'intermediate_size': 2880, 'vocab_size': 201088, "
      "'num_local_experts': 32, 'num_experts_per_tok': 4, 'sliding_window': 128}" },
    { "meta-llama/Llama-2-7b-hf", 6738415616ULL,
      "{'model_type': 'llama', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'num_key_value_heads': 32, 'intermediate_size': 11008, 'vocab_size': 32000}" },
    { "meta-llama/Llama-2-13b-hf", 13015864320ULL,
      "{'model_type': 'llama', 'hidden_size': 5120, 'num_hidden_layers': 40, 'num_attention_heads': 40, "
      "'num_key_value_heads': 40, 'intermediate_size': 13824, 'vocab_size': 32000}" },
    { "meta-llama/Llama-2-70b-hf", 68976648192ULL,
      "{'model_type': 'llama', 'hidden_size': 8192, 'num_hidden_layers': 80, 'num_attention_heads': 64, "
      "'num_key_value_heads': 8, 'intermediate_size': 28672, 'vocab_size': 32000}" },
    { "meta-llama/Llama-3.2-1B", 1235814400ULL,
      "{'model_type': 'llama', 'hidden_size': 2048, 'num_hidden_layers': 16, 'num_attention_heads': 32, "
      "'num_key_value_heads': 8, 'intermediate_size': 8192, 'vocab_size': 128256, 'tie_word_embeddings': true}" },
    { "meta-llama/Llama-3.2-3B", 3212749824ULL,
      "{'model_type': 'llama', 'hidden_size': 3072, 'num_hidden_layers': 28, 'num_attention_heads': 24, "
      "'num_key_value_heads': 8, 'intermediate_size': 8192, 'vocab_size': 128256, 'tie_word_embeddings': true}" },
    { "google/gemma-2-2b", 2614341888ULL,
      "{'model_type': 'gemma2', 'hidden_size': 2304, 'num_hidden_layers': 26, 'num_attention_heads': 8, "
      "'num_key_value_heads': 4, 'head_dim': 256, 'intermediate_size': 9216, 'vocab_size': 256000, "
      "'tie_word_embeddings': true, 'sliding_window': 4096}" },
    { "google/gemma-2-9b", 9241705984ULL,
      "{'model_type': 'gemma2', 'hidden_size': 3584, 'num_hidden_layers': 42, 'num_attention_heads': 16, "
      "'num_key_value_heads': 8, 'head_dim': 256, 'intermediate_size': 14336, 'vocab_size': 256000, "
      "'tie_word_embeddings': true, 'sliding_window': 4096}" },
    { "google/gemma-2-27b", 27227128320ULL,
      "{'model_type': 'gemma2', 'hidden_size': 4608, 'num_hidden_layers': 46, 'num_attention_heads': 32, "
      "'num_key_value_heads': 16, 'head_dim': 128, 'intermediate_size': 36864, 'vocab_size': 256000, "
      "'tie_word_embeddings': true, 'sliding_window': 4096}" },
    { "google/gemma-3-1b-it", 999885952ULL,
      "{'model_type': 'gemma3', 'hidden_size': 1152, 'num_hidden_layers': 26, 'num_attention_heads': 4, "
      "'num_key_value_heads': 1, 'head_dim': 256, 'intermediate_size': 6912, 'vocab_size': 262144, "
      "'tie_word_embeddings': true, 'sliding_window': 512}" },
    { "google/gemma-3-4b-it", 3880099328ULL,
      "{'model_type': 'gemma3', 'hidden_size': 2560, 'num_hidden_layers': 34, 'num_attention_heads': 8, "
      "'num_key_value_heads': 4, 'head_dim': 256, 'intermediate_size': 10240, 'vocab_size': 262144, "
      "'tie_word_embeddings': true, 'sliding_window': 1024}" },
    { "google/gemma-3-12b-it", 11765788416ULL,
      "{'model_type': 'gemma3', 'hidden_size': 3840, 'num_hidden_layers': 48, 'num_attention_heads': 16, "
      "'num_key_value_heads': 8, 'head_dim': 256, 'intermediate_size': 15360, 'vocab_size': 262144, "
      "'tie_word_embeddings': true, 'sliding_window': 1024}" },
    { "google/gemma-3-27b-it", 27009002240ULL,
      "{'model_type': 'gemma3', 'hidden_size': 5376, 'num_hidden_layers': 62, 'num_attention_heads': 32, "
      "'num_key_value_heads': 16, 'head_dim': 128, 'intermediate_size': 21504, 'vocab_size': 262144, "
      "'tie_word_embeddings': true, 'sliding_window': 1024}" },
    { "microsoft/Phi-3-mini-4k-instruct", 3821079552ULL,
      "{'model_type': 'phi3', 'hidden_size': 3072, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'num_key_value_heads': 32, 'intermediate_size': 8192, 'vocab_size': 32064, 'sliding_window': 2048}" },
    { "microsoft/phi-4", 14659507200ULL,
      "{'model_type': 'phi3', 'hidden_size': 5120, 'num_hidden_layers': 40, 'num_attention_heads': 40, "
      "'num_key_value_heads': 10, 'intermediate_size': 17920, 'vocab_size': 100352}" },
    { "microsoft/Phi-4-mini-instruct", 3836021760ULL,
      "{'model_type': 'phi3', 'hidden_size': 3072, 'num_hidden_layers': 32, 'num_attention_heads': 24, "
      "'num_key_value_heads': 8, 'intermediate_size': 8192, 'vocab_size': 200064, 'tie_word_embeddings': true}" },
    { "mistralai/Mistral-7B-v0.3", 7248023552ULL,
      "{'model_type': 'mistral', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32, "
      "'num_key_value_heads': 8, 'intermediate_size': 14336, 'vocab_size': 32768}" },
    { "mistralai/Mistral-Large-Instruct-2411", 122610069504ULL,
      "{'model_type': 'mistral', 'hidden_size': 12288, 'num_hidden_layers': 88, 'num_attention_heads': 96, "
      "'num_key_value_heads': 8, 'intermediate_size': 28672, 'vocab_size': 32768}" },
    { "Qwen/Qwen2.5-0.5B", 494032768ULL,
      "{'model_type': 'qwen2', 'hidden_size': 896, 'num_hidden_layers': 24, 'num_attention_heads': 14, "
      "'num_key_value_heads': 2, 'intermediate_size': 4864, 'vocab_size': 151936, 'tie_word_embeddings': true}" },
    { "Qwen/Qwen2.5-1.5B", 1543714304ULL,
      "{'model_type': 'qwen2', 'hidden_size': 1536, 'num_hidden_layers': 28, 'num_attention_heads': 12, "
      "'num_key_value_heads': 2, 'intermediate_size': 8960, 'vocab_size': 151936, 'tie_word_embeddings': true}" },
    { "Qwen/Qwen2.5-3B", 3085938688ULL,
      "{'model_type': 'qwen2', 'hidden_size': 2048, 'num_hidden_layers': 36, 'num_attention_heads': 16, "
      "'num_key_value_heads': 2, 'intermediate_size': 11008, 'vocab_size': 151936, 'tie_word_embeddings': true}" },
    { "Qwen/Qwen2.5-7B", 7615616512ULL,
      "{'model_type': 'qwen2', 'hidden_size': 3584, 'num_hidden_layers': 28, 'num_attention_heads': 28, "
      "'num_key_value_heads': 4, 'intermediate_size': 18944, 'vocab_size': 152064}" },
    { "Qwen/Qwen2.5-14B", 14770033664ULL,
      "{'model_type': 'qwen2', 'hidden_size': 5120, 'num_hidden_layers': 48, 'num_attention_heads': 40, "
      "'num_key_value_heads': 8, 'intermediate_size': 13824, 'vocab_size': 152064}" },
    { "Qwen/Qwen2.5-32B", 32763876352ULL,
      "{'model_type': 'qwen2', 'hidden_size': 5120, 'num_hidden_layers': 64, 'num_attention_heads': 40, "
      "'num_key_value_heads': 8, 'intermediate_size': 27648, 'vocab_size': 152064}" },
    { "Qwen/Qwen2.5-72B", 72706203648ULL,
      "{'model_type': 'qwen2', 'hidden_size': 8192, 'num_hidden_layers': 80, 'num_attention_heads': 64, "
      "'num_key_value_heads': 8, 'intermediate_size': 29568, 'vocab_size': 152064}" },
    { "Qwen/Qwen3-14B", 14768307200ULL,
      "{'model_type': 'qwen3', 'hidden_size': 5120, 'num_hidden_layers': 40, 'num_attention_heads': 40, "
      "'num_key_value_heads': 8, 'intermediate_size': 17408, 'vocab_size': 151936}" },
    { "zai-org/GLM-4.7-Flash (30B-A3B)", 29943393920ULL,
      "{'model_type': 'glm4_moe_lite', 'hidden_size': 2048, 'num_hidden_layers': 47, 'num_attention_heads': "
      "20, 'num_key_value_heads': 20, 'intermediate_size': 10240, 'vocab_size': 154880, 'n_routed_experts': "
      "64, 'num_experts_per_tok': 4, 'moe_intermediate_size': 1536, 'kv_lora_rank': 512, 'q_lora_rank': 768, "
      "'qk_rope_head_dim': 64, 'qk_nope_head_dim': 192, 'v_head_dim': 256, 'n_shared_experts': 1, "
      "'first_k_dense_replace': 1}" },
    { "Qwen/Qwen3-Next-80B-A3B", 79674391296ULL,
      "{'model_type': 'qwen3_next', 'hidden_size': 2048, 'num_hidden_layers': 48, 'num_attention_heads': 16, "
      "'num_key_value_heads': 2, 'head_dim': 256, 'intermediate_size': 5120, 'vocab_size': 151936, "
      "'num_experts': 512, 'num_experts_per_tok': 10, 'moe_intermediate_size': 512, "
      "'shared_expert_intermediate_size': 512, 'linear_num_key_heads': 16, 'linear_key_head_dim': 128, "
      "'linear_num_value_heads': 32, 'linear_value_head_dim': 128, 'linear_conv_kernel_dim': 4, "
      "'full_attention_interval': 4}" },
};

static uint64_t language_params(const struct uma_model *model) {
    return uma_model_params(model) - model->totals[UMA_CLASS_MTP].params - model->totals[UMA_CLASS_VISION].params;
}

static void parameters_follow_from_the_configuration(void **state) {
    (void)state;
    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        _cleanup_model_ struct uma_model *m = config_model(rows[i].config);
        uint64_t params = language_params(m);
        uint64_t off = params > rows[i].params ? params - rows[i].params : rows[i].params - params;
        if (off > rows[i].params / 10000 || !m->architecture_known || m->warning_count)
            fail_msg("%s: %llu parameters, %llu published (%s)", rows[i].model, (unsigned long long)params,
                     (unsigned long long)rows[i].params, m->warning_count ? m->warnings[0] : "no warning");
    }
}

/* NVIDIA-Nemotron-3-Super-120B-A12B: 120.6 billion parameters by its card; experts see a latent of 1,024 */
static void a_hybrid_of_state_spaces_and_latent_experts(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = config_model(
        "{'model_type': 'nemotron_h', 'hidden_size': 4096, 'num_hidden_layers': 88, 'vocab_size': 131072, 'num_attention_heads': 32,"
        "'num_key_value_heads': 2, 'head_dim': 128, 'intermediate_size': 2688, 'moe_intermediate_size': 2688, 'moe_latent_size': 1024,"
        "'moe_shared_expert_intermediate_size': 5376, 'n_routed_experts': 512, 'n_shared_experts': 1, 'num_experts_per_tok': 22,"
        "'mamba_num_heads': 128, 'mamba_head_dim': 64, 'ssm_state_size': 128, 'n_groups': 8, 'conv_kernel': 4, 'expand': 2,"
        "'num_nextn_predict_layers': 1, 'time_step_limit': [0.0, Infinity], 'tie_word_embeddings': false, 'hybrid_override_pattern':"
        "'MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME'}");
    assert_int_equal(language_params(m), 120668707840);
    assert_int_equal(m->layers[0].mixer, UMA_MIXER_MAMBA2);
    assert_int_equal(m->layers[0].ffn, UMA_FFN_NONE);
    assert_int_equal(m->layers[1].mixer, UMA_MIXER_NONE);
    assert_int_equal(m->layers[1].ffn, UMA_FFN_MOE);
    assert_int_equal(m->layers[1].expert_input, 1024);
    assert_int_equal(m->layers[7].mixer, UMA_MIXER_ATTENTION);
    assert_int_equal(m->mtp_layers, 1);
    assert_true(m->totals[UMA_CLASS_MTP].params > 0);
}

static const char llama[] = "{'model_type': 'llama', 'hidden_size': 4096, 'num_hidden_layers': 32, 'num_attention_heads': 32,"
                            "'num_key_value_heads': 8, 'intermediate_size': 14336, 'vocab_size': 128256, 'torch_dtype': 'bfloat16'}";

/* NF4 with double quantisation is 4.127 bits (arXiv:2305.14314); embedding, output projection and norms stay in 16 */
static void bytes_follow_the_format(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = config_model(llama);
    uint64_t linears = m->totals[UMA_CLASS_ATTENTION].params + m->totals[UMA_CLASS_MLP].params;
    assert_int_equal(uma_model_bytes(m), 2 * uma_model_params(m));
    uma_model_set_format(m, UMA_FORMAT_NF4_DQ);
    uint64_t expected = 2 * (uma_model_params(m) - linears) + linears / 16384 * 8452;
    assert_int_equal(uma_model_bytes(m), expected);
    assert_int_equal(m->class_format[UMA_CLASS_EMBEDDING], UMA_FORMAT_BF16);
    uma_model_set_format(m, UMA_FORMAT_F32);
    assert_int_equal(uma_model_bytes(m), 4 * uma_model_params(m));
    uma_model_set_format(m, UMA_FORMAT_UNKNOWN);
    assert_int_equal(uma_model_bytes(m), 4 * uma_model_params(m));
}

static void linears_of_a_layer(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = config_model(llama);
    struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
    assert_int_equal(uma_model_linears(m, 0, linears), 7);
    assert_int_equal(linears[1].role, UMA_LINEAR_K);
    assert_int_equal(linears[1].out, 1024);
    assert_int_equal(linears[6].role, UMA_LINEAR_DOWN);
    assert_int_equal(linears[6].in, 14336);
    assert_int_equal(uma_model_linears(m, 32, linears), 0);
    _cleanup_model_ struct uma_model *moe = config_model(
        "{'model_type': 'deepseek_v32', 'hidden_size': 7168, 'num_hidden_layers': 4, 'num_attention_heads': 128, 'kv_lora_rank': 512,"
        "'q_lora_rank': 1536, 'qk_rope_head_dim': 64, 'qk_nope_head_dim': 128, 'v_head_dim': 128, 'index_head_dim': 128, 'index_n_heads': 64,"
        "'intermediate_size': 18432, 'moe_intermediate_size': 2048, 'n_routed_experts': 256, 'n_shared_experts': 1, 'num_experts_per_tok': 8,"
        "'first_k_dense_replace': 3, 'vocab_size': 129280}");
    size_t n = uma_model_linears(moe, 3, linears);
    uint32_t copies = 0;
    uint64_t roles = 0;
    for (size_t i = 0; i < n; i++) {
        roles |= UMA_LINEAR_BIT(linears[i].role);
        copies += linears[i].copies;
    }
    assert_int_equal(n, 15); /* q_a q_b kv_a kv_b o, three of the indexer, router, three experts, three shared */
    assert_int_equal(copies, 5 + 3 + 1 + 3 * 256 + 3);
    assert_true(roles & UMA_LINEAR_BIT(UMA_LINEAR_KV_B) && roles & UMA_LINEAR_BIT(UMA_LINEAR_INDEX) &&
                !(roles & UMA_LINEAR_BIT(UMA_LINEAR_K)));
}

static void sums_saturate(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = uma_model_new(2);
    m->hidden = UINT32_MAX;
    m->vocab = UINT64_MAX;
    for (int i = 0; i < 2; i++)
        m->layers[i] = (struct uma_model_layer){ .mixer = UMA_MIXER_ATTENTION,
                                                 .ffn = UMA_FFN_MOE,
                                                 .heads = UINT32_MAX,
                                                 .kv_heads = UINT32_MAX,
                                                 .head_dim = UINT32_MAX,
                                                 .v_head_dim = UINT32_MAX,
                                                 .experts = UINT32_MAX,
                                                 .ffn_size = UINT64_MAX };
    uma_structure_count(m);
    assert_true(uma_model_params(m) == UINT64_MAX);
    assert_true(uma_model_bytes(m) == UINT64_MAX);
}

static void a_built_model_keeps_its_bounds(void **state) {
    (void)state;
    assert_null(uma_model_new(UMA_MODEL_LAYERS_MAX + 1));
    _cleanup_model_ struct uma_model *m = uma_model_new(0);
    assert_int_equal(m->norms_per_layer, 2);
    for (int i = 0; i < UMA_MODEL_WARNINGS_MAX + 3; i++)
        uma_model_warn(m, "%d %0250d", i, i);
    uma_model_warn(m, "%d %0250d", 0, 0); /* said already */
    assert_int_equal(m->warning_count, UMA_MODEL_WARNINGS_MAX);
    assert_int_equal(strlen(m->warnings[0]), UMA_MODEL_WARNING_TEXT - 1);
    assert_int_equal(uma_model_string(&m->name, "one"), 0);
    assert_int_equal(uma_model_string(&m->name, "two"), 0);
    assert_string_equal(m->name, "two");
    assert_null(uma_model_free(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_follow_from_the_configuration),
        cmocka_unit_test(a_hybrid_of_state_spaces_and_latent_experts),
        cmocka_unit_test(bytes_follow_the_format),
        cmocka_unit_test(linears_of_a_layer),
        cmocka_unit_test(sums_saturate),
        cmocka_unit_test(a_built_model_keeps_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
