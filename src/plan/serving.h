/* SPDX-License-Identifier: MIT */
/*
 * serving.h - one entry point per serving engine, behind uma_plan_serve. Pure; nothing here reads the machine.
 *
 * What an entry point may rely on: `serve` has passed uma_serve_defaults and the checks of uma_plan_serve, so context, sequences, tp, pp,
 * nodes, batch, ubatch and batched_tokens are > 0 and bounded, truths are YES or NO, the KV formats are set, and `serve->engine` is theirs.
 * What it owes: an estimate per rank with its terms added and summed (uma_estimate_sum), reserved, context, device, device_high, host, load,
 * warnings and flags. *ret_estimate is untouched on failure.
 */
#pragma once

#include "plan/estimate.h"
#include "uma_plan.h"

typedef int uma_plan_serve_fn(const struct uma_model *model, const struct uma_serve *serve, struct uma_estimate *ret_estimate,
                              struct uma_error *err);

/* serving_llama_cpp.c: llama.cpp and ik_llama.cpp, and Ollama, which runs the same graphs. */
uma_plan_serve_fn uma_plan_serve_llama_cpp;
/* serving_transformers.c: generate() of transformers, litgpt, torchao: no engine, a dynamic cache. */
uma_plan_serve_fn uma_plan_serve_transformers;
/* serving_vllm.c, serving_sglang.c, serving_trt_llm.c */
uma_plan_serve_fn uma_plan_serve_vllm;
uma_plan_serve_fn uma_plan_serve_sglang;
uma_plan_serve_fn uma_plan_serve_trt_llm;
