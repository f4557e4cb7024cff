/* SPDX-License-Identifier: MIT */
/* plan_configs.h - models that tests of the planner share: configurations as published, no files. */
#pragma once

#include "config_text.h"

/* Llama 3.1 8B: 8.03 B parameters (Meta's model card). */
#define LLAMA_8B                                                                                                                           \
    "{\"model_type\":\"llama\",\"hidden_size\":4096,\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,"        \
    "\"intermediate_size\":14336,\"vocab_size\":128256,\"max_position_embeddings\":131072,\"tie_word_embeddings\":false,"                  \
    "\"torch_dtype\":\"bfloat16\"}"
/* Llama 2 70B: 68.98 B parameters. */
#define LLAMA_70B                                                                                                                          \
    "{\"model_type\":\"llama\",\"hidden_size\":8192,\"num_hidden_layers\":80,\"num_attention_heads\":64,\"num_key_value_heads\":8,"        \
    "\"intermediate_size\":28672,\"vocab_size\":32000,\"max_position_embeddings\":4096,\"tie_word_embeddings\":false,"                     \
    "\"torch_dtype\":\"bfloat16\"}"
