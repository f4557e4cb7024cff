#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""megatron_configs.py CHECKOUT > megatron_configs.csv - what the configurations of Megatron-LM's functional tests say of their jobs.

CHECKOUT is a checkout of github.com/NVIDIA/Megatron-LM. Each tests/functional_tests/test_cases/*/*/model_config.yaml whose recorded values hold
allocated memory becomes one line: the `umactl plan` arguments for it, without what depends on the machine, and what those cannot say ("open").
"""
import csv
import glob
import json
import os
import sys

import yaml

# Vocabularies that tokenizers bring along; the test's data folder is not published, the sizes are.
VOCABULARIES = [("256k", 256000), ("multiMix", 131072), ("deepseek", 129280), ("DeepSeek", 129280), ("llava", 32064), ("qwen3", 151936)]


def arguments_of(config):
    flat = {}
    for key, value in (config.get("MODEL_ARGS") or {}).items():
        for k, v in value.items() if isinstance(value, dict) else [(key, value)]:
            flat[k.lstrip("-")] = v
    return flat


def vocabulary(args, family):
    kind, model = str(args.get("tokenizer-type", "GPT2BPETokenizer")), str(args.get("tokenizer-model", ""))
    if "Bert" in kind or family in ("bert", "t5"):
        return 28996 + int(args.get("vocab-extra-ids", 0))
    if "GPT2" in kind:
        return 50257
    for word, size in VOCABULARIES:
        if word in model:
            return size
    if args.get("vocab-size"):
        return int(args["vocab-size"])
    return 32000 if "Llama2" in kind else 0


def words_of(family, config):
    args, env = arguments_of(config), config.get("ENV_VARS") or {}
    number = lambda key, default=0: int(args.get(key) or default)
    yes = lambda key: bool(args.get(key))
    opens = []
    layers, hidden, heads = number("num-layers"), number("hidden-size"), number("num-attention-heads")
    pattern = str(args.get("hybrid-layer-pattern") or args.get("hybrid-override-pattern") or "")
    if pattern and not layers:
        layers = sum(pattern.split("/")[0].count(c) for c in "M*-E")
    if not (layers and hidden and heads):
        opens.append("shape")
    if family == "t5":
        opens.append("encoder and decoder")
    if family == "mimo":
        opens.append("vision tower, frozen parts")
    tp, pp = number("tensor-model-parallel-size", 1), number("pipeline-model-parallel-size", 1)
    gated, experts = yes("swiglu"), number("num-experts")
    ffn = number("ffn-hidden-size") or (int(4 * hidden * 2 / 3) // 64 * 64 if gated else 4 * hidden)
    vocab = vocabulary(args, family)
    if not vocab:
        opens.append("vocabulary")
    rms = args.get("normalization") == "RMSNorm"
    truth = lambda value: "yes" if value else "no"
    words = ["--hidden", hidden, "--layers", layers, "--heads", heads, "--kv-heads",
             number("num-query-groups", heads) if yes("group-query-attention") else heads,
             "--head-dim", number("kv-channels", hidden // heads if heads else 0), "--ffn", ffn, "--vocab", vocab, "--tied",
             truth(not yes("untie-embeddings-and-output-weights")), "--gated", truth(gated), "--bias", truth(not yes("disable-bias-linear")),
             "--norm-bias", truth(not rms)]
    if args.get("position-embedding-type", "learned_absolute") == "learned_absolute" and not pattern and family != "mimo":
        words += ["--positions", number("max-position-embeddings")]
    if experts:
        words += ["--experts", experts, "--experts-per-token", number("moe-router-topk", 2), "--expert-ffn", number("moe-ffn-hidden-size", ffn)]
        if number("moe-shared-expert-intermediate-size"):
            words += ["--shared-ffn", number("moe-shared-expert-intermediate-size")]
        leading = str(args.get("moe-layer-freq", "")).split("+")[0].strip("([0]* )")
        if str(args.get("moe-layer-freq", "")).startswith("([0]*"):
            words += ["--dense-layers", leading]
    if number("mtp-num-layers"):
        words += ["--mtp-layers", number("mtp-num-layers")]
    if yes("multi-latent-attention"):
        for option, key, default in (("q-lora-rank", "q-lora-rank", 0), ("kv-lora-rank", "kv-lora-rank", 32), ("qk-nope-dim", "qk-head-dim", 128),
                                     ("qk-rope-dim", "qk-pos-emb-head-dim", 64), ("v-head-dim", "v-head-dim", 128)):
            if number(key, default):
                words += ["--" + option, number(key, default)]
    if pattern:
        words += ["--pattern", pattern.split("/")[0].replace("|", "")]
        for option, key in (("ssm-heads", "mamba-num-heads"), ("ssm-head-dim", "mamba-head-dim"), ("ssm-state", "mamba-state-dim"),
                            ("ssm-groups", "mamba-num-groups")):
            if number(key):
                words += ["--" + option, number(key)]
    words += ["--method", "pretrain", "--framework", "megatron", "--dtype", "fp16" if yes("fp16") else "bf16" if yes("bf16") else "fp32"]
    if args.get("fp8-format"):
        words += ["--compute", "mxfp8" if args.get("fp8-recipe") == "mxfp8" else "fp8"]
        if yes("fp8-param-gather"):
            words[words.index("--dtype") + 1] = "fp8"
    words += ["--optimizer", "muon" if "muon" in str(args.get("optimizer", "")) else "adamw"]
    batch = number("micro-batch-size", 1)
    words += ["--batch", batch, "--seq", number("seq-length", number("encoder-seq-length", 1024))]
    for option, key in (("tp", "tensor-model-parallel-size"), ("pp", "pipeline-model-parallel-size"), ("cp", "context-parallel-size"),
                        ("ep", "expert-model-parallel-size"), ("expert-tp", "expert-tensor-parallel-size")):
        if number(key) > 1 or (option == "expert-tp" and number(key) == 1 and tp > 1):
            words += ["--" + option, number(key)]
    chunks = number("num-virtual-stages-per-pipeline-rank", 1)
    if number("num-layers-per-virtual-pipeline-stage"):
        chunks = max(1, layers // pp // number("num-layers-per-virtual-pipeline-stage"))
    if "|" in pattern:
        chunks = max(1, (pattern.count("|") + 1) // pp)
    if chunks > 1:
        words += ["--virtual-stages", chunks]
    if number("microbatch-group-size-per-virtual-pipeline-stage"):
        words += ["--microbatch-group", number("microbatch-group-size-per-virtual-pipeline-stage")]
    if any(args.get(k) for k in ("pipeline-model-parallel-layout", "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers")):
        opens.append("uneven stages")
    if yes("sequence-parallel") and tp > 1:
        words += ["--sequence-parallel"]
    if yes("use-distributed-optimizer"):
        words += ["--distributed-optimizer"]
    if yes("use-megatron-fsdp"):
        words += ["--shard", {"optim": "zero1", "optim_grads": "zero2"}.get(args.get("data-parallel-sharding-strategy"), "fsdp")]
    granularity = args.get("recompute-granularity")
    words += ["--checkpointing", {"full": "on", "selective": "selective"}.get(granularity, "off")]
    if granularity == "full" and number("recompute-num-layers") > 1:
        words += ["--recompute-layers", number("recompute-num-layers")]
    if granularity == "selective" and args.get("recompute-modules"):
        words += ["--recompute-modules", ",".join(str(args["recompute-modules"]).strip("[]").split())]
    local = args.get("transformer-impl") == "local" or args.get("spec") == "local"
    words += ["--attention", "eager" if local or args.get("attention-backend") in ("unfused", "local") else "flash"]
    if yes("cross-entropy-loss-fusion"):
        words += ["--loss", "fused"]
    words += ["--dropout", truth(float(args.get("hidden-dropout", 0.1)) > 0)]
    if local:
        words += ["--transformer-engine", "no"]
    if experts and not yes("moe-grouped-gemm"):
        words += ["--grouped-gemm", "no"]
    if env.get("CUBLAS_WORKSPACE_CONFIG") == ":4096:8":
        words += ["--deterministic", "yes"]
    if yes("grad-reduce-in-bf16"):
        words += ["--gradients", "bf16"]
    if number("make-vocab-size-divisible-by"):
        words += ["--vocab-multiple", number("make-vocab-size-divisible-by")]
    if pp > 1:
        words += ["--stage", "last"]
    if args.get("perform-rl-step"):
        opens.append("generation engine beside the training")
    if args.get("cuda-graph-impl") or args.get("enable-cuda-graph"):
        opens.append("CUDA graphs' pools")
    if number("num-distributed-optimizer-instances", 1) > 1:
        opens.append("optimizer shared out over a part of the ranks")
    if args.get("train-iters") and number("train-iters") < 3:
        opens.append("recorded before the optimizer's states exist")
    if "shape" in opens:
        words = []
    return [str(w) for w in words], opens, number("global-batch-size"), batch


def main(checkout):
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["test", "global_batch", "micro_batch", "open", "arguments"])
    for path in sorted(glob.glob(os.path.join(checkout, "tests/functional_tests/test_cases/*/*/model_config.yaml"))):
        folder = os.path.dirname(path)
        recorded = any("mem-allocated-bytes" in json.load(open(p, encoding="utf-8")) for p in glob.glob(os.path.join(folder, "golden_values*.json")))
        if not recorded or "inference" in os.path.basename(folder):
            continue
        with open(path, encoding="utf-8") as file:
            config = yaml.safe_load(file)
        words, opens, total, batch = words_of(os.path.basename(os.path.dirname(folder)), config)
        writer.writerow([os.path.basename(folder), total, batch, "; ".join(opens), " ".join(words)])


if __name__ == "__main__":
    main(sys.argv[1])
